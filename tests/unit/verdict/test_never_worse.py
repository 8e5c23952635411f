"""The verdict is never worse than the better of its two parts, over all pairs of what flows and logs can say.

Nobody knows which part is right where they contradict each other; that is weighed, and shown. What can be held always:
what one part says and the other does not contradict stays; what both say stays; nothing is said that neither said; and
what is dropped or changed is told with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.job import JobState
from llmprism.model.log import CauseClass, LogDiagnosis, Outcome
from llmprism.model.report import Report
from llmprism.verdict.case import cause_of_kind
from llmprism.verdict.folders import find_log_folders
from llmprism.verdict.read_together import LoggedJob, read_logs, read_together
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, library, stop_finding, write_job

MEMBERS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
ENDS = step_ends(40)
LONGER = step_ends(80)
STOP = int(ENDS[-1]) + SECOND // 10
STOPS = (FindingKind.CRASH, FindingKind.HANG)

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BAD_SAMPLE = "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 21 (char 20)"
CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [{}]:36039"
TIMED_OUT = (
    "[rank{0}]:[E1115 02:00:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
)
CANCELLED = "slurmstepd: error: *** STEP 7.0 ON node0 CANCELLED AT 2027-01-15T08:00:00 ***"
NOISE = (
    "NVRM: Xid (PCI:0000:3b:00): 63, pid=1234, Row remapping: a pending row remap, double-bit ECC error",
    "OSError: [Errno 122] Disk quota exceeded",
    "NVRM: Xid (PCI:0000:9c:00): 48, pid=3711, name=python3, An uncorrectable double bit error (DBE) has been detected",
    "EXT4-fs (dm-0): I/O error while writing superblock",
)


def slow(kind: FindingKind, place: str) -> Finding:
    types = {"10": WhereType.GPU, "jo": WhereType.JOB, "le": WhereType.SWITCH}
    start, end = int(ENDS[20]), int(ENDS[30])
    return Finding(kind, "job-a", Where(types[place[:2]], place), start, end, 0.03, 0.9, 12.0, f"{place} is slow.", ())


FLOWS = {
    "runs on": (JobState.RUNNING, ()),
    "ends at rest": (JobState.ENDED, ()),
    "crash at 2": (JobState.CRASHED, (stop_finding(FindingKind.CRASH, MEMBERS[2], STOP),)),
    "crash at 3": (JobState.CRASHED, (stop_finding(FindingKind.CRASH, MEMBERS[3], STOP),)),
    "sure crash at 3": (JobState.CRASHED, (stop_finding(FindingKind.CRASH, MEMBERS[3], STOP, 0.95),)),
    "crash": (JobState.CRASHED, (stop_finding(FindingKind.CRASH, "job-a", STOP),)),
    "hang at 3": (JobState.HUNG, (stop_finding(FindingKind.HANG, MEMBERS[3], STOP),)),
    "hang at 2": (JobState.HUNG, (stop_finding(FindingKind.HANG, MEMBERS[2], STOP),)),
    "hang": (JobState.HUNG, (stop_finding(FindingKind.HANG, "job-a", STOP),)),
    "slow GPU": (JobState.ENDED, (slow(FindingKind.SLOW_GPU, MEMBERS[1]),)),
    "slow NIC": (JobState.ENDED, (slow(FindingKind.SLOW_NIC, MEMBERS[1]),)),
    "slow switch": (JobState.ENDED, (slow(FindingKind.SLOW_SWITCH, "leaf0"),)),
    "stall": (JobState.ENDED, (slow(FindingKind.STALL, "job-a"),)),
    "slow, then crash": (
        JobState.CRASHED,
        (slow(FindingKind.SLOW_GPU, MEMBERS[1]), stop_finding(FindingKind.CRASH, MEMBERS[2], STOP)),
    ),
}


@dataclass(frozen=True)
class Written:
    """What ranks write after their last step, whether their logs name addresses, and noise in mid-run."""

    after: tuple[tuple[int, float, str], ...] = ()
    named: bool = True
    noisy: bool = False


def _peers(of: int, text: str, seconds: float) -> tuple[tuple[int, float, str], ...]:
    return tuple((rank, seconds, text.format(rank)) for rank in range(4) if rank != of)


LOST = CLOSED.format(MEMBERS[2])
LOGS = {
    "no word": Written(),
    "no word and no address": Written(named=False),
    "noise": Written(noisy=True),
    "ended well": Written(tuple((rank, 0.3, "[after training is done] finished") for rank in range(4))),
    "cancelled": Written(tuple((rank, 0.3, CANCELLED) for rank in range(4))),
    "own error at 2": Written(((2, 0.2, OOM), *_peers(2, LOST, 0.5))),
    "own error at 2, noise": Written(((2, 0.2, OOM), *_peers(2, LOST, 0.5)), noisy=True),
    "own error of rank 2, no address": Written(((2, 0.2, BAD_SAMPLE), *_peers(2, LOST, 0.5)), named=False),
    "complaints of 2": Written(_peers(2, LOST, 0.5)),
    "late complaints of 2": Written(_peers(2, LOST, 9)),
    "time-outs": Written(_peers(-1, TIMED_OUT, 600)),
}


def report(name: str) -> Report:
    state, findings = FLOWS[name]
    ends = LONGER if name == "runs on" else ENDS
    return report_of(job_report("job-a", MEMBERS, ends, state), findings=findings, end_s=700)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory):
    """Logs by name, each read once."""

    @cache
    def logs(name: str) -> list[LoggedJob]:
        written, folder = LOGS[name], tmp_path_factory.mktemp("logs") / "train"
        after = {rank: [(s, text) for who, s, text in written.after if who == rank] for rank in range(4)}
        write_job(folder, ENDS, addresses=MEMBERS if written.named else ("?",) * 4, after=after)
        if written.noisy:
            _add_noise(folder)
        return read_logs(find_log_folders(str(folder)), library())

    return logs


def _add_noise(folder: Path) -> None:
    for number, path in enumerate(sorted(folder.glob("*.log"))):
        lines = path.read_text().splitlines()
        own = [NOISE[(number + at) % len(NOISE)] for at in range(3)]
        path.write_text("\n".join([*lines[:24], *own, *lines[24:]]) + "\n")


def said(found: Report) -> list[tuple[FindingKind, object, CauseClass]]:
    assert found.reading is not None
    pairs = zip(found.findings, found.reading.verdicts, strict=True)
    return [(finding.kind, finding.where.id, verdict.cause.cause_class) for finding, verdict in pairs]


def by_flows(name: str) -> list[tuple[FindingKind, object, CauseClass]]:
    return [(one.kind, one.where.id, cause_of_kind(one).cause_class) for one in FLOWS[name][1]]


def blames(found: LogDiagnosis) -> bool:
    return found.outcome is Outcome.FAILED and found.cause.cause_class not in (CauseClass.NONE, CauseClass.UNKNOWN)


PAIRS = list(product(FLOWS, LOGS))


@pytest.mark.parametrize(("flows", "logs"), [pair for pair in PAIRS if pair[1] in ("no word and no address", "noise")])
def test_logs_without_a_word_of_it_take_nothing_away(read, flows: str, logs: str) -> None:
    """One exception, shown as a contradiction: who dies is missed, so that a crash without a word is a hang."""
    found = read_together(report(flows), read(logs))
    for (kind, place, cause), finding, verdict in zip(
        by_flows(flows), found.findings, found.reading.verdicts, strict=True
    ):
        assert (finding.where.id, verdict.cause.cause_class) == (place, cause)
        assert finding.kind is kind or (kind is FindingKind.CRASH and verdict.contradictions[0].about == "kind")


@pytest.mark.parametrize(("flows", "logs"), [p for p in PAIRS if "own error" in p[1] and p[0] != "runs on"])
def test_a_rank_that_wrote_its_own_error_keeps_its_cause_whatever_the_flows_saw(read, flows: str, logs: str) -> None:
    found = read_together(report(flows), read(logs))
    ended = [one for one in zip(found.findings, found.reading.verdicts, strict=True) if one[0].kind in STOPS]
    ((finding, verdict),) = ended
    cause = CauseClass.USER_DATA if "no address" in logs else CauseClass.USER_RESOURCE
    assert (finding.kind, verdict.rank, verdict.cause.cause_class) == (FindingKind.CRASH, 2, cause)
    if "no address" not in logs:
        assert finding.where.id == MEMBERS[2], "its logs say where it is"
    others = [one for one in by_flows(flows) if one[0] not in STOPS]
    assert [one for one in said(found) if one[0] not in STOPS] == others


@pytest.mark.parametrize(
    ("flows", "logs"), [p for p in PAIRS if "at 2" in p[1] or "complaints" in p[1] if p[0] != "runs on"]
)
def test_logs_that_know_who_died_and_where_it_sits_lose_nothing_by_flows_that_do_not(
    read, flows: str, logs: str
) -> None:
    """Kind, place and cause of the logs alone stay, whatever stop, place or slowness the flows show. One exception: a
    job that hangs may have been ended by somebody before its ranks complain of each other."""
    found, alone = read_together(report(flows), read(logs)), read(logs)[0].view.diagnosis
    ended = [one for one in said(found) if one[0] in STOPS]
    place = MEMBERS[alone.suspects[0].rank or 0]
    if "hang" in flows and "late" in logs:
        assert [(kind, where) for kind, where, _ in ended] == [(FindingKind.HANG, place)]
    else:
        assert ended == [(FindingKind.CRASH, place, alone.cause.cause_class)]


def test_slowness_with_which_the_flows_show_an_end_is_a_part_of_it(read) -> None:
    """The flows stand still from their last step on; the logs speak of it nine seconds later."""
    still = replace(slow(FindingKind.STALL, MEMBERS[3]), start_ns=STOP, end_ns=None)
    job = job_report("job-a", MEMBERS, ENDS, JobState.ENDED)
    found = read_together(report_of(job, findings=(still,), end_s=700), read("late complaints of 2"))
    assert [kind for kind, _, _ in said(found)] == [FindingKind.CRASH]
    assert any("a part of it" in note for note in found.reading.notes)


@pytest.mark.parametrize("logs", LOGS)
def test_flows_that_go_on_contradict_any_failure(read, logs: str) -> None:
    found = read_together(report("runs on"), read(logs))
    assert found.findings == ()
    if blames(read(logs)[0].view.diagnosis):
        assert any("more steps" in note for note in found.reading.notes)


@pytest.mark.parametrize(("flows", "logs"), PAIRS)
def test_nothing_is_said_that_neither_part_said(read, flows: str, logs: str) -> None:
    found, by_logs = read_together(report(flows), read(logs)), read(logs)[0].view.diagnosis
    places = {place for _, place, _ in by_flows(flows)} | {"job-a"}
    places |= {MEMBERS[one.rank] for one in by_logs.suspects if one.rank is not None}
    causes = {cause for _, _, cause in by_flows(flows)} | {by_logs.cause.cause_class, CauseClass.UNKNOWN}
    for kind, place, cause in said(found):
        assert place in places
        assert cause in causes
        assert kind in STOPS or kind in {one for one, _, _ in by_flows(flows)}
    assert sum(kind in STOPS for kind, _, _ in said(found)) <= 1


@pytest.mark.parametrize(("flows", "logs"), PAIRS)
def test_what_is_dropped_or_changed_is_said(read, flows: str, logs: str) -> None:
    found = read_together(report(flows), read(logs))
    kept = {(kind, place) for kind, place, _ in said(found)}
    gone = [one for one in FLOWS[flows][1] if (one.kind, one.where.id) not in kept]
    reasons = [clash for verdict in found.reading.verdicts for clash in verdict.contradictions]
    reasons += [note for note in found.reading.notes if "nothing is reported" in note]
    # a place where the flows had none is no change
    placed = sum(one.where.type is WhereType.JOB and (one.kind, MEMBERS[2]) in kept for one in gone)
    assert len(gone) - placed <= len(reasons)


@pytest.mark.parametrize(("flows", "logs"), PAIRS)
def test_slowness_stays_whatever_the_end(read, flows: str, logs: str) -> None:
    """A run that was slow in the middle was slow, however it ended."""
    found = read_together(report(flows), read(logs))
    wanted = [(kind, place) for kind, place, _ in by_flows(flows) if kind not in STOPS]
    assert [(kind, place) for kind, place, _ in said(found) if kind not in STOPS] == wanted
