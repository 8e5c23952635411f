from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.report import Report
from llmprism.model.verdict import Source
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import together, write_job

MEMBERS = ("10.0.0.1", "10.0.0.2")


def run(tmp_path: Path, factor: float, confidence: float) -> Report:
    """A job whose steps 20 to 29 take `factor` times as long, and a finding that says they took twice as long."""
    lengths = np.diff(step_ends(61, jitter=0.02)).astype(float)
    lengths[20:30] *= factor
    ends = int(step_ends(1)[0]) + np.cumsum(lengths).astype(np.int64)
    where = Where(WhereType.NIC, "10.0.0.2")
    finding = Finding(
        FindingKind.SLOW_NIC, "job-a", where, int(ends[19]), int(ends[29]), 0.5, confidence, 5.0, "NIC is slow.", ()
    )
    report = report_of(job_report("job-a", MEMBERS, ends), findings=(finding,))
    return together(report, write_job(tmp_path / "x", ends, addresses=MEMBERS))


def test_a_slowdown_that_the_logs_measure_makes_a_finding_surer(tmp_path: Path) -> None:
    found = run(tmp_path, 2.0, 0.6)
    assert found.findings[0].confidence == pytest.approx(0.72)
    assert found.reading is not None
    assert found.reading.verdicts[0].source is Source.BOTH
    assert any(item.what == "seconds per iteration in the logs" for item in found.findings[0].evidence)


def test_a_finding_that_cost_nothing_is_withdrawn(tmp_path: Path) -> None:
    found = run(tmp_path, 1.0, 0.6)
    assert found.findings == ()
    assert any("iterations took" in note for note in found.notes)


def test_a_sure_finding_that_cost_nothing_stays_with_doubt(tmp_path: Path) -> None:
    found = run(tmp_path, 1.0, 0.95)
    (finding,) = found.findings
    assert finding.confidence == pytest.approx(0.475)
    assert finding.severity < 0.05
    assert found.reading is not None
    assert found.reading.verdicts[0].contradictions[0].about == "effect"


def test_what_lies_between_says_nothing(tmp_path: Path) -> None:
    found = run(tmp_path, 1.35, 0.6)
    assert found.findings[0].confidence == 0.6
