"""Time is judged per source: one that disagrees with the others is moved, late or ignored, and never moves theirs."""

import random

import pytest

from llmprism.ingest.accept import Arrival
from llmprism.service.clock_of_source import Clock, ClockState
from llmprism.service.clocks import comes_late, judge, reference_lag
from llmprism.service.late_sources import late_mark
from llmprism.service.watermarks import watermark
from support.watched_clocks import NOW, RULES, S, Watched, arrival, steady


@pytest.mark.parametrize("offset", [-600, -65, 11, 65, 120, 600])
def test_one_clock_of_twenty_never_moves_the_time_of_the_others(offset):
    names = [f"http:c{number}" for number in range(20)]
    watched = steady(names, 60, {7: lambda _second: offset})
    assert all(abs(second - (mark - NOW) / S) < 3 for second, mark in enumerate(watched.marks, 1))
    wrong = watched.clocks["http:c7", ""]
    assert wrong.state is ClockState.MOVED
    assert wrong.offset_ns / S == pytest.approx(offset, abs=1)
    assert all(not clock.offset_ns for key, clock in watched.clocks.items() if key[0] != "http:c7")


def test_a_first_batch_may_be_spread_over_minutes_and_not_over_hours():
    (bounds,) = Watched("http:a").send(1, [arrival(0, 1)])
    assert NOW + 200 * S < bounds.newest_ns < NOW + 600 * S


def test_late_records_are_seen_as_long_as_a_window_holds_their_time():
    watched = steady(["http:a", "http:b"], 90)
    (bounds,) = watched.send(91, [arrival(0, 91)])
    assert bounds.late_before_ns - bounds.unseen_before_ns == 60 * S


def test_a_source_of_late_files_is_waited_for_while_one_file_is_missing():
    def late(name, latest_s, heard_s):
        return Clock(
            name, state=ClockState.LATE, span_ns=300 * S, interval_ns=300 * S,
            latest_ns=NOW + latest_s * S, wall_ns=NOW + heard_s * S,
        )  # fmt: skip

    both = [late("a", 3_000, 3_600), late("b", 2_400, 2_900)]
    assert late_mark(both, NOW + 3_600 * S, RULES) == NOW + 2_400 * S
    assert late_mark(both, NOW + 3_900 * S, RULES) == NOW + 3_000 * S, "three files are missing: it is gone"


@pytest.mark.parametrize("offset", [5, 8])
def test_a_clock_a_little_ahead_makes_windows_wait_for_the_others(offset):
    watched = steady(["http:a", "http:b", "http:c"], 60, {1: lambda _second: offset})
    assert watched.clocks["http:b", ""].offset_ns == 0
    assert watched.behind_s(60) > -0.5, "the watermark is the others' time"


def test_a_drifting_clock_is_followed():
    watched = steady(["http:a", "http:b", "http:c"], 300, {2: lambda second: second / 5})
    clock = watched.clocks["http:c", ""]
    assert clock.state is ClockState.MOVED
    assert clock.offset_ns / S == pytest.approx(60, abs=TOLERANCE)
    assert watched.behind_s(300) == pytest.approx(0, abs=3)


TOLERANCE = 2


def test_a_clock_that_jumps_there_and_back():
    watched = steady(["http:a", "http:b", "http:c"], 90, {2: lambda second: 100 if 30 <= second < 60 else 0})
    clock = watched.clocks["http:c", ""]
    assert (clock.state, clock.offset_ns, clock.jumps) == (ClockState.AGREES, 0, 2)
    assert watched.behind_s(90) == pytest.approx(0, abs=3)


def test_records_of_a_clock_ahead_are_moved_from_its_first_batch():
    watched = steady(["http:a", "http:b", "http:new"], 0)
    watched.send(1, [arrival(0, 1), arrival(1, 1)])
    (bound,) = watched.send(2, [arrival(2, 62)])
    assert bound.offset_ns / S == pytest.approx(60, abs=1)
    assert watched.behind_s(2) < 3


