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


def run(tmp_path: Path, factor: float, confidence: float, every: int = 1) -> Report:
    """A job of whose steps 20 to 29 each, or every so many, take `factor` times as long, and a finding that says they
    took twice as long."""
    lengths = np.diff(step_ends(61, jitter=0.02)).astype(float)
    lengths[20:30:every] *= factor
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


def test_a_fault_that_comes_and_goes_is_not_withdrawn_for_the_steps_between(tmp_path: Path) -> None:
    assert run(tmp_path, 2.1, 0.6, every=2).findings != ()


def test_one_long_pause_does_not_vouch_for_a_finding(tmp_path: Path) -> None:
    assert run(tmp_path, 50.0, 0.6, every=10).findings == ()


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
