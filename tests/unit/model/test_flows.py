import numpy as np

from unit.builders import Flow, transfer_table

TABLE = transfer_table(
    [Flow("a", "b", 0, 1, 10, ("t", "s")), Flow("a", "c", 0, 1, 10), Flow("c", "a", 0, 1, 10, ("s", "t"))]
)


def test_pairs_are_found_by_their_ends() -> None:
    src, dst = np.array([[0, 0], [2, 1]]), np.array([[1, 2], [0, 0]])
    assert TABLE.pairs_between(src, dst).tolist() == [[0, 1], [2, -1]]


def test_of_the_paths_only_known_ones_are_taken() -> None:
    assert [TABLE.paths[path] for path in TABLE.paths_taken()] == [("s", "t"), ("t", "s")]
