"""Who is still heard in a silence: the dead say nothing, those who leave say it at once."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.dead_or_hung import _all_live, still_heard
from llmprism.diagnose.ending import Ending
from llmprism.diagnose.endings import _may_have_ended
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES
from llmprism.model import JobState
from unit.builders import MS, SECOND

LAST = 100 * SECOND
RUNNING = Ending(JobState.RUNNING, 20, LAST - SECOND, LAST, None, 10 * SECOND, LAST + 9 * SECOND, float(SECOND))


def state_of(heard_s, **changes):
    """Members that were last heard so many seconds after the last message, in a job that rests nowhere near."""
    count = len(heard_s)
    none = np.zeros(count)
    heard = (LAST + SECOND * np.array(heard_s)).astype(np.int64)
    state = LastState(
        last_ns=LAST, sent_ns=none + LAST, pause_ns=none + 20 * MS, spread_ns=none + MS, longest_ns=none + 20 * MS,
        lag=none, lag_spread=none, heard_ns=heard, addressed_ns=heard, rest_ns=0.0, most_rest_ns=0.0,
        longest_rest_ns=50.0 * MS, exact=True,
    )  # fmt: skip
    return replace(state, **changes)


def test_who_is_heard_in_the_second_half_of_the_silence_is_alive():
    assert still_heard(RUNNING, state_of([9, 4, 6]), RULES).tolist() == [True, False, True]


@pytest.mark.parametrize(("heard", "culprit", "live"), [
    ([9, 9, 9, 9, 9, 9], -1, True),
    ([9, 9, 9, 9, 9, 1], -1, False),  # one of them may be dead
    ([9, 9, 9, 9, 9, 1], 0, True),  # the one to blame lives, and one says little
    ([9, 9, 9, 9, 9, 1], 5, False),
])  # fmt: skip
def test_nobody_died_where_all_or_nearly_all_and_the_culprit_are_heard(heard, culprit, live):
    assert _all_live(RUNNING, state_of(heard), culprit, RULES) is live


@pytest.mark.parametrize("sign", ["together", "after_whole_steps"])
def test_a_job_ends_after_a_step_where_nobody_is_left_to_talk(sign):
    gone, alive = [1, 1, 1], [9, 9, 9]
    assert _may_have_ended(state_of(gone, **{sign: True}), RUNNING, RULES)
    assert not _may_have_ended(state_of(alive, **{sign: True}), RUNNING, RULES), "they live, and do not go on"
    assert not _may_have_ended(state_of(gone), RUNNING, RULES), "in the middle of a step"
    assert not _may_have_ended(state_of(gone, exact=False, **{sign: True}), RUNNING, RULES), "bytes do not tell"
