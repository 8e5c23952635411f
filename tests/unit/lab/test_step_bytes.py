"""Bytes per step tell whether stamps and traffic belong together."""

from __future__ import annotations

import numpy as np
import pytest
from lab.step_bytes import deviation_of_job, step_byte_deviation

ENDS = np.arange(1, 21, dtype=np.int64) * 1000


def records(shift: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One transfer of 500 bytes in the last fifth of every step."""
    start = ENDS - 200 + shift
    return start, start + 150, np.full(20, 500, np.int64)


def test_right_stamps_see_the_same_bytes_in_every_step() -> None:
    assert step_byte_deviation(*records(), ENDS) == 0.0


def test_a_step_that_is_counted_twice_is_found() -> None:
    doubled = np.sort(np.r_[ENDS, ENDS - 500])
    assert step_byte_deviation(*records(), doubled) == pytest.approx(1.0)


def test_a_record_across_the_boundary_counts_on_both_sides() -> None:
    assert step_byte_deviation(*records(shift=100), ENDS) == pytest.approx(0.0)


def test_few_steps_say_nothing() -> None:
    assert step_byte_deviation(*records(), ENDS[:4]) is None


def test_pairs_of_the_set_up_and_of_pipelines_do_not_count() -> None:
    start, end, count = records()
    table = {"src": np.full(20, 1), "dst": np.full(20, 2), "start_ns": start, "end_ns": end, "bytes": count}
    pairs = [{"src": "a", "dst": "b", "kind": "dp", "setup": True}, {"src": "a", "dst": "b", "kind": "pp"}]
    job = {"steps": [{"end_ns": int(moment)} for moment in ENDS], "pairs": pairs}
    assert deviation_of_job(job, table, {"a": 1, "b": 2}) is None
    job["pairs"] = [{"src": "a", "dst": "b", "kind": "dp"}]
    assert deviation_of_job(job, table, {"a": 1, "b": 2}) == 0.0
