"""The published rules, as the paper has them: ten iterations back, three sigma, isolation, frequent events dropped."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from llmprism.logs.isolation import isolation_scores
from llmprism.logs.l4 import LOOK_BACK, diagnose_by_l4, odd_iteration
from llmprism.logs.library import load_library
from llmprism.logs.reader import read_job, read_job_lines
from llmprism.logs.reference import Reference

LIBRARY = load_library()


def write(folder: Path, odd_rank: int | None) -> Path:
    folder.mkdir()
    for r in range(8):
        lines = [line for n in range(1, 31) for line in (f"step {n} loss 2.0", f"fetch batch {n}", "flush cache")]
        if r == odd_rank:
            lines += ["ERROR device lost its mind"] * 3
        (folder / f"rank{r}.log").write_text("\n".join(lines) + "\n")
    return folder


def test_the_isolated_rank_is_first(tmp_path: Path) -> None:
    reference = Reference()
    reference.learn(read_job([write(tmp_path / "good", None)], LIBRARY))
    found = diagnose_by_l4(*read_job_lines([write(tmp_path / "bad", 5)], LIBRARY), reference)
    assert found.suspects[0].rank == 5
    assert [event.template for event in found.events] == ["ERROR device lost its mind"]


def test_an_iteration_is_compared_with_the_ten_before() -> None:
    usual, other = np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])
    mixed = [usual if n % 2 else other for n in range(12)]
    assert odd_iteration([*mixed, np.array([9, 9, 9, 9]), *mixed]) == 12
    # likeness to the last ten is the same for both kinds; to the last three it would flip and alarm
    assert odd_iteration(mixed) is None
    assert LOOK_BACK == 10


def test_events_of_most_good_runs_are_dropped_and_rare_ones_stay(tmp_path: Path) -> None:
    reference = Reference()
    for n in range(5):
        reference.learn(read_job([write(tmp_path / f"good{n}", 5 if n == 0 else None)], LIBRARY))
    found = diagnose_by_l4(*read_job_lines([write(tmp_path / "bad", 5)], LIBRARY), reference)
    assert [event.template for event in found.events] == ["ERROR device lost its mind"]


def test_isolation_finds_the_stranger() -> None:
    data = np.vstack([np.ones((7, 4)), [[1.0, 9.0, 1.0, 1.0]]])
    assert int(np.argmax(isolation_scores(data))) == 7
