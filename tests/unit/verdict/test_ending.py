from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from llmprism.diagnose import stopped as stopped_detector
from llmprism.model.finding import Alternative, Evidence, FindingKind, Where, WhereType
from llmprism.model.flows import Window
from llmprism.model.job import JobState
from llmprism.model.log import CauseClass
from llmprism.model.report import Report
from llmprism.model.topology import Nic, Server, Topology
from llmprism.model.verdict import Owner, Source
from llmprism.verdict.suspects import WENT_ON
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, stop_finding, together, write_job

MEMBERS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
ENDS = step_ends(40)
STOP = int(ENDS[-1]) + SECOND // 10
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [{}]:36039"
TIMED_OUT = (
    "[rank{0}]:[E1115 02:00:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
)
NAMELESS = "misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer"


def stopped(kind: FindingKind, place: str, *, end_s: float = 20, confidence: float = 0.7) -> Report:
    state = JobState.CRASHED if kind is FindingKind.CRASH else JobState.HUNG
    finding = stop_finding(kind, place, STOP, confidence)
    return report_of(job_report("job-a", MEMBERS, ENDS, state), findings=(finding,), end_s=end_s)


def complaints(dead: int, seconds: float = 0.5) -> dict[int, list[tuple[float, str]]]:
    return {rank: [(seconds, CLOSED.format(MEMBERS[dead]))] for rank in range(4) if rank != dead}


def test_a_crash_gains_its_cause(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={**complaints(2), 2: [(0.2, OOM)]})
    report = together(stopped(FindingKind.CRASH, "10.0.0.3"), folder)
    (finding,), reading = report.findings, report.reading
    assert reading is not None
    (verdict,) = reading.verdicts
    assert (finding.kind, finding.where.id) == (FindingKind.CRASH, "10.0.0.3")
    assert verdict.cause.cause_class is CauseClass.USER_RESOURCE
    assert (verdict.rank, verdict.source, verdict.owner) == (2, Source.BOTH, Owner.JOB_OWNER)
    assert verdict.iteration in (40, 41)
    assert finding.confidence > 0.9
    assert finding.summary.startswith("Rank 2 (10.0.0.3")
    assert "out of GPU memory" in finding.summary
    assert "the other 3 ranks" in finding.summary
    assert reading.quotes[verdict.quotes[0]].address == "10.0.0.3"
    assert "OutOfMemoryError" in reading.quotes[verdict.quotes[0]].text
    assert not verdict.contradictions
    assert verdict.suspects[0].address == "10.0.0.3"


def test_a_known_rank_that_wrote_its_own_error_is_believed_before_the_flows(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={**complaints(2), 2: [(0.2, OOM)]})
    report = together(stopped(FindingKind.CRASH, "10.0.0.4"), folder)
    assert report.findings[0].where.id == "10.0.0.3"
    assert report.reading is not None
    (clash,) = report.reading.verdicts[0].contradictions
    assert (clash.about, clash.believed) == ("place", Source.LOGS)
    assert "10.0.0.4" in clash.flows
    believed, other = report.reading.verdicts[0].suspects[:2]
    assert (believed.address, other.address) == ("10.0.0.3", "10.0.0.4")
    assert other.score < 0.5 < believed.score, "for who is not believed only the doubt is left"
    (alternative,) = report.findings[0].alternatives
    assert (alternative.where.id, alternative.kind) == ("10.0.0.4", FindingKind.CRASH)


