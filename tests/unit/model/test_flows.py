"""Tables of transfers cut by pairs."""

import numpy as np
import pytest

from llmprism.errors import UsageError
from llmprism.model import Window
from unit.builders import Flow, transfer_table

TABLE = transfer_table(
    [Flow("a", "b", 0, 1, 10, ("t", "s")), Flow("a", "c", 0, 1, 10), Flow("c", "a", 0, 1, 10, ("s", "t"))]
)

PAIRS = ("ab", "ac", "ba", "bc", "ca", "cb")


@pytest.fixture
def transfers():
    return transfer_table(
        Flow(src, dst, 10**9 * row, 10**9 * row + 1_000, 5_000 + number)
        for number, (src, dst) in enumerate(PAIRS)
        for row in range(number + 1)
    )


@pytest.mark.parametrize("pairs", [[], [2], [1, 2, 3], [0, 2, 3, 5], [0, 1, 2, 3, 4, 5]])
def test_a_cut_table_has_the_rows_of_its_pairs(transfers, pairs):
    table = transfers.select_pairs(np.array(pairs, dtype=np.int32))
    rows = [row for pair in pairs for row in range(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])]
    assert table.pair_offsets.tolist() == np.cumsum([0] + [pair + 1 for pair in pairs]).tolist()
    for column in ("start_ns", "end_ns", "bytes", "active_ns", "path", "records"):
        np.testing.assert_array_equal(getattr(table, column), getattr(transfers, column)[rows])
        assert getattr(table, column).dtype == getattr(transfers, column).dtype


def test_pairs_are_found_by_their_ends() -> None:
    src, dst = np.array([[0, 0], [2, 1]]), np.array([[1, 2], [0, 0]])
    assert TABLE.pairs_between(src, dst).tolist() == [[0, 1], [2, -1]]


def test_of_the_paths_only_known_ones_are_taken() -> None:
    assert [TABLE.paths[path] for path in TABLE.paths_taken()] == [("s", "t"), ("t", "s")]


def test_a_window_is_watched_up_to_a_later_moment() -> None:
    window = Window(100, 200)
    assert window.watched_until(None) == window
    assert window.watched_until(300) == Window(100, 300)
    assert window.watched_until(150) == window, "a record beyond it was seen"
    with pytest.raises(UsageError, match="first record"):
        window.watched_until(99)