def test_one_record_of_a_stranger_moves_nothing():
    """In a batch of others, in a batch of its own, and under a new name."""
    watched = steady(["http", "http:new"], 30)
    (bound, _) = watched.send(31, [arrival(0, 31, stray_s=91), arrival(1, 31)])
    assert bound.newest_ns < NOW + 91 * S
    (bound,) = watched.send(32, [arrival(0, 92, records=1, span_s=0)])
    assert bound.newest_ns < NOW + 92 * S
    assert watched.behind_s(32) < 3
    assert watched.clocks["http", ""].offset_ns == 0
    lonely = steady(["http"], 30)
    (bound,) = lonely.send(31, [arrival(0, 91, records=1, span_s=0)])
    assert bound.newest_ns < NOW + 91 * S
    assert lonely.mark <= NOW + 31 * S


def test_a_stranger_who_comes_first_is_found_out_when_others_come():
    watched = Watched("http:stranger", "http:real")
    watched.send(1, [arrival(0, 61, records=1, span_s=0)])
    assert watched.mark == NOW + 61 * S
    watched.send(2, [arrival(1, 2)])
    assert watched.mark <= NOW + 2 * S


def test_our_own_clock_is_wrong_and_nobody_is_dropped():
    """All sources agree, 600 s ahead of this machine: theirs is the time. One that is ahead of them is still moved."""
    watched = steady(["http:a", "http:b", "http:c", "http:d"], 30, {n: (lambda _s: 600) for n in range(3)} | {3: lambda _s: 660})  # fmt: skip  # noqa: E501
    assert [watched.clocks[f"http:{name}", ""].offset_ns for name in "abc"] == [0, 0, 0]
    assert watched.clocks["http:d", ""].offset_ns / S == pytest.approx(60, abs=1)
    assert (watched.mark - NOW) / S == pytest.approx(630, abs=3)
    assert reference_lag(watched.clocks.values(), RULES) / S == pytest.approx(-600, abs=2)


def test_a_source_alone_is_the_time_at_any_speed():
    """A capture played back ten times as fast, and one of years ago."""
    for past, speed in ((0, 10), (50_000_000, 1), (50_000_000, 30)):
        watched = Watched("http:replay")
        for second in range(1, 30):
            (bound,) = watched.send(second, [arrival(0, second * speed - past, span_s=speed)])
            assert bound.offset_ns == 0
            assert bound.newest_ns >= NOW + (second * speed - past) * S
            assert watched.mark == NOW + (second * speed - past) * S


def test_an_hour_old_first_record_does_not_hold_the_time_back():
    watched = Watched("http")
    (bound,) = watched.send(1, [Arrival(0, "", 3, 0, 0, NOW, NOW + S, NOW + S)])
    assert bound.oldest_ns > 0
    watched.send(2, [arrival(0, 2)])
    assert watched.mark == NOW + 2 * S


def test_exporters_of_one_topic_are_judged_one_by_one():
    watched = Watched("kafka:flows")
    for second in range(1, 40):
        watched.send(second, [arrival(0, second + (300 if n == 3 else 0), exporter=f"leaf{n}") for n in range(8)])
    moved = {clock.exporter for clock in watched.clocks.values() if clock.offset_ns}
    assert moved == {"leaf3"}


def test_many_exporter_names_of_one_source_are_no_majority():
    watched = Watched("http:a", "http:b", "http:c", "http:liar")
    for second in range(1, 20):
        fine = [arrival(part, second) for part in range(3)]
        lies = [arrival(3, second + 90, exporter=f"name{n}") for n in range(50)]
        watched.send(second, fine + lies)
    assert {clock.source for clock in watched.clocks.values() if clock.offset_ns} == {"http:liar"}
    assert watched.behind_s(19) < 3


