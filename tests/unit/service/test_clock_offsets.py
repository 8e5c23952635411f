"""The offset of a clock that was moved: batches that waited do not change it, a clock that is set or drifts does."""

import itertools
import math
import random

import pytest

from llmprism.service.clock_of_source import ClockState
from support.watched_clocks import NOW, S, Watched, arrival, steady

NAMES = [f"http:c{number}" for number in range(5)]
WRONG = ("http:c4", "")


def after_a_minute(offset_s):
    """Five sources that send every second; the clock of the last one is wrong."""
    return steady(NAMES, 60, {4: lambda _second: offset_s})


def offset_s(watched):
    return watched.clocks[WRONG].offset_ns / S


@pytest.mark.parametrize("wrong_s", [40, 600, -200])
@pytest.mark.parametrize("away_s", [5, 9, 20, 45])
@pytest.mark.parametrize("pieces", [1, 3, 8])
def test_what_waited_while_nothing_was_taken_moves_no_clock(wrong_s, away_s, pieces):
    """Nothing is taken for a while; then the others send all that they kept at once, this one in pieces."""
    watched = after_a_minute(wrong_s)
    before = offset_s(watched)
    for piece in range(1, pieces + 1):
        second, kept = 60 + away_s + piece * 0.5, 60 + away_s * piece / pieces
        others = [arrival(part, second, span_s=away_s if piece == 1 else 0.5) for part in range(4)]
        bounds = watched.send(second, [*others, arrival(4, kept + wrong_s, span_s=away_s / pieces)])
        assert bounds[4].offset_ns / S == pytest.approx(before, abs=0.3)
    for second in range(66 + away_s, 100 + away_s):
        bounds = watched.send(second, [*(arrival(part, second) for part in range(4)), arrival(4, second + wrong_s)])
        assert bounds[4].offset_ns / S == pytest.approx(before, abs=0.3)
    assert watched.clocks[WRONG].jumps == 1
    assert watched.behind_s(second) < 3


def test_windows_wait_for_a_moved_clock_that_catches_up():
    watched = after_a_minute(40)
    for second in range(81, 90):
        kept = min(second, 61 + 3 * (second - 81))
        watched.send(second, [*(arrival(part, second) for part in range(4)), arrival(4, kept + 40)])
        assert watched.mark <= NOW + int((kept + 1.5) * S) or second - kept <= 10
    assert watched.mark >= NOW + 80 * S


@pytest.mark.parametrize("wrong_s", [40, -200])
def test_a_moved_clock_is_not_ahead_of_others_that_wait(wrong_s):
    """It sends at once what the others send eight seconds later."""
    watched = after_a_minute(wrong_s)
    before = offset_s(watched)
    for second in range(61, 80):
        kept = [arrival(part, max(60, second - 8)) for part in range(4)]
        bounds = watched.send(second, [*kept, arrival(4, second + wrong_s)])
        assert bounds[4].offset_ns / S == pytest.approx(before, abs=0.5)


@pytest.mark.parametrize("wrong_s", [40, -200])
def test_the_offset_does_not_wander_with_where_batches_end(wrong_s):
    """Batches of a second end with the last step in it. Records of one step lie in two batches: they must stay
    together."""
    watched, ends = after_a_minute(wrong_s), random.Random(3)
    before = watched.clocks[WRONG].offset_ns
    for second in range(61, 160):
        late = [ends.uniform(0, 0.6) for _ in range(5)]
        arrivals = [arrival(part, second - late[part] + (wrong_s if part == 4 else 0)) for part in range(5)]
        assert watched.send(second, arrivals)[4].offset_ns == before


@pytest.mark.parametrize("rate", [-0.02, -0.2, 0.2])
def test_a_moved_clock_that_drifts_is_followed(rate):
    watched = after_a_minute(60)
    for second in range(61, 200):
        wrong = 60 + rate * (second - 60)
        watched.send(second, [*(arrival(part, second) for part in range(4)), arrival(4, second + wrong)])
        assert abs(offset_s(watched) - wrong) < 3
    assert watched.clocks[WRONG].jumps == 1


@pytest.mark.parametrize("rate", [-2.0, -1.0, -0.5, -0.2, -0.1, -0.05, 0.1, 0.5, 2.0])
def test_a_clock_that_begins_to_drift_is_named_and_windows_of_the_others_go_on(rate):
    """From right to ten minutes wrong, or as far as it comes in six minutes."""
    names = [f"http:c{number}" for number in range(20)]
    watched = steady(names, 60)
    for second in range(61, 420):
        wrong = max(-600.0, min(600.0, rate * (second - 60)))
        watched.send(second, [arrival(part, second + (wrong if part == 4 else 0)) for part in range(20)])
        assert watched.behind_s(second) < 15
    clock = watched.clocks[WRONG]
    assert clock.state is ClockState.MOVED
    assert clock.offset_ns / S == pytest.approx(wrong, abs=5)
    assert all(not one.offset_ns for key, one in watched.clocks.items() if key != WRONG)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_one_clock_of_twenty_does_no_other_is_moved_or_loses_a_record(seed):
    """It jumps, swings or wanders between ten minutes behind and ahead; all come a little late, some seldom."""
    chance = random.Random(seed)
    jumps = [chance.uniform(-600, 600) for _ in range(100)]
    wander = list(itertools.accumulate(chance.gauss(0, 5) for _ in range(300)))
    lasts = chance.uniform(4, 40)
    kinds = (lambda at: jumps[int(at / lasts)], lambda at: 600 * math.sin(at / lasts), lambda at: wander[at])
    wrong, every = kinds[seed % 3], [chance.choice((1, 1, 2, 4)) for _ in range(20)]
    watched = Watched(*(f"http:c{number}" for number in range(20)))
    for second in range(1, 200):
        due = [part for part in range(20) if second % every[part] == 0]
        ends = [second - chance.uniform(0, 1) + (wrong(second) if part == 4 else 0) for part in due]
        sent = [arrival(part, end, span_s=every[part]) for part, end in zip(due, ends, strict=True)]
        if not sent:
            continue
        for one, bounds in zip(sent, watched.send(second, sent), strict=True):
            assert one.part == 4 or (bounds.offset_ns == 0 and bounds.newest_ns >= one.last_ns)
        assert second < 10 or watched.behind_s(second) < 15


@pytest.mark.parametrize("silent_s", [0, 20, 100])
def test_a_moved_clock_that_is_set_right_is_believed_at_once(silent_s):
    """Also after a silence: what it sends then does not begin where it ended."""
    watched = after_a_minute(40)
    second = 61 + silent_s
    (bound, *_) = watched.send(second, [arrival(4, second), *(arrival(part, second) for part in range(4))])
    assert bound.offset_ns == 0
    assert watched.clocks[WRONG].state is ClockState.AGREES


def test_a_lag_that_stays_is_a_clock_that_was_set_after_all():
    """It was set back by 15 s while it was away for as long: as if it had kept its records, but it never catches up."""
    watched = after_a_minute(40)
    for second in range(76, 76 + 600):
        watched.send(second, [*(arrival(part, second) for part in range(4)), arrival(4, second + 25)])
    assert offset_s(watched) == pytest.approx(25, abs=1)


def test_a_clock_alone_that_is_set_back_twice_goes_on_twice():
    watched = Watched("http:a")
    for second in range(1, 200):
        wrong = 0 if second < 30 else -100 if second < 110 else -250
        watched.send(second, [arrival(0, second + wrong)])
    assert watched.clocks["http:a", ""].offset_ns / S == pytest.approx(-250, abs=1)
    assert watched.behind_s(199) == pytest.approx(0, abs=3)
