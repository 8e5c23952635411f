"""Dead or hung: the dead say nothing, nobody writes to them, and who has lost a peer is cut short."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.dead_or_hung import chance_of_a_hang, cut_short, signs_of_a_hang, still_heard
from llmprism.diagnose.ending import Ending
from llmprism.diagnose.endings import _may_have_ended
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES
from llmprism.model import Job, JobState
from unit.builders import MS, SECOND, Flow, transfer_table

LAST = 100 * SECOND
RUNNING = Ending(JobState.RUNNING, 20, LAST - SECOND, LAST, None, 10 * SECOND, LAST + 9 * SECOND, float(SECOND))
NAMES = "abcdef"


def job_of(flows, count=4):
    """A ring whose members send each other the same message in every second, and these."""
    names = NAMES[:count]
    pairs = list(zip(names, names[1:] + names[0], strict=True))
    usual = [
        Flow(a, b, at * SECOND, at * SECOND + MS, 10**6) for at in range(LAST // SECOND - 9, LAST // SECOND)
        for a, b in pairs
    ]  # fmt: skip
    return Job("job", tuple(range(count)), (), 1.0, transfer_table([*usual, *flows]))


def hang(state, culprit, flows=()):
    job = job_of(flows, state.heard_ns.size)
    return chance_of_a_hang(signs_of_a_hang(RUNNING, job, state, culprit, LAST + 10 * SECOND))


def state_of(heard_s, **changes):
    """Members that were last heard so many seconds after the last message, in a job that rests nowhere near."""
    count = len(heard_s)
    none = np.zeros(count)
    heard = (LAST + SECOND * np.array(heard_s)).astype(np.int64)
    state = LastState(
        last_ns=LAST, sent_ns=none + LAST, pause_ns=none + 20 * MS, spread_ns=none + MS, longest_ns=none + 20 * MS,
        lag=none, lag_spread=none, heard_ns=heard, addressed_ns=heard, rest_ns=0.0, most_rest_ns=0.0,
        longest_rest_ns=50.0 * MS, exact=True, supplied_ns=np.full(count, LAST),
    )  # fmt: skip
    return replace(state, **changes)


def test_who_is_heard_in_the_second_half_of_the_silence_is_alive():
    assert still_heard(RUNNING, state_of([9, 4, 6]), RULES).tolist() == [True, False, True]


@pytest.mark.parametrize(("heard", "culprit", "live"), [
    ([9, 9, 9, 9, 9, 9], -1, True),
    ([9, 9, 9, 9, 9, 1], -1, False),  # one of them may be dead
    ([9, 9, 9, 9, 9, 1], 0, True),  # the one to blame lives, and one says little
    ([9, 9, 9, 9, 9, 1], 5, False),
    ([4, 0, 0, 0, 0, 0], 0, True),  # for longer than a crash takes all others down within
])  # fmt: skip
def test_it_hangs_where_all_or_half_and_the_one_to_blame_are_heard(heard, culprit, live):
    assert (hang(state_of(heard), culprit) > 0.9) is live


def test_others_that_talk_on_and_do_not_write_to_it_say_that_it_is_dead():
    heard = [9, 9, 9, 0]
    silent = state_of(heard)
    assert hang(silent, 3) < 0.3
    written_to = replace(silent, addressed_ns=silent.heard_ns + np.array([0, 0, 0, 8 * SECOND]))
    assert hang(written_to, 3) > 0.9, "in vain"


def test_what_still_reaches_it_after_its_own_message_was_due_says_that_it_hangs():
    silent = state_of([0, 0, 0, 0], sent_ns=np.array([LAST, LAST, LAST, LAST - SECOND]).astype(float))
    silent = replace(silent, heard_ns=silent.sent_ns.astype(np.int64))
    until_due = replace(silent, supplied_ns=np.full(4, LAST - SECOND))
    assert hang(silent, 3) > hang(until_due, 3) + 0.2


def test_who_used_to_talk_at_any_time_and_is_hushed_is_gone():
    words = [
        Flow(a, b, moment, moment + MS, 60)
        for moment in range(LAST - 9 * SECOND, LAST, 190 * MS)
        for a, b in zip(NAMES[:4], NAMES[1:4] + NAMES[0], strict=True)
    ]
    at_an_end = [word._replace(start_ns=word.start_ns // SECOND * SECOND) for word in words]
    still = state_of([0, 0, 0, 0])
    unknown = hang(still, -1)
    assert 0.4 < unknown < 0.6
    assert hang(still, -1, words) < 0.1
    assert hang(still, -1, at_an_end) == unknown, "said at the end of each step, it stops with the training"
    assert hang(replace(still, talks=True), -1, words) == unknown, "said with each message, it stops with them"


def test_messages_that_are_cut_short_say_that_others_lost_a_peer():
    still, last = state_of([0, 0, 0, 0]), LAST - SECOND // 2
    whole = [Flow(a, b, last, last + MS, 10**6) for a, b in zip(NAMES[:4], NAMES[1:4] + NAMES[0], strict=True)]
    cut = [*whole[:2], *(flow._replace(bytes=400_000) for flow in whole[2:])]
    assert cut_short(job_of(whole), still, -1, SECOND) == 0.0
    assert cut_short(job_of(cut), still, -1, SECOND) == 1.0
    assert cut_short(job_of(cut), still, 3, SECOND) == 0.0, "what it sends and is sent does not count"
    assert hang(still, -1, cut) < hang(still, -1, whole)


@pytest.mark.parametrize("sign", ["together", "after_whole_steps"])
def test_a_job_ends_after_a_step_where_nobody_is_left_to_talk(sign):
    gone, alive = [1, 1, 1], [9, 9, 9]
    assert _may_have_ended(state_of(gone, **{sign: True}), RUNNING, RULES)
    assert not _may_have_ended(state_of(alive, **{sign: True}), RUNNING, RULES), "they live, and do not go on"
    assert not _may_have_ended(state_of(gone), RUNNING, RULES), "in the middle of a step"
    assert not _may_have_ended(state_of(gone, exact=False, **{sign: True}), RUNNING, RULES), "bytes do not tell"
