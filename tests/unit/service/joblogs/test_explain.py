from __future__ import annotations

from pathlib import Path

from llmprism.model.finding import FindingKind
from llmprism.model.job import JobState
from llmprism.service.joblogs.explain import LogExplainer
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, stop_finding, write_job

MEMBERS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
ENDS = step_ends(40)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
STOP = int(ENDS[-1]) + SECOND // 10


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def crashed():
    finding = stop_finding(FindingKind.CRASH, "10.0.0.3", STOP)
    return report_of(job_report("job-a", MEMBERS, ENDS, JobState.CRASHED), findings=(finding,), end_s=20)


def test_a_finding_gains_its_cause_when_the_lines_arrive(tmp_path: Path) -> None:
    clock = Clock()
    explainer = LogExplainer(tmp_path, clock)
    bare = crashed()
    assert explainer.explain(bare).report is bare
    write_job(tmp_path / "pushed/train", ENDS, addresses=MEMBERS, after={2: [(0.2, OOM)]})
    clock.now += 1000
    explained = explainer.explain(bare).report
    assert "out of GPU memory" in explained.findings[0].summary
    assert explained.reading is not None
    assert len(explained.reading.verdicts) == 1
    assert explainer.reads == 1


def test_what_began_before_the_window_is_not_reported_again(tmp_path: Path) -> None:
    write_job(tmp_path / "pushed/train", ENDS, addresses=MEMBERS, after={2: [(0.2, OOM)]})
    later = report_of(job_report("job-a", MEMBERS, step_ends(40, seed=5) + 700 * SECOND), end_s=20)
    assert LogExplainer(tmp_path, Clock()).explain(later).report.findings == ()


def test_logs_are_read_now_and_then_only_while_nothing_is_wrong(tmp_path: Path) -> None:
    clock = Clock()
    explainer = LogExplainer(tmp_path, clock)
    quiet = report_of(job_report("job-a", MEMBERS, ENDS))
    write_job(tmp_path / "pushed/train", ENDS, addresses=MEMBERS)
    assert explainer.explain(quiet).report.findings == ()
    write_job(tmp_path / "pushed/train", ENDS, addresses=MEMBERS, nan_from=20)
    clock.now += 1
    assert explainer.explain(quiet).report.findings == ()
    clock.now += 1000
    assert [finding.kind for finding in explainer.explain(quiet).report.findings] == [FindingKind.DIVERGED]


def test_unreadable_logs_leave_the_report_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "pushed/train").mkdir(parents=True)
    (tmp_path / "pushed/train/rank0.log").write_bytes(b"\x00\x01\x02" * 100)
    bare = crashed()
    assert LogExplainer(tmp_path, Clock()).explain(bare).report is bare


def test_lines_of_one_job_that_came_several_ways_are_read_as_one_jobs(tmp_path: Path) -> None:
    write_job(tmp_path / "all/train", ENDS, addresses=MEMBERS, after={2: [(0.2, OOM)]})
    for number, way in enumerate(("pushed@w1", "pushed@w2", "kafka@w1", "kafka@w2")):
        (tmp_path / f"spools/{way}/train").mkdir(parents=True)
        name = f"rank{number}.log"
        (tmp_path / f"all/train/{name}").rename(tmp_path / f"spools/{way}/train/{name}")
    explained = LogExplainer(tmp_path / "spools", Clock()).explain(crashed()).report
    assert explained.reading is not None
    assert [len(job.seats) for job in explained.reading.jobs] == [4]
    assert explained.reading.verdicts[0].rank == 2


def test_a_stop_that_the_logs_explain_away_is_withdrawn_with_the_reason(tmp_path: Path) -> None:
    cancelled = "slurmstepd: error: *** JOB 42 ON server00 CANCELLED AT 2026-11-14T00:00:05 ***"
    write_job(tmp_path / "pushed/train", ENDS, addresses=MEMBERS, after={0: [(0.2, cancelled)]})
    found = LogExplainer(tmp_path, Clock()).explain(crashed())
    assert found.report.findings == ()
    ((finding, reason),) = found.withdrawn
    assert finding.kind is FindingKind.CRASH
    assert "was ended by somebody" in reason
    assert found.report.jobs[0].state is JobState.ENDED
