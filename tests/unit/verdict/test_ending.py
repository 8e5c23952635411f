from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmprism.model.finding import FindingKind, WhereType
from llmprism.model.flows import Window
from llmprism.model.job import JobState
from llmprism.model.log import CauseClass
from llmprism.model.verdict import Owner, Source
from report_builders import job_report, report_of
from stopped_jobs import CLOSED, ENDS, MEMBERS, OOM, STOP, TIMED_OUT, complaints, stopped
from verdict_builders import step_ends
from written_logs import SECOND, stop_finding, together, write_job


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


@pytest.mark.parametrize(("step_s", "seconds", "hung"), [(0.5, 30, False), (0.5, 300, True), (30, 300, False)])
def test_a_job_that_was_cancelled_long_after_it_stopped_had_hung(
    tmp_path: Path, step_s: float, seconds: float, hung: bool
) -> None:
    ends = step_ends(40, step_s=step_s)
    stop = int(ends[-1]) + SECOND // 10
    folder = write_job(tmp_path / "x", ends, addresses=MEMBERS, after={rank: [(seconds, CANCELLED)] for rank in (0, 1)})
    stops = (stop_finding(FindingKind.HANG, "10.0.0.2", stop, 0.7),)
    report = report_of(job_report("job-a", MEMBERS, ends, JobState.HUNG), findings=stops, end_s=seconds + 10)
    assert [one.kind for one in together(report, folder).findings] == [FindingKind.HANG] * hung


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


def test_storage_that_does_not_answer_explains_a_hang(tmp_path: Path) -> None:
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
    as_likely_as_not = 0.3 < report.reading.verdicts[0].cause.confidence < 0.7
    assert as_likely_as_not is (cause is CauseClass.HARDWARE_GPU), "nobody died of it"


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


def test_a_communicator_that_nobody_else_sets_up_whatever_the_others_wait_in(tmp_path: Path) -> None:
    """In a pipeline they wait in different operations."""
    sends = {rank: [(90, TIMED_OUT.format(rank).replace("ALLREDUCE", "SEND"))] for rank in (1, 3)}
    after = {0: [(90, TIMED_OUT.format(0))], **sends, 2: [(80, SET_UP)]}
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=after)
    report = together(stopped(FindingKind.HANG, "10.0.0.3", end_s=120), folder)
    assert report.reading is not None
    assert "ALLREDUCE or SEND" in report.reading.verdicts[0].cause.summary


GAVE_UP = (
    "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"
)


@pytest.mark.parametrize(("silent", "kind"), [((), FindingKind.HANG), ((3,), FindingKind.CRASH)])
def test_where_every_rank_gave_up_waiting_nobody_had_died(
    tmp_path: Path, silent: tuple[int, ...], kind: FindingKind
) -> None:
    after = {rank: [(9, GAVE_UP)] for rank in range(4) if rank not in silent}
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=after)
    report = together(stopped(FindingKind.CRASH, "job-a", end_s=20), folder)
    assert report.findings[0].kind is kind


def test_complaints_of_all_ranks_are_no_cause_of_the_one_that_fell_silent(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={rank: [(9, GAVE_UP)] for rank in range(4)})
    (finding,) = together(stopped(FindingKind.HANG, "10.0.0.3", end_s=20), folder).findings
    assert "no log says why" in finding.summary
    assert "no rank differs" not in finding.summary


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
    assert 0.2 < report.reading.verdicts[0].cause.confidence < 0.5, "why it hangs is a guess"
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


SENDS = STACK.format(
    frame='/usr/lib/python3/dist-packages/torch/distributed/pipelining/schedules.py", line 503, in _wait_batch_p2p'
)


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({0: SENDS, 1: SENDS, 2: BROADCAST, 3: SENDS}, "10.0.0.3"),
        ({0: SENDS, 1: SENDS, 2: BROADCAST, 3: BROADCAST}, "10.0.0.2"),
        ({0: SENDS, 2: BROADCAST, 3: SENDS}, "10.0.0.2"),
        ({0: BROADCAST, 1: BROADCAST, 2: SENDS, 3: BROADCAST}, "10.0.0.2"),
    ],
)
def test_the_rank_that_alone_entered_a_collective_is_the_place_of_a_deadlock(
    tmp_path: Path, said: dict[int, str], place: str
) -> None:
    """Not where two did, where one does not say in what it waits, or where the others wait in the collective."""
    folder = write_job(
        tmp_path / "x", ENDS, addresses=MEMBERS, after={rank: [(90, text)] for rank, text in said.items()}
    )
    report = together(stopped(FindingKind.HANG, "10.0.0.2", end_s=120), folder)
    assert report.findings[0].where.id == place
    assert report.reading is not None
    (verdict,) = report.reading.verdicts
    assert (verdict.cause.signature == "verdict.mismatched_collective") is (place == "10.0.0.3")
    assert any(clash.about == "place" for clash in verdict.contradictions) is (place == "10.0.0.3")
    if place == "10.0.0.3":
        assert "alone waits in a collective" in verdict.suspects[0].why
        assert verdict.suspects[0].score >= 0.5


@pytest.mark.parametrize(("line", "kind"), [("", FindingKind.STALL), (OOM, FindingKind.CRASH)])
def test_a_job_whose_log_counts_on_was_not_started_anew(tmp_path: Path, line: str, kind: FindingKind) -> None:
    """The flows saw it stop and come back."""
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={1: [(0.2, line)]} if line else {})
    report = stopped(FindingKind.CRASH, "10.0.0.2")
    back = replace(report.findings[0], start_ns=int(ENDS[20]), end_ns=int(ENDS[22]))
    (finding,) = together(replace(report, findings=(back,)), folder).findings
    assert finding.kind is kind
    if kind is FindingKind.STALL:
        assert finding.where.type is WhereType.JOB
        assert finding.confidence < back.confidence


def test_attempts_that_write_into_the_same_files_are_kept_apart(tmp_path: Path) -> None:
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
