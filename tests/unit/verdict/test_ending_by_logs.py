"""Endings that only the logs report, and runs that go on by other processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.job import JobState
from llmprism.model.log import CauseClass
from llmprism.model.verdict import Source
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, together, write_job

MEMBERS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
ENDS = step_ends(40)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CLOSED = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.3]:1"
)
LOST = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"
TIMED_OUT = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for "
    "recv operation to complete"
)
FAILED = {rank: [(0.5, CLOSED)] for rank in (0, 1, 3)} | {2: [(0.2, OOM)]}


@pytest.mark.parametrize(("pause_s", "reported"), [(20.0, True), (0.5, False)])
def test_a_job_that_stood_still_when_it_failed_was_started_again(
    tmp_path: Path, pause_s: float, reported: bool
) -> None:
    later = step_ends(40, seed=3) - step_ends(1, seed=3)[0] + int(ENDS[-1]) + int(pause_s * SECOND)
    report = report_of(job_report("job-a", MEMBERS, np.append(ENDS, later)))
    found = together(report, write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=FAILED))
    assert found.reading is not None
    assert bool(found.findings) is reported
    if reported:
        (finding,), (verdict,) = found.findings, found.reading.verdicts
        assert (finding.kind, finding.where.id) == (FindingKind.CRASH, "10.0.0.3")
        assert (verdict.cause.cause_class, verdict.source) == (CauseClass.USER_RESOURCE, Source.BOTH)
        assert finding.end_ns is not None
        assert abs(finding.end_ns - int(later[0])) < SECOND
        assert "came back after" in finding.summary
        assert found.jobs[0].state is JobState.RUNNING


def test_logs_of_the_next_attempt_say_that_it_was_started_again(tmp_path: Path) -> None:
    """Two attempts one after the other, apart by a pause that is no longer than that of a checkpoint."""
    later = step_ends(40, seed=3) - step_ends(1, seed=3)[0] + int(ENDS[-1]) + 2 * SECOND
    ends = np.append(ENDS, later)
    ends[60:] += 4 * SECOND
    report = report_of(job_report("job-a", MEMBERS, ends))
    write_job(tmp_path / "logs" / "try-a", ENDS, addresses=MEMBERS, after=FAILED)
    alone = together(report, tmp_path / "logs")
    assert alone.findings == ()
    write_job(tmp_path / "logs" / "try-b", ends[40:], addresses=MEMBERS)
    both = together(report, tmp_path / "logs")
    assert [finding.kind for finding in both.findings] == [FindingKind.CRASH]


@pytest.mark.parametrize(("step", "left"), [(38, 1), (20, 2)])
def test_slowness_that_begins_with_the_end_is_a_part_of_it(tmp_path: Path, step: int, left: int) -> None:
    where = Where(WhereType.JOB, "job-a")
    stall = Finding(FindingKind.STALL, "job-a", where, int(ENDS[step]), None, 0.03, 0.8, 9.0, "It stood still.", ())
    report = report_of(job_report("job-a", MEMBERS, ENDS, JobState.ENDED), findings=(stall,), end_s=20)
    found = together(report, write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=FAILED))
    assert len(found.findings) == left
    assert found.reading is not None
    assert any("part of it" in note for note in found.reading.notes) is (left == 1)


@pytest.mark.parametrize(("later_s", "reported"), [(0.3, False), (0.0, True)])
def test_a_rank_behind_the_others_hangs_though_the_traffic_ends_where_it_rests(
    tmp_path: Path, later_s: float, reported: bool
) -> None:
    """Where it always prints late in a step, the logs may have been copied before it did."""
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS)
    late = write_job(tmp_path / "y", ENDS + int(later_s * SECOND), addresses=MEMBERS, until={1: 39})
    (late / "rank1.log").replace(folder / "rank1.log")
    report = report_of(job_report("job-a", MEMBERS, ENDS, JobState.ENDED), end_s=60)
    assert [one.kind for one in together(report, folder).findings] == [FindingKind.HANG] * reported


@pytest.mark.parametrize(
    ("text", "reported"), [(TIMED_OUT, True), (LOST, False)], ids=["waited in vain", "lost a peer"]
)
def test_ranks_that_waited_in_vain_were_not_ended_although_the_traffic_ends_at_rest(
    tmp_path: Path, text: str, reported: bool
) -> None:
    """Nobody says how long the flows were watched; a job that somebody ends complains at once, of lost peers."""
    after = {rank: [(30 if reported else 0.5, text)] for rank in range(4)}
    report = report_of(job_report("job-a", MEMBERS, ENDS, JobState.RUNNING), end_s=(int(ENDS[-1]) // SECOND) + 60)
    found = together(report, write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=after))
    assert [finding.kind for finding in found.findings] == ([FindingKind.HANG] if reported else [])
