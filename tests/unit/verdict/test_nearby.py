"""Which lines are about the cause of a finding, and which are noise that every log is full of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.log import CauseClass
from llmprism.model.verdict import Verdict
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, stamp, together, write_job

MEMBERS = tuple(f"10.0.0.{number}" for number in range(1, 9))
ENDS = step_ends(60)
SINCE, UNTIL = int(ENDS[30]), int(ENDS[45])
XID63 = "NVRM: Xid (PCI:0000:3b:00): 63, pid=1234, Row remapping: a pending row remap, double-bit ECC error"
XID48 = (
    "NVRM: Xid (PCI:0000:9c:00): 48, pid=3711, name=python3, An uncorrectable double bit error (DBE) has been detected"
)
QUOTA = "OSError: [Errno 122] Disk quota exceeded"
NO_BUFFER = "EXT4-fs (dm-0): I/O error while writing superblock"
PEERMEM = "nvidia_peermem: nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing"


def verdict(
    folder: Path,
    lines: dict[int, list[tuple[int, str]]],
    kind: FindingKind,
    place: str | None,
    *,
    ends: np.ndarray = ENDS,
    flows: np.ndarray | None = None,
    since: int = SINCE,
) -> Verdict:
    """What is made of a finding at a place (None: of the whole job) where ranks write lines at times. `ends` are those
    of the steps that the logs count, `flows` of those that the flows show."""
    write_job(folder, ends, addresses=MEMBERS)
    shown = ends if flows is None else flows
    for rank, some in lines.items():
        path = folder / f"rank{rank}.log"
        text = path.read_text().splitlines()
        for when, line in some:
            at = next(n for n, one in enumerate(text) if one.startswith("[") and one[1:24] >= stamp(when))
            text.insert(at, f"[{stamp(when)}] {line}")
        path.write_text("\n".join(text) + "\n")
    where = Where(WhereType.GPU, place) if place else Where(WhereType.JOB, "job-a")
    until = max(UNTIL, since + 10 * SECOND) if flows is not None else UNTIL
    finding = Finding(kind, "job-a", where, since, until, 0.03, 0.9, 12.0, "It is slow.", ())
    reading = together(report_of(job_report("job-a", MEMBERS, shown), findings=(finding,)), folder).reading
    assert reading is not None
    return reading.verdicts[0]


def everybody(*texts: str, when: int = SINCE) -> dict[int, list[tuple[int, str]]]:
    return {rank: [(when, text) for text in texts] for rank in range(8)}


def test_a_line_that_only_the_slow_rank_writes_is_its_cause(tmp_path: Path) -> None:
    found = verdict(tmp_path, {1: [(SINCE, XID63)]}, FindingKind.SLOW_GPU, MEMBERS[1])
    assert (found.cause.cause_class, found.cause.signature) == (CauseClass.HARDWARE_GPU, "gpu.xid63")


def test_a_line_that_all_ranks_write_does_not_explain_why_one_is_slow(tmp_path: Path) -> None:
    found = verdict(tmp_path, everybody(XID63), FindingKind.SLOW_GPU, MEMBERS[1])
    assert found.cause.signature is None


def test_it_stands_out_of_what_all_write(tmp_path: Path) -> None:
    lines = everybody(QUOTA)
    lines[1].append((SINCE, XID63))
    assert verdict(tmp_path, lines, FindingKind.SLOW_GPU, MEMBERS[1]).cause.signature == "gpu.xid63"


def test_where_every_rank_writes_trouble_of_its_own_nobody_stands_out(tmp_path: Path) -> None:
    own = [XID48, XID63, QUOTA, NO_BUFFER, PEERMEM]
    lines = {rank: [(SINCE, own[rank % 5])] for rank in range(8)}
    assert verdict(tmp_path, lines, FindingKind.SLOW_GPU, MEMBERS[1]).cause.signature is None


def test_trouble_of_another_class_needs_logs_that_are_else_quiet(tmp_path: Path) -> None:
    alone = {1: [(SINCE, QUOTA), (SINCE, NO_BUFFER)]}
    assert verdict(tmp_path / "a", alone, FindingKind.SLOW_GPU, MEMBERS[1]).cause.cause_class is CauseClass.STORAGE
    noisy = {**alone, **{rank: [(SINCE, text)] for rank, text in ((3, XID48), (5, XID63), (6, PEERMEM))}}
    found = verdict(tmp_path / "b", noisy, FindingKind.SLOW_GPU, MEMBERS[1])
    assert found.cause.cause_class is CauseClass.HARDWARE_GPU


@pytest.mark.parametrize(("steps", "counts"), [(2, True), (15, False)])
def test_what_was_written_many_steps_before_it_began_did_not_cause_it(tmp_path: Path, steps: int, counts: bool) -> None:
    found = verdict(tmp_path, {1: [(int(ENDS[30 - steps]), XID63)]}, FindingKind.SLOW_GPU, MEMBERS[1])
    assert (found.cause.signature is not None) is counts


def test_a_stall_of_the_whole_job_is_explained_by_one_host_or_by_what_all_share(tmp_path: Path) -> None:
    one = verdict(tmp_path / "a", {4: [(SINCE, XID63)]}, FindingKind.STALL, None)
    assert one.cause.signature == "gpu.xid63"
    shared = verdict(tmp_path / "b", everybody(NO_BUFFER, when=SINCE + SECOND // 5), FindingKind.STALL, None)
    assert shared.cause.cause_class is CauseClass.STORAGE
    several = verdict(tmp_path / "c", {4: [(SINCE, XID63)], 6: [(SINCE, XID48)]}, FindingKind.STALL, None)
    assert several.cause.signature is None
    noise = verdict(tmp_path / "d", everybody(NO_BUFFER, XID63, PEERMEM), FindingKind.STALL, None)
    assert noise.cause.signature is None


@pytest.mark.parametrize(("seconds", "counts"), [(30, True), (120, False)])
def test_what_was_written_long_after_it_had_ended_did_not_cause_it(tmp_path: Path, seconds: int, counts: bool) -> None:
    """Hosts write when they notice."""
    ends = step_ends(400)
    found = verdict(tmp_path, {1: [(UNTIL + seconds * SECOND, XID63)]}, FindingKind.SLOW_GPU, MEMBERS[1], ends=ends)
    assert (found.cause.signature is not None) is counts


@pytest.mark.parametrize(("seconds", "counts"), [(300, True), (1200, False)])
def test_what_began_before_the_flows_may_have_been_written_minutes_before(
    tmp_path: Path, seconds: int, counts: bool
) -> None:
    ends, flows = step_ends(3000), step_ends(3000)[-60:]
    line = {1: [(int(flows[0]) - seconds * SECOND, XID63)]}
    found = verdict(tmp_path, line, FindingKind.SLOW_GPU, MEMBERS[1], ends=ends, flows=flows, since=int(flows[0]))
    assert (found.cause.signature is not None) is counts
