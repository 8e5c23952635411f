from __future__ import annotations

from pathlib import Path

from llmprism.model.finding import FindingKind
from llmprism.model.verdict import Source
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import stop_finding, together, write_job

A, B = ("10.0.0.1", "10.0.0.2"), ("10.0.1.1", "10.0.1.2")
ENDS, OTHER = step_ends(40, seed=1), step_ends(40, seed=2)
ERROR = "ERROR: RuntimeError: NCCL communicator was aborted on rank 0, retrying"


def test_jobs_without_logs_keep_their_findings(tmp_path: Path) -> None:
    finding = stop_finding(FindingKind.CRASH, "10.0.0.1", int(ENDS[-1]))
    report = report_of(job_report("job-a", A, ENDS), job_report("job-b", B, OTHER), findings=(finding,))
    found = together(report, write_job(tmp_path / "x", OTHER, addresses=B))
    assert found.findings == (finding,)
    assert found.reading is not None
    assert found.reading.verdicts[0].source is Source.FLOWS
    assert found.reading.jobs[0].job == "job-b"
    assert found.jobs[0].state is report.jobs[0].state


def test_who_is_who_and_the_clock_are_in_the_reading(tmp_path: Path) -> None:
    report = report_of(job_report("job-a", A, ENDS))
    found = together(report, write_job(tmp_path / "x", ENDS + 7_000_000_000, addresses=A[::-1]))
    assert found.reading is not None
    (job,) = found.reading.jobs
    assert [seat.address for seat in job.seats] == ["10.0.0.2", "10.0.0.1"]
    assert job.iteration_shift == -1
    assert all(abs(clock.offset_ns - 7_000_000_000) < 10**8 for clock in job.clocks)
    assert len(job.clocks) == 2
    assert job.unmatched == ()


def test_a_noisy_run_that_goes_on_stays_quiet(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=A)
    for path in folder.iterdir():
        lines = path.read_text().splitlines()
        noisy = [part for line in lines[:30] for part in (line, ERROR, ERROR)] + lines[30:]
        path.write_text("\n".join(noisy) + "\n")
    found = together(report_of(job_report("job-a", A, ENDS)), folder)
    assert found.findings == ()
    assert any("error lines that the run survived" in note for note in found.notes)


def test_two_jobs_are_read_from_one_folder(tmp_path: Path) -> None:
    write_job(tmp_path / "one", ENDS, addresses=A)
    write_job(tmp_path / "two", OTHER, addresses=B)
    report = report_of(job_report("job-a", A, ENDS), job_report("job-b", B, OTHER))
    found = together(report, tmp_path)
    assert found.reading is not None
    assert [(job.name, job.job) for job in found.reading.jobs] == [("one", "job-a"), ("two", "job-b")]
