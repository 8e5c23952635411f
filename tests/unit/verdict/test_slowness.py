from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.log import CauseClass
from llmprism.model.report import Report
from llmprism.model.verdict import Source
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, stamp, together, write_job

MEMBERS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
ENDS = step_ends(60)
SINCE = int(ENDS[30])


def slow(kind: FindingKind, place: str | tuple[str, ...], type_: WhereType = WhereType.GPU) -> Finding:
    return Finding(kind, "job-a", Where(type_, place), SINCE, int(ENDS[45]), 0.03, 0.9, 12.0, "GPU is slow.", ())


def reported(finding: Finding) -> Report:
    return report_of(job_report("job-a", MEMBERS, ENDS), findings=(finding,))


def with_kernel_log(folder: Path, rank: int, when_ns: int, text: str) -> Path:
    write_job(folder, ENDS, addresses=MEMBERS)
    path = folder / f"rank{rank}.log"
    lines = path.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith(f"[{stamp(when_ns)[:19]}"))
    lines.insert(at, f"[{stamp(when_ns)}] {text}")
    path.write_text("\n".join(lines) + "\n")
    return folder


XID = "NVRM: Xid (PCI:0000:3b:00): 63, pid=1234, Row remapping: a pending row remap, double-bit ECC error"


def test_a_slow_gpu_gains_the_line_of_its_rank(tmp_path: Path) -> None:
    folder = with_kernel_log(tmp_path / "x", 1, SINCE - SECOND, XID)
    found = together(reported(slow(FindingKind.SLOW_GPU, "10.0.0.2")), folder)
    assert found.reading is not None
    (verdict,) = found.reading.verdicts
    assert verdict.cause.cause_class is CauseClass.HARDWARE_GPU
    assert verdict.cause.signature is not None
    assert 0.5 < verdict.cause.confidence < 1
    assert verdict.source is Source.BOTH
    assert "logs" in found.findings[0].summary
    assert found.reading.quotes[verdict.quotes[0]].rank == 1


@pytest.mark.parametrize(
    ("kind", "line", "cause", "signature"),
    [
        (
            FindingKind.SLOW_GPU,
            "kernel: NVRM: GPU at PCI:0000:3b:00: HW Thermal Slowdown: Active",
            CauseClass.HARDWARE_GPU,
            "gpu.thermal",
        ),
        (FindingKind.SLOW_GPU, XID, CauseClass.HARDWARE_GPU, "gpu.xid63"),
        (
            FindingKind.SLOW_NIC,
            "mlx5_core 0000:5e:00.0 ens3f0np0: Link down",
            CauseClass.NETWORK,
            None,
        ),
        (
            FindingKind.SLOW_GPU,
            "kernel: nfs: server storage01 not responding, still trying",
            CauseClass.STORAGE,
            None,
        ),
    ],
)
def test_what_the_kernel_wrote_while_it_was_slow_is_the_cause(
    tmp_path: Path, kind: FindingKind, line: str, cause: CauseClass, signature: str | None
) -> None:
    folder = with_kernel_log(tmp_path / "x", 1, SINCE + SECOND, line)
    type_ = WhereType.NIC if kind is FindingKind.SLOW_NIC else WhereType.GPU
    found = together(reported(slow(kind, "10.0.0.2", type_)), folder)
    assert found.reading is not None
    (verdict,) = found.reading.verdicts
    assert (verdict.cause.cause_class, verdict.rank) == (cause, 1)
    assert signature in (None, verdict.cause.signature)
    assert line.split(": ", 1)[-1][:20] in found.reading.quotes[verdict.quotes[0]].text


def test_lines_of_other_ranks_and_other_times_are_not_its_cause(tmp_path: Path) -> None:
    other = with_kernel_log(tmp_path / "x", 2, SINCE - SECOND, XID)
    found = together(reported(slow(FindingKind.SLOW_GPU, "10.0.0.2")), other)
    assert found.reading is not None
    assert found.reading.verdicts[0].cause.signature is None
    assert found.reading.verdicts[0].source is Source.FLOWS


def test_slowness_without_a_place_takes_that_of_the_lines(tmp_path: Path) -> None:
    folder = with_kernel_log(tmp_path / "x", 3, SINCE + SECOND, XID)
    found = together(reported(slow(FindingKind.SLOW_STEP, "job-a", WhereType.JOB)), folder)
    (finding,) = found.findings
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_GPU, "10.0.0.4")
    assert 0.5 < finding.confidence < 0.9, "less sure than the flows were of the slow step: only lines name the place"


def test_findings_without_a_word_in_the_logs_stay_as_they_were(tmp_path: Path) -> None:
    finding = slow(FindingKind.SLOW_NIC, "10.0.0.2", WhereType.NIC)
    found = together(reported(finding), write_job(tmp_path / "x", ENDS, addresses=MEMBERS))
    assert found.findings == (finding,)
    assert found.reading is not None
    (verdict,) = found.reading.verdicts
    assert (verdict.cause.cause_class, verdict.rank) == (CauseClass.HARDWARE_NIC, 1)
    assert verdict.flows == finding
    assert verdict.iteration == 32


def slowed(factor: float) -> np.ndarray:
    lengths = np.diff(step_ends(81, jitter=0.02)).astype(float)
    lengths[40:] *= factor
    return int(ENDS[0]) + np.cumsum(lengths).astype(np.int64)


def test_a_slowdown_that_both_see_and_nobody_explains_is_reported(tmp_path: Path) -> None:
    ends = slowed(4.0)
    found = together(report_of(job_report("job-a", MEMBERS, ends)), write_job(tmp_path / "x", ends, addresses=MEMBERS))
    (finding,) = found.findings
    assert (finding.kind, finding.where.type) == (FindingKind.SLOW_STEP, WhereType.JOB)
    assert found.reading is not None
    assert found.reading.verdicts[0].source is Source.BOTH
    assert abs(finding.start_ns - int(ends[40])) < 8 * SECOND
