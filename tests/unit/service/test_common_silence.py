"""After a time without anybody's records windows wait for all who had sent until then, if delivery stood still."""

import pytest

from llmprism.service.common_silence import after_a_silence
from support.watched_clocks import NOW, RULES, S, arrival, steady

NAMES = ["http:a", "http:b", "http:c"]


def waiting(watched, second, arrived, *, refused=False):
    found = {(NAMES[one.part], ""): one for one in arrived}
    after = after_a_silence(watched.clocks, found, NOW + int(second * S), RULES, refused=refused)
    return [clock.source for clock in after.values() if clock.waits_since_ns]


@pytest.mark.parametrize("away_s", [4, 9, 30])
def test_one_that_brings_what_it_kept_shows_that_the_others_keep_theirs(away_s):
    watched = steady(NAMES, 60)
    assert waiting(watched, 60 + away_s, [arrival(0, 60 + away_s, span_s=away_s)]) == NAMES
    assert waiting(watched, 60 + away_s, [arrival(0, 61)]) == NAMES, "piece by piece"


def test_jobs_that_stood_still_have_kept_nothing():
    """A fabric that stops all jobs is no outage of ours: who does not come back may hang, and that is told soon."""
    watched = steady(NAMES, 60)
    assert waiting(watched, 80, [arrival(0, 80)]) == []
    assert waiting(watched, 80, [arrival(0, 80)], refused=True) == NAMES


def test_no_silence_is_waited_after_where_somebody_was_heard():
    watched = steady(NAMES, 60)
    for second in range(61, 80):
        watched.send(second, [arrival(1, second)])
    assert waiting(watched, 80, [arrival(0, 80, span_s=20)]) == []


def test_who_had_gone_before_is_not_waited_for():
    watched = steady(NAMES, 60)
    for second in range(61, 80):
        watched.send(second, [arrival(0, second), arrival(1, second)])
    assert waiting(watched, 90, [arrival(0, 90, span_s=11)]) == ["http:a", "http:b"]


def test_who_sends_seldom_is_not_overdue():
    watched = steady(NAMES[:2], 60)
    watched.names = NAMES
    watched.send(1, [arrival(2, 1)])
    watched.send(59, [arrival(2, 59, span_s=15)])
    assert waiting(watched, 70, [arrival(0, 70, span_s=10)]) == ["http:a", "http:b"]