def test_a_backlog_is_late_and_not_moved():
    """After ten minutes away one of three sends what it kept, much faster than it happened."""
    watched = steady(["http:a", "http:b", "http:c"], 10)
    for second in range(611, 670):
        backlog = min(second, 11 + (second - 611) * 15)
        watched.send(second, [arrival(0, second), arrival(1, second), arrival(2, backlog)])
        assert watched.clocks["http:c", ""].offset_ns == 0
    assert watched.clocks["http:c", ""].state is ClockState.AGREES


def test_one_without_a_backlog_is_not_ahead_of_those_that_catch_up():
    """The store was away for 25 s, and the job of one source stood still meanwhile: it has kept nothing."""
    names = [f"http:c{number}" for number in range(5)]
    watched = steady(names, 60)
    for second in range(86, 120):
        kept = min(second, 61 + 3 * (second - 86))
        bounds = watched.send(second, [arrival(0, second), *(arrival(part, kept) for part in range(1, 5))])
        assert bounds[0].offset_ns == 0
        assert bounds[0].newest_ns >= NOW + second * S
        assert watched.clocks["http:c0", ""].state is ClockState.AGREES
    assert all(clock.offset_ns == 0 for clock in watched.clocks.values())


@pytest.mark.parametrize("waited_s", [20, 30])
def test_a_file_that_comes_while_the_streams_catch_up_is_late_as_any_other(waited_s):
    """They were away for so long and send what they kept; the file is as old as what they send."""
    watched = steady(["http:a", "http:b", "directory:spool"][:2], 55)
    watched.names = ("http:a", "http:b", "directory:spool")
    now = 56 + waited_s
    watched.send(now, [arrival(0, 56), arrival(1, 56)])
    watched.send(now, [arrival(2, 60, span_s=60.0)])
    assert comes_late(watched.clocks["directory:spool", ""], RULES)
    assert late_mark(watched.clocks.values(), NOW + now * S, RULES) > NOW + 50 * S


def test_a_file_that_is_the_first_to_come_after_a_restart_is_late_as_any_other():
    """Nobody has sent since; how late the streams were before is known."""
    watched = steady(["http:a", "http:b"], 55)
    watched.clocks = {key: clock.asleep(NOW + 80 * S) for key, clock in watched.clocks.items()}
    watched.names = ("http:a", "http:b", "directory:spool")
    watched.send(81, [arrival(2, 60, span_s=60.0)])
    assert comes_late(watched.clocks["directory:spool", ""], RULES)
    for second in range(82, 100):
        watched.send(second, [arrival(0, second), arrival(1, second)])
    assert watched.behind_s(99) < 3
    watched.send(136, [arrival(2, 120, span_s=60.0)])
    assert late_mark(watched.clocks.values(), NOW + 136 * S, RULES) == NOW + 120 * S


def test_a_restarted_service_knows_how_late_they_were_before_their_backlog():
    names = [f"http:c{number}" for number in range(5)]
    watched = steady(names, 60)
    watched.clocks = {key: clock.asleep() for key, clock in watched.clocks.items()}
    watched.send(86, [arrival(part, 61) for part in range(1, 5)])
    watched.send(87, [arrival(part, 64) for part in range(1, 5)])
    assert watched.send(88, [arrival(0, 88)])[0].offset_ns == 0


def test_windows_wait_for_one_that_catches_up_and_not_for_ever():
    """Of three one sends what it kept, a little faster than it happens; after two minutes it is left behind."""
    watched = steady(["http:a", "http:b", "http:c"], 60)
    for second in range(91, 260):
        kept = 61 + 1.1 * (second - 91)
        watched.send(second, [arrival(0, second), arrival(1, second), arrival(2, kept)])
        if second < 91 + 118:
            assert watched.mark <= NOW + int(kept * S)
    assert watched.behind_s(259) < 3