def test_a_rank_that_only_others_complain_of_is_not_believed_before_the_flows(tmp_path: Path) -> None:
    """Where the rank sits is a guess, and nobody names an address."""
    after = {rank: [(0.5, NAMELESS)] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    report = together(stopped(FindingKind.CRASH, "10.0.0.4", confidence=0.9), folder)
    assert report.findings[0].where.id == "10.0.0.4"
    assert report.reading is not None
    (clash,) = report.reading.verdicts[0].contradictions
    assert clash.believed is Source.FLOWS
    assert report.reading.verdicts[0].rank == 3


def test_a_rank_without_a_word_whose_address_its_peers_name_as_lost_is_believed(tmp_path: Path) -> None:
    """The rank at the address of the flows is one of those that complain: it lived on."""
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=complaints(2))
    report = together(stopped(FindingKind.CRASH, "10.0.0.4", confidence=0.95), folder)
    assert report.findings[0].where.id == "10.0.0.3"
    assert report.reading is not None
    (clash,) = report.reading.verdicts[0].contradictions
    assert clash.believed is Source.LOGS
    assert report.reading.verdicts[0].rank == 2


def test_a_rank_that_the_flows_list_as_well_is_believed_where_the_logs_name_it(tmp_path: Path) -> None:
    """Its seat is a guess, and it is not the one that the flows put first."""
    after = {rank: [(0.5, NAMELESS)] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    listed = (Alternative(FindingKind.CRASH, Where(WhereType.GPU, "10.0.0.3"), 0.35),)
    report = stopped(FindingKind.CRASH, "10.0.0.4", confidence=0.65)
    report = replace(report, findings=(replace(report.findings[0], alternatives=listed),))
    found = together(report, folder)
    assert found.findings[0].where.id == "10.0.0.3"
    assert found.reading is not None
    (clash,) = found.reading.verdicts[0].contradictions
    assert clash.believed is Source.BOTH


@pytest.mark.parametrize(("second", "place"), [(0.175, "10.0.0.2"), (0.4, "job-a")])
def test_of_those_that_the_flows_list_the_one_that_the_logs_rank_first(
    tmp_path: Path, second: float, place: str
) -> None:
    """All complain of each other; the logs name nobody and rank 0 and 1 before the others, 0 first."""
    after = {rank: [(90 + rank, TIMED_OUT.format(rank))] for rank in range(4)}
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=after)
    listed = tuple(
        Alternative(FindingKind.HANG, Where(WhereType.GPU, address), confidence)
        for address, confidence in (("10.0.0.2", 0.35), ("10.0.0.3", second), ("10.0.0.4", 0.3))
    )
    report = stopped(FindingKind.HANG, "job-a", end_s=120)
    report = replace(report, findings=(replace(report.findings[0], alternatives=listed),))
    found = together(report, folder)
    assert found.findings[0].where.id == place


def test_logs_place_a_stop_that_the_flows_could_not(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={**complaints(1), 1: [(0.2, OOM)]})
    assert together(stopped(FindingKind.CRASH, "job-a"), folder).findings[0].where.id == "10.0.0.2"


def test_a_rank_that_died_while_others_still_sent_to_it_has_crashed(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={**complaints(1, 9), 1: [(0.2, OOM)]})
    report = together(stopped(FindingKind.HANG, "10.0.0.2"), folder)
    assert report.findings[0].kind is FindingKind.CRASH
    assert report.jobs[0].state is JobState.CRASHED
    assert "waited for" in report.findings[0].summary


def test_silence_of_all_logs_makes_a_hang_of_a_crash(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS)
    report = together(stopped(FindingKind.CRASH, "job-a"), folder)
    assert report.findings[0].kind is FindingKind.HANG
    assert report.jobs[0].state is JobState.HUNG
    assert report.reading is not None
    assert report.reading.verdicts[0].contradictions[0].about == "kind"
    assert report.reading.verdicts[0].iteration == 41


def test_silence_that_was_hardly_watched_changes_nothing(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS)
    report = together(stopped(FindingKind.CRASH, "job-a", end_s=1), folder)
    assert report.findings[0].kind is FindingKind.CRASH


