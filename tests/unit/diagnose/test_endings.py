"""How traffic ends, on jobs made by hand: at rest, by the window, by one member that was missing before the others."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.endings import _surely_overdue, ending_at, final_ending
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES
from llmprism.model import Events, Job, JobState, Steps, Timeline, Window
from unit.builders import MS, SECOND, Flow, transfer_table

STEPS = 20
PERIOD = 100 * MS
SIZE = 1_000_000
NAMES = ("a", "b", "c")
"""A ring: in each of four rounds of a step everybody sends to the next. Nobody sends a round without the one before."""

ROUNDS = [60, 68, 76, 84]
"""Milliseconds after the start of a step."""


def ring(step: int, rounds=ROUNDS, members=NAMES, shift: int = 0):
    return [
        Flow(name, NAMES[(NAMES.index(name) + 1) % 3], begin, begin + 4 * MS, SIZE)
        for at in rounds
        for name in members
        for begin in [shift + step * PERIOD + at * MS + NAMES.index(name) * 10_000]
    ]


def job_of(flows, shift_after=STEPS, shift=0):
    """A job with 20 steps whose clock cuts them in the middle of their computation, as a wrong phase would."""
    end = np.array([k * PERIOD + 30 * MS + (shift if k > shift_after else 0) for k in range(1, STEPS + 1)])
    start = np.concatenate([[30 * MS], end[:-1]])
    if shift:
        start[shift_after] = end[shift_after] - PERIOD
    steps = Steps(start.astype(np.int64), end.astype(np.int64), np.zeros(STEPS, dtype=np.bool_))
    transfers = transfer_table(flows)
    bulk = transfers.pair_bytes > SIZE
    job = Job("job", (0, 1, 2), (), 1.0, transfers, bulk=bulk)
    return job, Timeline(steps, np.tile(end, (3, 1)), Events.empty())


WHOLE = [flow for step in range(STEPS) for flow in ring(step)]
LAST = max(flow.end_ns for flow in WHOLE)


def beats(first_ns, last_ns, names=NAMES):
    """A heartbeat of everybody to everybody, every 400 ms."""
    moments = range(first_ns, last_ns, 400 * MS)
    return [Flow(a, b, when, when + 1_000, 60) for when in moments for a in names for b in NAMES if a != b]


def ending(flows, watched_ns):
    job, timeline = job_of(flows)
    result = final_ending(job, timeline, Window(0, watched_ns))
    assert result is not None
    return result


def test_a_job_that_stops_where_it_always_rests_has_ended_whatever_the_clock_says():
    assert ending(WHOLE, LAST + 10 * SECOND).state is JobState.ENDED


def test_a_window_that_ends_in_a_usual_silence_says_nothing():
    assert ending(WHOLE, LAST + 40 * MS).state is JobState.RUNNING
    half = [*WHOLE, *ring(STEPS, ROUNDS[:2])]
    assert ending(half, max(flow.end_ns for flow in half) + 4 * MS).state is JobState.RUNNING


def without(member):
    """One more step in which a member never begins: each of the others sends as long as it has something to pass on."""
    others = [name for name in NAMES if name != member]
    after = NAMES[(NAMES.index(member) + 1) % 3]
    return [*WHOLE, *ring(STEPS, ROUNDS[:1], others), *ring(STEPS, ROUNDS[1:2], [n for n in others if n != after])]


@pytest.mark.parametrize("member", NAMES)
def test_the_member_that_was_due_first_is_to_blame(member):
    talk = beats(0, LAST + 9 * SECOND)  # without it a ring of three looks as if the next one had died
    result = ending(without(member) + talk, LAST + 10 * SECOND)
    assert result.broken_off
    assert result.culprit == NAMES.index(member)
    assert abs(result.since_ns - (STEPS * PERIOD + ROUNDS[0] * MS)) < 5 * MS
    assert result.lead_ns > 0


@pytest.mark.parametrize(("lost", "state"), [((), JobState.HUNG), ((13, 14, 15), JobState.RUNNING)])
def test_one_whose_records_were_lost_for_as_long_before_is_not_missed(lost, state):
    flows = [*WHOLE, *ring(STEPS, members="ac"), *ring(STEPS + 1, members="ac")]
    flows = [flow for flow in flows if flow.src != "b" or flow.start_ns // PERIOD not in lost]
    assert ending(flows, max(flow.end_ns for flow in flows) + MS).state is state


def test_heartbeats_that_go_on_are_a_hang_and_those_that_stop_a_crash():
    written_to = [*without("b"), Flow("a", "b", STEPS * PERIOD + 150 * MS, STEPS * PERIOD + 151 * MS, 900)]
    before = beats(0, STEPS * PERIOD + 100 * MS)
    assert ending(written_to + before, LAST + 10 * SECOND).state is JobState.CRASHED
    after = beats(STEPS * PERIOD + 100 * MS, LAST + 10 * SECOND)
    result = ending(written_to + before + after, LAST + 10 * SECOND)
    assert result.state is JobState.HUNG
    assert result.culprit == NAMES.index("b")


def test_one_that_is_no_longer_heard_while_the_others_are_is_to_blame():
    everybody = [*WHOLE, *ring(STEPS, ROUNDS[:2])]
    talk = beats(0, LAST) + beats(STEPS * PERIOD + 90 * MS, LAST + 9 * SECOND, ("a", "b"))
    result = ending(everybody + talk, LAST + 10 * SECOND)
    assert (result.state, result.culprit) == (JobState.HUNG, NAMES.index("c"))


def forward(step, moments, members=NAMES):
    """Activations before the ring of a step, which is much larger: a job rests longest between the two."""
    return [flow._replace(bytes=SIZE // 20) for flow in ring(step, moments, members)]


def test_a_job_does_not_rest_while_one_waits_in_the_middle_of_the_step():
    """`a` lives, but cannot go on writing to `b`, which has died; the others come to where the job always rests."""
    steps = [flow._replace(bytes=5 * SIZE) for flow in WHOLE]
    steps += [flow for step in range(STEPS) for flow in forward(step, (2, 10, 18))]
    whole = forward(STEPS, (2, 10, 18))
    stuck = [*forward(STEPS, (2, 10, 18), ("b", "c")), *forward(STEPS, (2,), ("a",))]
    later = LAST + PERIOD
    talk = [Flow(x, y, later, later + MS, 60) for x, y in (("a", "c"), ("c", "a"))]
    assert ending([*steps, *whole, *talk], LAST + 10 * SECOND).state is JobState.ENDED
    result = ending([*steps, *stuck, *talk], LAST + 10 * SECOND)
    assert (result.state, result.culprit) == (JobState.CRASHED, NAMES.index("b"))


def test_all_that_are_heard_once_more_said_goodbye():
    goodbye = [Flow(n, NAMES[0] if n != "a" else "b", LAST + 90 * MS, LAST + 91 * MS, 60) for n in NAMES]
    cut = [*WHOLE, *ring(STEPS, ROUNDS[:2])]
    assert ending(cut, LAST + 10 * SECOND).state is JobState.CRASHED, "everybody in the middle of a step"
    assert ending(cut, LAST + 10 * SECOND).culprit == -1, "and nobody before the others"
    assert ending([*cut, *goodbye], LAST + 10 * SECOND).state is JobState.ENDED


def test_a_member_that_is_missing_is_seen_while_the_others_still_talk():
    """The file ends with its last record: no silence of the job, but one member has been silent for most of a step."""
    waiting = [Flow("a", "c", STEPS * PERIOD + 130 * MS, STEPS * PERIOD + 150 * MS, SIZE)]
    result = ending([*without("b"), *waiting], STEPS * PERIOD + 155 * MS)
    assert result.broken_off
    assert result.culprit == NAMES.index("b")


def test_a_job_without_steps_has_no_ending():
    job, _ = job_of(WHOLE)
    none = Timeline(Steps.empty(), np.zeros((3, 0), dtype=np.int64), Events.empty())
    assert final_ending(job, none, Window(0, LAST)) is None


def test_a_job_that_still_moves_but_slowly_is_not_hung():
    """The same step at a tenth of the pace: everybody is overdue, and everybody goes on."""
    begin = STEPS * PERIOD
    crawl = [
        Flow(flow.src, flow.dst, *(begin + 10 * (when - begin) for when in (flow.start_ns, flow.end_ns)), SIZE)
        for flow in ring(STEPS, members=("a", "b"))
    ]
    flows = [*WHOLE, *crawl]
    assert ending(flows, max(flow.end_ns for flow in flows)).state is JobState.RUNNING


def test_all_that_stop_where_the_job_once_rested_for_long_have_ended():
    """The clock takes a quarter of the step for a step, as with equal layers: after every fourth the job rests, and
    there it ends. The others follow each other without a pause, and have one inside."""
    quarters = [10, 26, 42, 58]
    flows = [flow for step in range(STEPS) for at in quarters for flow in ring(step, [at, at + 12])]
    job, _ = job_of(flows)
    end = np.array([step * PERIOD + (at + 16) * MS for step in range(STEPS) for at in quarters], dtype=np.int64)
    steps = Steps(np.concatenate([[0], end[:-1]]), end, np.zeros(end.size, dtype=np.bool_))
    result = final_ending(job, Timeline(steps, np.tile(end, (3, 1)), Events.empty()), Window(0, LAST + 10 * SECOND))
    assert result is not None
    assert result.state is JobState.ENDED


@pytest.mark.parametrize(("connects", "state"), [(False, JobState.HUNG), (True, JobState.CRASHED)])
def test_a_job_whose_members_connect_anew_has_not_hung_although_agents_talk_on(connects, state):
    until = LAST + 10 * SECOND
    flows = [*without("b"), *beats(0, STEPS * PERIOD + 100 * MS), *beats(STEPS * PERIOD + 100 * MS, until)]
    job, timeline = job_of(flows)
    last = max(flow.end_ns for flow in without("b"))
    found = ending_at(job, timeline.steps, last, until, until - SECOND, until, connects=connects)
    assert (found.state, found.culprit) == (state, NAMES.index("b"))


def test_without_heartbeats_a_death_is_noticed_and_a_hang_is_not():
    """The training comes with many small messages, as over gloo; who dies closes its connections."""
    moments = [step * PERIOD + at * MS for step in range(STEPS) for at in (5, 15, 25, 35)]
    small = [Flow(a, b, when, when + 1_000, 48) for when in moments for a in NAMES for b in NAMES if a != b]
    flows = [*without("b"), *small]
    assert ending(flows, LAST + 10 * SECOND).state is JobState.HUNG, "nobody is heard any more"
    closed = Flow("a", "c", STEPS * PERIOD + 160 * MS, STEPS * PERIOD + 160 * MS + 1_000, 48)
    assert ending([*flows, closed], LAST + 10 * SECOND).state is JobState.CRASHED


@pytest.mark.parametrize(("at_ms", "state"), [(76, JobState.HUNG), (100, JobState.CRASHED)])
def test_one_that_announces_its_message_when_it_is_due_has_not_noticed_a_death(at_ms, state):
    """Member a would send its third round at 76 ms, and c its second one before."""
    moments = [step * PERIOD + at * MS for step in range(STEPS) for at in (5, 15, 25, 35)]
    small = [Flow(a, b, when, when + 1_000, 48) for when in moments for a in NAMES for b in NAMES if a != b]
    due = STEPS * PERIOD + at_ms * MS
    said = [Flow(x, y, at, at + 1_000, 48) for x, y, at in (("a", "b", due), ("c", "a", due - 8 * MS))]
    assert ending([*without("b"), *small, *said], LAST + 10 * SECOND).state is state


def test_one_that_has_all_it_needs_and_does_not_announce_its_message_is_gone_too():
    """Over a transport that announces every message, those that wait for a rank that hangs have announced theirs."""
    moments = [step * PERIOD + at * MS for step in range(STEPS) for at in (5, 15, 25, 35)]
    small = [Flow(a, b, when, when + 1_000, 48) for when in moments for a in NAMES for b in NAMES if a != b]
    begun = [*WHOLE, *small, *ring(STEPS, ROUNDS[:1])]
    due = STEPS * PERIOD + ROUNDS[1] * MS
    said = [Flow(a, b, due, due + 1_000, 48) for a, b in ("ab", "ca")]
    one, two = ending([*begun, *said], LAST + 10 * SECOND), ending([*begun, said[0]], LAST + 10 * SECOND)
    assert one.kind_sure < 0.6, "b alone has said nothing"
    assert two.state is JobState.CRASHED
    assert two.kind_sure > 0.8, "nor has c"


@pytest.mark.parametrize(("names", "state"), [("ac", JobState.CRASHED), ("abc", JobState.ENDED), ("a", JobState.ENDED)])
def test_at_the_end_of_a_job_all_say_goodbye_or_nobody_does(names, state):
    """Where all but one announce their next message and nobody writes to that one, it is gone, although all stopped at
    rest."""
    moments = [step * PERIOD + at * MS for step in range(STEPS) for at in (5, 15, 25, 35)]
    small = [Flow(a, b, when, when + 1_000, 48) for when in moments for a in NAMES for b in NAMES if a != b]
    later = LAST + SECOND
    said = [Flow(a, b, later, later + 1_000, 48) for a, b in ("ac", "ca", "ba") if a in names]
    found = ending([*WHOLE, *small, *said], LAST + 4 * SECOND)
    assert found.state is state
    assert found.culprit == (NAMES.index("b") if state is JobState.CRASHED else -1)


def test_a_long_silence_of_the_set_up_does_not_excuse_one_that_is_missed():
    """Bytes vary, so that only silences tell; a member was silent for seconds before the first step."""
    random = np.random.default_rng(3)
    flows = [flow._replace(bytes=int(SIZE * random.uniform(0.8, 1.2))) for flow in without("b")]
    slow_start = [Flow("b", "c", -4 * SECOND, -4 * SECOND + MS, SIZE)]
    assert ending([*slow_start, *flows], LAST + 10 * SECOND).broken_off


def test_all_that_stop_in_the_middle_of_a_message_do_not_hang():
    """Who hangs does so before it sends; who dies takes the messages of all with it. Else all words end with a job."""
    moments = [step * PERIOD + at * MS for step in range(STEPS) for at in (5, 15, 25, 35)]
    small = [Flow(a, b, when, when + 1_000, 48) for when in moments for a in NAMES for b in NAMES if a != b]
    first, second = ring(STEPS, ROUNDS[:1]), ring(STEPS, ROUNDS[1:2])
    half = [flow._replace(end_ns=flow.start_ns + 2 * MS, bytes=SIZE // 2) for flow in second]
    assert ending([*WHOLE, *small, *first, *half], LAST + 10 * SECOND).state is JobState.CRASHED
    assert ending([*WHOLE, *small, *first, *second], LAST + 10 * SECOND).state is JobState.ENDED


def test_where_bytes_do_not_tell_where_a_member_stands_only_silences_name_one():
    random = np.random.default_rng(3)
    size = {(step, name): int(SIZE * random.uniform(0.8, 1.2)) for step in range(STEPS + 1) for name in NAMES}

    def varied(flows):
        return [flow._replace(bytes=size[flow.start_ns // PERIOD, flow.src]) for flow in flows]

    found = ending(varied(without("b")), LAST + 10 * SECOND)
    assert (found.broken_off, found.culprit) == (True, NAMES.index("b"))
    assert found.since_ns <= found.last_ns
    closed = Flow("a", "c", STEPS * PERIOD + 160 * MS, STEPS * PERIOD + 160 * MS + 1_000, 48)
    job, timeline = job_of([*varied([*WHOLE, *ring(STEPS, ROUNDS[:2])]), closed])
    found = final_ending(job, timeline, Window(0, LAST + 10 * SECOND))
    assert (found.broken_off, found.culprit == NAMES.index("a")) == (True, False), "a lives"
    timeline.steps.end_ns[-1] = found.last_ns + 5 * MS
    assert final_ending(job, timeline, Window(0, LAST + 10 * SECOND)).state is JobState.ENDED, "by the clock"
    assert ending(varied(WHOLE), LAST + 10 * SECOND).state is JobState.ENDED, "and nobody noticed a death"


def test_one_that_has_paused_as_long_before_is_not_surely_overdue():
    """Member c pauses for 1 ms or for 9 at the same point, so that the others may well have gone on for 6 ms."""
    usual = {"sent": [0.0, 0.0, -8.0], "pause": [9.0, 9.0, 1.0], "longest": [9.0, 9.0, 9.0]}
    times = {name: MS * np.array(values) for name, values in usual.items()}
    none = np.zeros(3)
    state = LastState(
        last_ns=LAST, sent_ns=LAST + times["sent"], pause_ns=times["pause"], spread_ns=none + MS,
        longest_ns=times["longest"], lag=none, lag_spread=none, heard_ns=np.zeros(3, dtype=np.int64),
        addressed_ns=np.zeros(3, dtype=np.int64), rest_ns=0.0, most_rest_ns=0.0, longest_rest_ns=50.0 * MS, exact=True,
    )  # fmt: skip
    assert not _surely_overdue(state, RULES).any()
    assert _surely_overdue(replace(state, longest_ns=times["pause"]), RULES).tolist() == [False, False, True]


def test_a_late_message_of_all_is_no_ending_after_a_second():
    cut = [*WHOLE, *ring(STEPS, ROUNDS[:2])]
    last = max(flow.end_ns for flow in cut)
    assert ending(cut, last + SECOND).state is JobState.RUNNING
    assert ending(cut, last + 3 * SECOND).state is JobState.CRASHED


def test_a_job_in_which_one_was_missed_has_not_ended_although_all_are_heard_again():
    flows = [flow for step in range(19) for flow in ring(step)] + ring(19, ROUNDS[:3], ("a", "b"))
    last = max(flow.end_ns for flow in flows)
    result = ending([*flows, *beats(0, last + 2_200 * MS)], last + 2_200 * MS)
    assert (result.state, result.culprit) == (JobState.HUNG, NAMES.index("c"))
    assert ending([*WHOLE, *beats(0, LAST + 2_200 * MS)], LAST + 2_200 * MS).state is JobState.ENDED
    soon, later = (ending([*flows, *beats(0, last + wait * MS)], last + wait * MS) for wait in (390, 410))
    assert not soon.broken_off, "ranks of a job that ends do not leave in the same moment"
    assert later.broken_off, "but within four steps, however short they are"


def test_one_that_is_overdue_by_little_is_missed_if_it_is_silent_for_longer_than_ever_too():
    """Others went on for 6 ms of a step of 100, where 8 tell by one sign alone; before, all rested for up to 14 ms."""
    rounds = [0, 20, 40, 60, 80]

    def messages(step, chosen=rounds, members=NAMES):
        return [flow._replace(end_ns=flow.start_ns + 6 * MS) for flow in ring(step, chosen, members)]

    flows = [flow for step in range(19) for flow in messages(step)]
    flows += messages(19, rounds[:2]) + messages(19, rounds[2:3], ("a", "b"))
    last = max(flow.end_ns for flow in flows)
    result = ending([*flows, *beats(0, last + 2_200 * MS)], last + 2_200 * MS)
    assert (result.state, result.culprit) == (JobState.HUNG, NAMES.index("c"))


def test_nobody_died_where_all_talk_to_the_end_though_steps_are_long():
    """Steps of a second: two seconds of talk are less than three steps, after which ranks live for certain."""
    flows = [flow for step in range(19) for flow in ring(step)] + ring(19, ROUNDS[:3], ("a", "b"))
    slow = [flow._replace(start_ns=10 * flow.start_ns, end_ns=10 * flow.end_ns) for flow in flows]
    last = max(flow.end_ns for flow in slow)
    states = []
    for talk_ms in (2_200, 1_000):
        job, timeline = job_of([*slow, *beats(0, last + talk_ms * MS)])
        steps = Steps(10 * timeline.steps.start_ns, 10 * timeline.steps.end_ns, timeline.steps.setup)
        states.append(final_ending(job, replace(timeline, steps=steps), Window(0, last + 2_200 * MS)).state)
    assert states == [JobState.HUNG, JobState.CRASHED]


def large_ring(lost, members=64):
    """Everybody sends one message a step, in two records; the last record of m07 is lost, and a share of the others."""
    names = [f"m{i:02}" for i in range(members)]
    flows = [
        Flow(name, names[(i + 1) % members], begin, begin + 15 * MS, SIZE)
        for step in range(STEPS)
        for i, name in enumerate(names)
        for begin in (step * PERIOD + 40 * MS + i * 1_000, step * PERIOD + 55 * MS + i * 1_000)
    ]
    before = len(flows) - 2 * members
    gone = set(np.random.default_rng(4).permutation(before)[: int(lost * before)].tolist())
    gone.add(max(i for i, flow in enumerate(flows) if flow.src == "m07"))
    end = np.arange(1, STEPS + 1) * PERIOD
    steps = Steps(end - PERIOD, end, np.zeros(STEPS, dtype=np.bool_))
    job = Job("job", tuple(range(members)), (), 1.0, transfer_table([f for i, f in enumerate(flows) if i not in gone]))
    return final_ending(job, Timeline(steps, np.tile(end, (members, 1)), Events.empty()), Window(0, LAST + 10 * SECOND))


@pytest.mark.parametrize("lost", [0.005, 0.02])
def test_who_seems_to_stop_in_a_message_is_not_missed_where_the_collector_loses_records(lost):
    assert large_ring(lost).state is JobState.ENDED


def test_who_stops_in_a_message_is_missed_where_all_other_records_came():
    result = large_ring(0.0)
    assert result.broken_off
    assert result.culprit == 7


def test_control_messages_to_a_rank_do_not_say_that_it_takes_what_it_is_sent():
    flows = [*WHOLE, *ring(STEPS, ROUNDS[:1], ["a", "c"])]
    last = max(flow.end_ns for flow in flows)
    control = [Flow("a", "b", last + 30 * MS, last + 30 * MS + 1_000, 60)]
    result = ending(flows + control, last + 10 * SECOND)
    assert result.culprit == 1
    assert result.kind_sure < 0.6, "nothing tells"


def test_a_job_whose_rest_is_over_does_not_rest_however_little_was_sent_since():
    """Member a begins the next step, and is cut off in its first message: for the bytes of a step that is nothing."""
    begun = ring(STEPS, ROUNDS[:1], "a")[0]
    cut = begun._replace(end_ns=begun.start_ns + MS // 5, bytes=SIZE // 20)
    assert ending([*WHOLE, cut], LAST + 10 * SECOND).broken_off
    soon = cut._replace(start_ns=LAST + MS, end_ns=LAST + 2 * MS)
    assert ending([*WHOLE, soon], LAST + 10 * SECOND).state is JobState.ENDED, "it has not rested yet"


@pytest.mark.parametrize(
    ("rounds", "paused_s", "state"),
    [
        (ROUNDS, 0, JobState.CRASHED),
        (ROUNDS, 2, JobState.RUNNING),
        ([10, 18, 50, 58], 0, JobState.RUNNING),  # it rests where it stopped, and may have ended there
    ],
)
def test_a_message_may_be_late_by_some_times_as_long_as_the_job_was_ever_silent(rounds, paused_s, state):
    """Steps of two seconds: all stop in the middle of one, and five seconds later nobody has gone on."""
    times = 20
    half = [*(flow for step in range(STEPS) for flow in ring(step, rounds)), *ring(STEPS, rounds[:2])]
    late = [times * flow.start_ns + (paused_s * SECOND if flow.start_ns > 5 * PERIOD else 0) for flow in half]
    flows = [flow._replace(start_ns=at, end_ns=at + 4 * times * MS) for flow, at in zip(half, late, strict=True)]
    job, timeline = job_of(flows)
    shift = np.where(timeline.steps.end_ns > 5 * PERIOD, paused_s * SECOND, 0)
    end = times * timeline.steps.end_ns + shift
    steps = Steps(np.concatenate([[0], end[:-1]]), end, timeline.steps.setup)
    last = max(flow.end_ns for flow in flows)
    assert ending_at(job, steps, last, last + 5 * SECOND, last, None).state is state
