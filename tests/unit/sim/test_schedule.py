from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from llmprism.sim.schedule import instructions


@given(
    st.sampled_from(["1f1b", "gpipe", "zero_bubble", "interleaved"]),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_every_stage_does_all_its_work_once_and_forward_first(
    schedule: str, stages: int, rounds: int, chunks: int
) -> None:
    micro_batches = rounds * stages
    chunks = chunks if schedule == "interleaved" else 1
    for stage in range(stages):
        order = instructions(schedule, stage, stages, micro_batches, chunks)
        count = Counter(order)
        assert set(count.values()) == {1}
        kinds = Counter(item.what for item in order)
        assert kinds["F"] == kinds["B"] == micro_batches * chunks
        assert kinds["W"] == (micro_batches if schedule == "zero_bubble" else 0)
        position = {item: i for i, item in enumerate(order)}
        for item in order:
            if item.what == "B":
                assert position[item._replace(what="F")] < position[item]
            if item.what == "W":
                assert position[item._replace(what="B")] < position[item]


def test_one_f_one_b_keeps_few_micro_batches_alive_and_gpipe_all() -> None:
    def alive(schedule: str) -> int:
        most = now = 0
        for item in instructions(schedule, 0, 4, 16):
            now += 1 if item.what == "F" else -1
            most = max(most, now)
        return most

    assert alive("1f1b") == 4
    assert alive("gpipe") == 16