def test_time_outs_long_after_the_stop_are_of_a_hang(tmp_path: Path) -> None:
    late = {rank: [(600, TIMED_OUT.format(rank))] for rank in range(4)}
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=late)
    report = together(stopped(FindingKind.CRASH, "10.0.0.4", end_s=700), folder)
    assert report.findings[0].kind is FindingKind.HANG
    assert report.findings[0].where.id == "10.0.0.4"
    assert "10 min" in report.findings[0].summary


CANCELLED = "slurmstepd: error: *** STEP 7.0 ON node0 CANCELLED AT 2027-01-15T08:00:00 ***"


@pytest.mark.parametrize("line", ["[after training is done] finished", CANCELLED])
def test_an_end_that_is_no_fault_is_withdrawn(tmp_path: Path, line: str) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={rank: [(0.3, line)] for rank in range(4)})
    report = together(stopped(FindingKind.CRASH, "job-a"), folder)
    assert report.findings == ()
    assert report.jobs[0].state is JobState.ENDED
    assert any("nothing is reported" in note for note in report.notes)


def test_errors_that_the_flows_outlive_are_no_finding(tmp_path: Path) -> None:
    report = report_of(job_report("job-a", MEMBERS, step_ends(80)))
    after = {**complaints(2), 2: [(0.2, OOM)]}
    folder = write_job(tmp_path / "x", step_ends(80)[:40], addresses=MEMBERS, after=after)
    found = together(report, folder)
    assert found.findings == ()
    assert any("more steps" in note for note in found.notes)


def test_complaints_of_a_job_that_was_ended_are_no_finding(tmp_path: Path) -> None:
    report = report_of(job_report("job-a", MEMBERS, ENDS, JobState.ENDED), end_s=20)
    after = {rank: [(0.4, CLOSED.format(MEMBERS[(rank + 1) % 4]))] for rank in range(4)}
    found = together(report, write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=after))
    assert found.findings == ()
    assert any("the job was ended" in note for note in found.notes)


def test_a_cause_that_the_flows_did_not_see_is_reported_from_the_logs(tmp_path: Path) -> None:
    report = report_of(job_report("job-a", MEMBERS, ENDS, JobState.ENDED), end_s=20)
    after = {**complaints(2), 2: [(0.2, OOM)]}
    found = together(report, write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=after))
    (finding,) = found.findings
    assert (finding.kind, finding.where.id, finding.job) == (FindingKind.CRASH, "10.0.0.3", "job-a")
    assert found.reading is not None
    assert found.reading.verdicts[0].source is Source.LOGS
    assert abs(finding.start_ns - STOP) < SECOND


def test_a_rank_behind_the_others_names_who_hangs(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, until={1: 39})
    report = together(stopped(FindingKind.HANG, "10.0.0.2"), folder)
    assert report.findings[0].confidence > 0.75
    assert report.reading is not None
    assert report.reading.verdicts[0].source is Source.BOTH
    assert report.reading.verdicts[0].rank == 1


def test_a_job_without_flows_is_reported_by_its_logs(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={**complaints(2), 2: [(0.2, OOM)]})
    found = together(report_of(), folder)
    (finding,) = found.findings
    assert finding.job is None
    assert finding.kind is FindingKind.CRASH
    assert found.reading is not None
    assert found.reading.jobs[0].job is None


STORAGE = "kernel: nfs: server storage01 not responding, still trying"


def test_a_hang_beside_storage_that_does_not_answer(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={1: [(0.3, STORAGE)]})
    report = together(stopped(FindingKind.HANG, "10.0.0.2"), folder)
    assert report.reading is not None
    (verdict,) = report.reading.verdicts
    assert verdict.cause.cause_class is CauseClass.STORAGE
    assert any("not responding" in report.reading.quotes[at].text for at in verdict.quotes)


XID = "NVRM: Xid (PCI:0000:3b:00): 63, pid=1234, Row Remapper: New row marked for remapping, reset gpu to activate."