def test_one_that_stays_behind_after_an_outage_is_no_wrong_clock():
    """It sends what it kept as fast as it happens: equally far behind for a minute, and still its times are right."""
    watched = steady(["http:a", "http:b", "http:c"], 60)
    for second in range(86, 146):
        watched.send(second, [arrival(0, second), arrival(1, second), arrival(2, second - 25)])
        assert watched.clocks["http:c", ""].offset_ns == 0


def test_windows_wait_for_one_whose_last_batch_had_waited_though_it_is_slow_to_send_the_next():
    watched = steady(["http:a", "http:b", "http:c"], 60)
    watched.send(85, [arrival(part, 61) for part in range(3)])
    for second in range(86, 120):
        watched.send(second, [arrival(0, second), arrival(1, second)])
        assert watched.mark <= NOW + 61 * S
    watched.send(120, [arrival(part, 120) for part in range(3)])
    assert watched.behind_s(120) < 3


@pytest.mark.parametrize(("heard_s", "waits"), [(60, True), (45, False)])
def test_a_restarted_service_waits_half_a_minute_for_those_that_sent_until_it_ended(heard_s, waits):
    watched = steady(["http:a", "http:b", "http:c"], heard_s)
    for second in range(heard_s + 1, 61):
        watched.send(second, [arrival(0, second), arrival(1, second)])
    last = NOW + (60 - 10) * S
    watched.clocks = {
        key: clock.asleep(NOW + 70 * S if clock.wall_ns >= last else 0) for key, clock in watched.clocks.items()
    }
    for second in range(70, 110):
        watched.send(second, [arrival(0, second), arrival(1, second)])
        if second < 100:
            assert (watched.mark <= NOW + 60 * S) == waits
    assert watched.behind_s(109) < 3


def test_waiting_does_not_turn_time_back():
    """One catches up while another is a little ahead of all: the watermark stands still and does not go back."""
    names = ["http:a", "http:b", "http:c", "http:d"]
    watched = steady(names, 60)
    for second in range(86, 120):
        kept = min(second, 61 + 2 * (second - 86))
        watched.send(second, [*(arrival(part, second) for part in range(2)), arrival(2, kept), arrival(3, second + 9)])
    assert watched.marks == sorted(watched.marks)


def test_windows_do_not_wait_for_a_clock_that_was_set_back():
    watched = steady(["http:a", "http:b", "http:c"], 60, {2: lambda second: 0 if second < 30 else -40})
    assert watched.behind_s(60) < 3
    assert all(second - (mark - NOW) / S < 3 for second, mark in enumerate(watched.marks, 1))


def test_one_that_is_ahead_of_those_that_catch_up_and_of_the_time_is_moved():
    names = [f"http:c{number}" for number in range(5)]
    watched = steady(names, 60)
    kept = [arrival(part, 61) for part in range(1, 5)]
    bounds = watched.send(86, [arrival(0, 86 + 60), *kept])
    assert bounds[0].offset_ns / S == pytest.approx(60, abs=1)


def test_partitions_with_unequal_backlogs_are_not_moved():
    """Three partitions are read from their beginning at different speeds; one is 30 s ahead of the others at times."""
    watched = Watched("kafka:flows/0", "kafka:flows/1", "kafka:flows/2")
    for second in range(1, 20):
        ends = (-300 + 12 * second, -300 + 10 * second, -300 + 13.5 * second)
        bounds = watched.send(second, [arrival(part, end) for part, end in enumerate(ends)])
        assert all(bound.offset_ns == 0 for bound in bounds)
        assert all(bound.newest_ns >= NOW + int(end * S) for bound, end in zip(bounds, ends, strict=True))
    assert all(clock.offset_ns == 0 for clock in watched.clocks.values())


