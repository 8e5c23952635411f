"""What logs change of findings that are open already."""

from dataclasses import replace

from llmprism.model.finding import FindingKind
from llmprism.model.job import JobState
from llmprism.model.live import Explanation, FindingPhase, LiveState, TrackedFinding, TrackedRun
from llmprism.model.log import Cause, CauseClass
from llmprism.model.verdict import LogQuote, LogReading, Owner, Source, Verdict
from llmprism.service.codec import decode_state, encode_state
from llmprism.service.joblogs.explanations import explained, explanation_of, knowledge
from llmprism.service.joblogs.late import LateCauses, explained_again, withdraw
from llmprism.service.looks import Look
from llmprism.service.tracker import Changes, TrackerState
from llmprism.service.windows import WindowPlan
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, stop_finding

MEMBERS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
ENDS = step_ends(40)
STOP = int(ENDS[-1]) + SECOND // 10
LINE = LogQuote("rank2.log", 7, "CUDA out of memory", 1, "root", "cuda.oom", 0, 2, "10.0.0.3", STOP)


def crash():
    return stop_finding(FindingKind.CRASH, "10.0.0.3", STOP)


def why(cause=CauseClass.USER_RESOURCE, lines=(LINE,)):
    return Explanation(Verdict(Source.BOTH, Cause(cause, None, 0.9, "it ran out"), Owner.JOB_OWNER), lines)


def look(*findings, withdrawn=(), verdicts=None):
    report = report_of(job_report("job-a", MEMBERS, ENDS, JobState.CRASHED), findings=findings, end_s=20)
    if verdicts is not None:
        report = replace(report, reading=LogReading((), verdicts, (LINE,)))
    return Look(report, 0, withdrawn=withdrawn)


def tracked(**more):
    return TrackedFinding("f-1", replace(crash(), job="run-1"), FindingPhase.OPEN, updated_ns=STOP + SECOND, **more)


def test_a_finding_gains_its_cause_and_keeps_its_beginning_and_cost():
    verdict = replace(why().verdict, quotes=(0,))
    seen = replace(crash(), start_ns=STOP + 3, summary="Rank 2 failed", lost_gpu_seconds=1.0)
    old = tracked()
    now = explained_again(old, look(seen, verdicts=(verdict,)), MEMBERS)
    assert (now.finding.summary, now.finding.job, now.id) == ("Rank 2 failed", "run-1", "f-1")
    assert now.finding.start_ns == old.finding.start_ns
    assert now.finding.lost_gpu_seconds == max(1.0, old.finding.lost_gpu_seconds)
    assert now.why.lines == (LINE,)


def test_another_jobs_look_or_a_poorer_one_changes_nothing():
    verdict = replace(why().verdict, quotes=(0,))
    assert explained_again(tracked(), look(crash(), verdicts=(verdict,)), ("10.9.9.1", "10.9.9.2")) == tracked()
    known = tracked(why=why())
    assert explained_again(known, look(crash(), verdicts=(verdict,)), MEMBERS) == known
    assert explained_again(tracked(), look(crash()), MEMBERS) == tracked()


def test_what_the_logs_explain_away_is_closed_with_the_reason():
    gone = look(withdrawn=((crash(), "the run was cancelled"),))
    now = explained_again(tracked(), gone, MEMBERS)
    assert (now.phase, now.reason) == (FindingPhase.CLOSED, "the run was cancelled")
    run = TrackedRun("run-1", MEMBERS, (), LiveState.CRASHED, 0, 0, 0, 0)
    state = TrackerState(runs=(run,), findings=(tracked(),))
    after, changes = withdraw(state, Changes(followed=({"job-a": "run-1"},)), [gone])
    assert after.findings[0].phase is FindingPhase.CLOSED
    assert changes.closed == ("f-1",)
    _, changes = withdraw(state, Changes(followed=({"job-a": "run-1"},), opened=("f-1",)), [gone])
    assert (changes.opened, changes.closed, changes.findings) == ((), (), ())
    other, changes = withdraw(state, Changes(followed=({"job-a": "run-2"},)), [gone])
    assert other == state


class Reader:
    """Stands for the reader of logs: lines come when the test says so."""

    reads = 1

    def refresh(self, *, urgent):
        pass


def test_lines_that_come_between_two_looks_are_tried_with_both_findings():
    """The first finding was looked at without them: it must not count as tried with what the second one saw."""
    reader = Reader()
    late = LateCauses(reader)
    first, second = tracked(), replace(tracked(), id="f-2")
    assert late.due([first, second]) == [first, second]
    late.explained()
    late.tried([first])
    reader.reads = 2
    late.explained()
    late.tried([second])
    assert late.due([first, second]) == [first]
    late.explained()
    reader.reads = 3
    late.explained()
    late.tried([first, second])
    assert late.due([first, second]) == [first, second], "one of the looks did not know the last lines"


def test_a_cause_that_was_known_stays_known():
    before = tracked(why=why())
    poorer = replace(before, finding=replace(before.finding, summary="a GPU died", confidence=0.1))
    kept = explained(before, poorer, None)
    assert (kept.finding.summary, kept.why) == (before.finding.summary, before.why)
    unknown = why(CauseClass.UNKNOWN)
    assert explained(before, poorer, unknown).why == before.why
    assert explained(tracked(why=unknown), poorer, why()).why == why()
    assert [knowledge(one) for one in (None, why(lines=()), unknown, why())] == [0, 0, 1, 2]


def test_verdicts_of_the_flows_alone_explain_nothing():
    verdict = replace(why().verdict, source=Source.FLOWS)
    assert explanation_of(look(crash(), verdicts=(verdict,)).report, 0) is None
    assert explanation_of(look(crash()).report, 0) is None


def test_explanations_survive_a_restart():
    state = TrackerState(findings=(tracked(why=why()), tracked(why=None)))
    again, _ = decode_state(encode_state(state, WindowPlan()))
    assert again.findings == state.findings