@pytest.mark.parametrize(("rank", "cause"), [(1, CauseClass.HARDWARE_GPU), (3, CauseClass.UNKNOWN)])
def test_a_warning_explains_a_hang_of_its_own_rank_only(tmp_path: Path, rank: int, cause: CauseClass) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={rank: [(0.3, XID)]})
    report = together(stopped(FindingKind.HANG, "10.0.0.2"), folder)
    assert report.reading is not None
    assert report.reading.verdicts[0].cause.cause_class is cause


SET_UP = (
    "[rank2]: torch.distributed.DistBackendError: [2] is setting up NCCL communicator and retrieving ncclUniqueId from "
    "[0] via c10d key-value store by key '0:2', but store->get('0:2') got error: wait timeout after 60000ms"
)


@pytest.mark.parametrize(("own", "found"), [(SET_UP, True), (TIMED_OUT.format(2), False), ("", False)])
def test_a_rank_that_waits_in_another_collective_than_the_others(tmp_path: Path, own: str, found: bool) -> None:
    after = {rank: [(90, TIMED_OUT.format(rank))] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={**after, 2: [(80, own)] if own else []})
    report = together(stopped(FindingKind.HANG, "10.0.0.3", end_s=120), folder)
    assert report.reading is not None
    (verdict,) = report.reading.verdicts
    assert report.findings[0].where.id == "10.0.0.3"
    assert (verdict.cause.signature == "verdict.mismatched_collective") is found
    if found:
        assert verdict.cause.cause_class is CauseClass.USER_CODE
        assert "ALLREDUCE" in verdict.cause.summary


def guessed(
    tmp_path: Path,
    confidence: float,
    complaint: str = NAMELESS,
    went_on_s: float | None = None,
    *,
    servers: bool = False,
) -> Report:
    """Rank 2 writes its own error; the logs name no address, so that it is taken to sit at 10.0.0.3: surely enough only
    where the `servers` are known, in whose order all launchers agree. `went_on_s`: how long the others went on after
    10.0.0.2 had fallen silent."""
    known = tuple(Server(f"rack{n}", (Nic(address, 0),)) for n, address in enumerate(MEMBERS))
    topology = Topology(known) if servers else None
    after = {rank: [(0.5, complaint)] for rank in (0, 1, 3)} | {2: [(0.2, OOM)]}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    report = replace(stopped(FindingKind.CRASH, "10.0.0.2", confidence=confidence), topology=topology)
    if went_on_s is not None:
        evidence = (Evidence(WENT_ON, went_on_s, 0.0),)
        report = replace(report, findings=(replace(report.findings[0], evidence=evidence),))
    return together(report, folder)


def test_a_guessed_seat_is_believed_only_if_it_is_surer_than_the_flows(tmp_path: Path) -> None:
    sure = guessed(tmp_path / "a", 0.95)
    assert sure.findings[0].where.id == "10.0.0.2"
    assert sure.reading is not None
    assert sure.reading.verdicts[0].rank == 2
    agreed = guessed(tmp_path / "d", 0.8, servers=True)
    assert agreed.findings[0].where.id == "10.0.0.3", "nearly all real runs have the usual order"
    alone = guessed(tmp_path / "e", 0.95, servers=True)
    assert alone.findings[0].where.id == "10.0.0.2", "it alone was no longer heard: no guess is surer"
    doubtful = guessed(tmp_path / "b", 0.3)
    assert doubtful.findings[0].where.id == "10.0.0.3"
    named = guessed(tmp_path / "c", 0.95, CLOSED.format("10.0.0.3"))
    assert named.findings[0].where.id == "10.0.0.3"


@pytest.mark.parametrize(("went_on_s", "place"), [(0.0005, "10.0.0.3"), (0.2, "10.0.0.2")])
def test_an_order_of_silence_within_milliseconds_is_no_evidence(tmp_path: Path, went_on_s: float, place: str) -> None:
    assert guessed(tmp_path, 0.95, went_on_s=went_on_s).findings[0].where.id == place


