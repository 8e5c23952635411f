"""The check of a capture finds what would make its truth wrong."""

from __future__ import annotations

from typing import Any

import pytest
from lab.checks import check_capture
from lab.notes import JobNotes
from lab.truth import truth_document, window_of

from unit.lab.notes_of_a_run import ADDRESSES, SECOND, bytes_of_steps, fault, job, run


def problems(recorded: dict[str, Any], notes: JobNotes, pair_bytes: Any = None) -> list[str]:
    steady = {"train": bytes_of_steps() if pair_bytes is None else pair_bytes}
    truth = truth_document(recorded, [notes], window_of(recorded, [notes]), steady, steady["train"])
    return check_capture(recorded, [notes], truth, steady)


def test_a_good_capture_has_no_problem() -> None:
    assert problems(run(), job()) == []


def test_a_death_needs_a_fault() -> None:
    assert problems(run(), job(ended=False)) == ["job train: 4 ranks died without a fault"]
    assert problems(run(fault("crash", start=40 * SECOND)), job(ended=False)) == []


def test_traffic_outside_of_the_groups_is_found() -> None:
    stray = {**bytes_of_steps(), (ADDRESSES[0], ADDRESSES[3]): 900_000}
    assert "outside of all groups" in problems(run(), job(), stray)[0]


def test_ranks_must_agree_on_the_steps() -> None:
    short, long = job(steps=10), job(steps=20)
    mixed = (short.attempts[0][0], *long.attempts[0][1:])
    notes = JobNotes("train", ADDRESSES, long.ranks, (mixed,))
    assert problems(run(), notes) == ["job train: ranks did between 10 and 20 steps"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"failed": ["train"]}, "job train did not run to its end"),
        ({"dropped_packets": 3}, "3 packets were dropped"),
        ({"faults": [fault("crash", forced=True)]}, "the rank had to be killed"),
    ],
)
def test_what_went_wrong_while_recording_is_a_problem(change: dict[str, Any], message: str) -> None:
    assert any(message in text for text in problems({**run(), **change}, job()))


def test_a_fault_that_was_not_planted_is_a_problem() -> None:
    recorded = run(fault("crash"))
    recorded["faults"] = []
    assert "not every fault was planted" in problems(recorded, job())


def test_a_job_that_goes_on_after_a_hang_is_a_problem() -> None:
    went_on = "job train: the job went on after the fault hang"
    assert went_on in problems(run(fault("hang", start=12 * SECOND)), job())
    assert went_on not in problems(run(fault("hang", start=60 * SECOND)), job())
    assert went_on not in problems(run(fault("hang", start=12 * SECOND), restart_s=3.0), job())


def _slower(notes: JobNotes, steps: range) -> JobNotes:
    """The same run with these steps half as long again and the later ones after them."""
    attempt = []
    for rank in notes.attempts[0]:
        shift, said = 0, []
        for note in rank:
            if note["kind"] == "step":
                more = SECOND // 2 if note["step"] in steps else 0
                note = {**note, "start": note["start"] + shift, "gradients": note["gradients"] + shift + more}
                note["end"] += shift + more
                shift += more
            said.append(note)
        attempt.append(tuple(said))
    return JobNotes(notes.name, notes.addresses, notes.ranks, (tuple(attempt),))


def test_a_slowdown_that_no_fault_explains_is_a_problem() -> None:
    slow = _slower(job(), range(8, 12))
    (problem,) = problems(run(), slow)
    assert "vary by 1.5" in problem
    planted = fault("slow_gpu", start=28 * SECOND, end=34 * SECOND, for_s=6.0)
    assert problems(run(planted), slow) == []
