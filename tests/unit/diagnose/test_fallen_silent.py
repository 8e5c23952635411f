"""Who has fallen silent while the others talk on."""

import pytest

from llmprism.diagnose.fallen_silent import fallen_silent
from llmprism.model import Job
from unit.builders import MS, SECOND, Flow, transfer_table

NAMES = "abcd"
LAST = 10 * SECOND
UNTIL = LAST + 15 * SECOND


def gone(until, every_s=1, talk_until=UNTIL, again=""):
    """Ranks that say something every second, `until` says how long each of those named; the training ends at LAST.
    Those named in `again` talk again from six seconds later on."""
    flows = [Flow(a, b, at, at + MS, 4_000_000) for at in range(0, LAST, SECOND) for a, b in ("ab", "bc", "cd", "da")]
    for name in NAMES:
        last = LAST + until.get(name, talk_until - LAST)
        words = [*range(0, last, every_s * SECOND), *(range(LAST + 6 * SECOND, UNTIL, SECOND) if name in again else ())]
        flows += [Flow(name, "a" if name != "a" else "b", at + 500 * MS, at + 501 * MS, 60) for at in words]
    job = Job("job", (0, 1, 2, 3), (), 1.0, transfer_table(flows))
    found = fallen_silent(job, LAST, UNTIL, 0)
    return {name for name, silent in zip(NAMES, found, strict=True) if silent}


def test_who_says_nothing_for_much_longer_than_ever_while_most_talk_on_is_gone():
    assert gone({"c": 0}) == {"c"}
    assert gone({"c": 3 * SECOND}) == {"c"}
    assert gone({}) == set(), "all of them only pause"


@pytest.mark.parametrize("left", ["ab", "abc", "abcd"])
def test_where_most_have_left_the_job_may_have_ended(left):
    assert gone(dict.fromkeys(left, 0)) == set()


def test_the_ranks_of_a_job_that_ends_do_not_leave_all_at_once():
    assert gone({"c": 6 * SECOND}) == set(), "its last word is less than ten seconds ago"


def test_who_speaks_rarely_may_live():
    assert gone({"c": 0}, every_s=6) == set()


def test_who_talks_again_after_a_long_silence_belongs_to_another_job():
    assert gone(dict.fromkeys("abcd", 0), again="abd") == set()
