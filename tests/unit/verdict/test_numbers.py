from __future__ import annotations

from pathlib import Path

from llmprism.model.finding import FindingKind
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, together, write_job

MEMBERS = ("10.0.0.1", "10.0.0.2")
ENDS = step_ends(60)


def test_a_loss_that_is_no_number_is_not_slow_hardware(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, nan_from=40)
    found = together(report_of(job_report("job-a", MEMBERS, ENDS)), folder)
    (finding,) = found.findings
    assert finding.kind is FindingKind.DIVERGED
    assert "usual length" in finding.summary
    assert abs(finding.start_ns - int(ENDS[39])) < SECOND
    assert found.reading is not None
    assert found.reading.verdicts[0].iteration is not None
    assert abs(found.reading.verdicts[0].iteration - 40) <= 1


def test_a_usual_loss_is_no_finding(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS)
    assert together(report_of(job_report("job-a", MEMBERS, ENDS)), folder).findings == ()
