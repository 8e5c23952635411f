"""What logs change of findings that are open already."""

from dataclasses import replace

from llmprism.model.finding import FindingKind
from llmprism.model.flows import Window
from llmprism.model.job import JobState
from llmprism.model.live import Explanation, FindingPhase, LiveState, TrackedFinding, TrackedRun
from llmprism.model.log import Cause, CauseClass
from llmprism.model.verdict import LogQuote, LogReading, Owner, Source, Verdict
from llmprism.service.codec import decode_state, encode_state
from llmprism.service.config import AlertSettings
from llmprism.service.joblogs.explanations import explained, explanation_of, knowledge
from llmprism.service.joblogs.late import HOLD_S, SETTLE_S, LateCauses, explained_again, withdraw
from llmprism.service.looks import Look
from llmprism.service.messages import messages_of
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


def test_a_cause_that_more_lines_show_takes_the_place_of_the_first():
    first = tracked(why=why(CauseClass.USER_CODE))
    verdict = replace(why(CauseClass.HARDWARE_NODE).verdict, rank=2, quotes=(0,))
    now = explained_again(first, look(crash(), verdicts=(verdict,)), MEMBERS)
    assert (now.why.verdict.cause.cause_class, now.why.verdict.rank) == (CauseClass.HARDWARE_NODE, 2)
    unknown = replace(why(CauseClass.UNKNOWN).verdict, quotes=(0,))
    assert explained_again(first, look(crash(), verdicts=(unknown,)), MEMBERS) == first


def explained_events(before, now):
    messages = messages_of(
        Changes(findings=(now,)), AlertSettings(webhook=("http://127.0.0.1/",)), Window(0, 1), None, (before,)
    )
    return [(event, document["annotations"].get("cause")) for _, _, event, document in messages]


def test_a_cause_is_sent_once_and_again_when_it_is_another_one():
    first, second = why(CauseClass.USER_CODE), why(CauseClass.HARDWARE_NODE)
    assert explained_events(tracked(), tracked(why=first)) == [("explained", "user.code")]
    assert explained_events(tracked(why=first), tracked(why=first)) == []
    assert explained_events(tracked(why=first), tracked(why=replace(first, lines=(LINE, LINE)))) == []
    assert explained_events(tracked(why=first), tracked(why=second)) == [("explained", "hardware.node")]


class Reader:
    """Stands for the reader of logs: lines come when the test says so."""

    reads = 1

    def refresh(self, *, urgent):
        pass


class Times:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self):
        return self.now


def test_a_look_waits_while_lines_are_coming_but_not_for_ever():
    reader, times = Reader(), Times()
    late = LateCauses(reader, times)
    looked = []
    for times.now in range(0, 30, 2):
        reader.reads += times.now >= 4
        looked += [times.now for _ in late.due([tracked()])]
        if looked[-1:] == [times.now]:
            late.explained()
            late.tried([tracked()])
    assert looked == [0, 4 + HOLD_S, 4 + 2 * HOLD_S + 2]
    times.now += 2
    assert late.due([tracked()]) == [tracked()], "no line came since"


def test_more_lines_may_change_a_cause_for_a_while():
    reader, times = Reader(), Times()
    late = LateCauses(reader, times)
    known = tracked(why=why())

    def due():
        reader.reads += 1
        late.due([known])
        return late.due([known])

    assert due() == [known]
    times.now = SETTLE_S - 1
    assert due() == [known]
    times.now = SETTLE_S
    assert due() == []


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
    assert late.due([first, second]) == [], "lines have just come"
    assert late.due([first, second]) == [first]
    late.explained()
    reader.reads = 3
    late.explained()
    late.tried([first, second])
    assert late.due([first, second]) == []
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