@pytest.mark.parametrize("name", ["kafka:flows/0", "http:a"])
def test_a_source_that_catches_up_loses_no_record(name):
    """Alone or beside others, in steps of any length, the last records of a batch are kept like the others."""
    chance = random.Random(5)
    for others in ((), ("kafka:flows/1", "kafka:flows/2")):
        watched = Watched(name, *others)
        second, ends = 0.0, [-3600.0] * (1 + len(others))
        for _ in range(400):
            second += chance.choice((0.5, 0.5, 0.5, 20.0))
            ends = [min(end + chance.uniform(0.5, 14.0), second) for end in ends]
            sizes = [chance.choice((40, 1000)) if name.startswith("kafka") else 1000 for _ in ends]
            bounds = watched.send(second, [arrival(part, end, sizes[part]) for part, end in enumerate(ends)])
            if others and name.startswith("http"):
                bounds = bounds[1:]  # ahead of a queue with a backlog an exporter's clock may be wrong
            assert all(
                bound.newest_ns >= NOW + int(end * S) and not bound.offset_ns
                for bound, end in zip(bounds, ends[-len(bounds) :], strict=True)
            )


def test_exporters_of_a_topic_catch_up_together():
    """A queue that is read up after an outage brings all its exporters closer; none of their clocks is wrong."""
    watched = Watched("kafka:flows")
    for second in range(1, 30):
        end = min(second, -600 + 25 * second)
        bounds = watched.send(second, [arrival(0, end, exporter=f"leaf{n}") for n in range(6)])
        assert all(bound.offset_ns == 0 and bound.newest_ns >= NOW + int(end * S) for bound in bounds)


def test_files_out_of_order_are_waited_for():
    watched = Watched("directory:spool")
    watched.send(360, [arrival(0, 300, span_s=300)])
    assert watched.mark == NOW + 300 * S
    watched.send(960, [arrival(0, 900, span_s=300)])
    assert watched.mark == NOW + 300 * S, "the file in between may still come"
    watched.send(970, [arrival(0, 600, span_s=300)])
    watched.send(1260, [arrival(0, 1200, span_s=300)])
    assert watched.mark == NOW + 1200 * S


def test_a_file_that_never_comes_is_given_up():
    watched = Watched("directory:spool")
    watched.send(360, [arrival(0, 300, span_s=300)])
    for end in range(900, 3000, 300):
        watched.send(end + 60, [arrival(0, end, span_s=300)])
    assert watched.mark == NOW + 2700 * S


def test_a_topic_that_lags_is_late_and_one_exporter_of_it_that_is_behind_is_wrong():
    watched = Watched("http:a", "http:b", "kafka:flows/3")
    for second in range(1, 60):
        watched.send(second, [arrival(0, second), arrival(1, second), arrival(2, second - 60)])
    assert watched.clocks["kafka:flows/3", ""].state is ClockState.LATE
    watched = Watched("http:a", "kafka:flows/3")
    for second in range(1, 60):
        leaves = [arrival(1, second - (60 if n == 2 else 0), exporter=f"leaf{n}") for n in range(4)]
        watched.send(second, [arrival(0, second), *leaves])
    assert {clock.exporter for clock in watched.clocks.values() if clock.offset_ns} == {"leaf2"}


def test_a_restart_keeps_offsets_and_forgets_lags():
    watched = steady(["http:a", "http:b", "http:c"], 30, {2: lambda _second: 60})
    slept = {key: clock.asleep() for key, clock in watched.clocks.items()}
    judged = judge(slept, watched.names, [arrival(2, 92)], watched.mark, NOW + 32 * S, RULES)
    assert judged.bounds[0].offset_ns / S == pytest.approx(60, abs=2)
    again = {**slept, judged.clocks[0].key: judged.clocks[0]}
    assert watermark(again.values(), watched.mark, NOW + 32 * S, RULES) <= NOW + 33 * S


def test_no_clocks_leave_the_watermark_alone():
    assert watermark([], 5, NOW, RULES) == 5
    assert watermark([Clock("a", latest_ns=NOW, lag_ns=1, wall_ns=NOW - 100 * S)], 5, NOW, RULES) == 5