def test_the_flows_say_how_long_others_went_on() -> None:
    """The evidence that the weighing looks for is the one that the detector writes."""
    ending = inspect.getsource(stopped_detector)
    assert WENT_ON in ending


def test_peers_that_see_a_connection_close_tell_a_crash_from_a_hang(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=complaints(1))
    report = together(stopped(FindingKind.HANG, "10.0.0.2"), folder)
    assert report.findings[0].kind is FindingKind.CRASH
    folder = write_job(tmp_path / "z", ENDS, addresses=MEMBERS, after=complaints(1, 25))
    late_word = together(stopped(FindingKind.HANG, "10.0.0.2", end_s=60), folder)
    assert late_word.findings[0].kind is FindingKind.HANG, "somebody may have ended it by then"
    late = {rank: [(90, TIMED_OUT.format(rank))] for rank in (0, 2, 3)}
    folder = write_job(tmp_path / "y", ENDS, addresses=MEMBERS, after=late)
    assert together(stopped(FindingKind.HANG, "10.0.0.2", end_s=120), folder).findings[0].kind is FindingKind.HANG


def test_a_rank_that_hangs_without_a_word_is_not_a_dead_node(tmp_path: Path) -> None:
    late = {rank: [(90, TIMED_OUT.format(rank))] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=late)
    report = together(stopped(FindingKind.HANG, "10.0.0.3", end_s=120), folder)
    assert report.reading is not None
    assert report.reading.verdicts[0].cause.cause_class is CauseClass.UNKNOWN
    assert report.reading.verdicts[0].rank == 2


STACK = """Traceback (most recent call last):
  File "/job/train.py", line 88, in <module>
    main()
  File "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", line 81, in wrapper
    return func(*args, **kwargs)
  File "{frame}
    work.wait()
RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 60000ms for recv \
operation to complete"""
BROADCAST = STACK.format(
    frame='/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 2421, in broadcast'
)
GRADIENTS = STACK.format(
    frame='/usr/lib/python3/dist-packages/torch/autograd/graph.py", line 823, in _engine_run_backward'
)


@pytest.mark.parametrize(("own", "found"), [(BROADCAST, True), (GRADIENTS, False)])
def test_stacks_say_which_collective_where_the_library_does_not(tmp_path: Path, own: str, found: bool) -> None:
    after = {rank: [(90, GRADIENTS)] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={**after, 2: [(90, own)]})
    report = together(stopped(FindingKind.HANG, "10.0.0.3", end_s=120), folder)
    assert report.reading is not None
    (verdict,) = report.reading.verdicts
    assert (verdict.cause.signature == "verdict.mismatched_collective") is found
    if found:
        assert "rank 2 waits in broadcast while the other ranks wait in gradients" in verdict.cause.summary


def test_attempts_that_write_into_the_same_files_are_told_apart(tmp_path: Path) -> None:
    """The count begins anew: what ended the first attempt does not explain the end of the second."""
    later = step_ends(40, seed=3) + 600 * SECOND
    first = write_job(tmp_path / "a", ENDS, addresses=MEMBERS, after={2: [(0.2, OOM)]})
    bad = "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 21 (char 20)"
    second = write_job(tmp_path / "b", later, addresses=MEMBERS, after={1: [(0.2, bad)]})
    for path in second.glob("*.log"):
        path.write_text((first / path.name).read_text() + path.read_text())
    stop = stop_finding(FindingKind.CRASH, "10.0.0.2", int(later[-1]) + SECOND // 10)
    report = report_of(job_report("job-a", MEMBERS, later, JobState.CRASHED), findings=(stop,))
    window = Window(int(later[0]) - SECOND, int(later[-1]) + 5 * SECOND)
    joint = together(replace(report, window=window), second)
    assert joint.reading is not None
    (verdict,) = joint.reading.verdicts
    assert (verdict.rank, verdict.cause.cause_class) == (1, CauseClass.USER_DATA)
