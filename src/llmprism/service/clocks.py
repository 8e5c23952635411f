"""Whose time can be believed: one clock per source and exporter, judged against the others.

Records carry the time of whoever made them. How old they are when they arrive (the *lag*: our clock less their time) is
much the same for all exporters whose clocks are right, so the largest group of sources with one lag is the reference,
and our own clock decides only between groups of equal size. It is never needed to be right: where all sources agree
on another time, their time is used and the difference is shown.

- A clock *ahead* of the reference is wrong, because records do not come from the future: the offset is taken off its
  times at once. One that is only ahead of others with a backlog is not: their lag has grown, and it is not ahead of
  the lag that they had before (of our own clock, for a partition of a topic that is read ahead of others).
- One *behind* is wrong, or its delivery is slow. Where it sends short batches and stays equally far behind for a while,
  its times are moved like those of a wrong clock. Where it agreed before and goes on from where it was, with what it
  kept meanwhile, where it sends long batches (files of minutes), or all exporters of
  a Kafka topic are behind alike, it is late and nothing is moved.
- Single records ahead of a clock that is otherwise right are dropped as `future`, whoever sent them.

Everything here is pure: clocks and arrivals in, bounds and clocks out. `wall_ns` is this machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from llmprism.ingest.accept import Arrival, TimeBounds
from llmprism.service.rules.clocks import SourceClockRules

__all__ = [
    "Clock",
    "ClockBounds",
    "ClockState",
    "CommonLag",
    "SourceClockRules",
    "comes_late",
    "declared_late",
    "is_active",
    "judge",
    "reference_lag",
    "reference_of",
]

QUEUED: Final = "kafka:"
"""Sources whose records wait in a queue while this service is slow or away begin so."""


class ClockState(StrEnum):
    AGREES = "agrees"
    MOVED = "moved"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of one source's (exporter's) time.

    `offset_ns` is taken off its times. `lag_ns` is how old its records usually are on arrival by their own time,
    `last_lag_ns` how old those of its last batch were, `least_lag_ns` how old they are when none had to wait.
    `latest_ns` is how far it has come after the offset was taken off. `behind_since_ns` (wall) and `behind_ns` describe
    a lag that may be a wrong clock; `waits_since_ns` (wall) is since when its batches have waited (0: they do not).
    `hole_ns` is the last time before a hole in what it has delivered (0: none), noticed at `hole_wall_ns`.
    """

    source: str
    exporter: str = ""
    state: ClockState = ClockState.AGREES
    offset_ns: int = 0
    lag_ns: int = 0
    last_lag_ns: int = 0
    least_lag_ns: int = 0
    span_ns: int = 0
    interval_ns: int = 0
    batch_records: float = 0.0
    latest_ns: int = 0
    wall_ns: int = 0
    behind_since_ns: int = 0
    behind_ns: int = 0
    waits_since_ns: int = 0
    hole_ns: int = 0
    hole_end_ns: int = 0
    hole_wall_ns: int = 0
    jumps: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.source, self.exporter

    def asleep(self, wall_ns: int = 0) -> Clock:
        """The clock as a service knows it that was started again at this time: with its offset, but without a lag, for
        our own clock may have been set meanwhile. Whatever it sends next has waited."""
        return replace(self, lag_ns=0, behind_since_ns=0, waits_since_ns=wall_ns)

    @property
    def is_asleep(self) -> bool:
        return not self.lag_ns

    @property
    def corrected_lag_ns(self) -> int:
        return self.lag_ns + self.offset_ns


Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CommonLag:
    """The lag of the largest group of sources that agree, what it is when none of their records had to wait, and
    whether they deliver long batches."""

    lag_ns: int
    least_lag_ns: int
    long: bool


@dataclass(frozen=True, slots=True)
class ClockBounds:
    """The bounds for each arrival, in their order, and the clocks that have changed."""

    bounds: tuple[TimeBounds, ...]
    clocks: tuple[Clock, ...]


def judge(
    clocks: Mapping[Key, Clock],
    sources: Sequence[str],
    arrivals: Sequence[Arrival],
    mark_ns: int,
    wall_ns: int,
    rules: SourceClockRules,
    late_mark_ns: int = 0,
) -> ClockBounds:
    """Bounds for what has arrived now. `sources` names the parts; `mark_ns` is the watermark so far (0: none),
    `late_mark_ns` that of the sources that bring long batches late."""
    bounds = []
    current, changed = dict(clocks), dict[Key, Clock]()
    active = {key: clock for key, clock in clocks.items() if is_active(clock, wall_ns, rules)}
    for arrival in arrivals:
        key = sources[arrival.part], arrival.exporter
        lag = wall_ns - _high(arrival, rules)
        if key not in active:
            known = clocks.get(key)
            least = known.least_lag_ns if known is not None and known.wall_ns else lag
            active[key] = Clock(*key, lag_ns=lag, least_lag_ns=least, span_ns=_span(arrival, rules), wall_ns=wall_ns)
        elif key[0].startswith(QUEUED):  # those that are read together catch up together
            active[key] = replace(active[key], lag_ns=lag)
    for arrival in arrivals:
        key = sources[arrival.part], arrival.exporter
        others = [clock for name, clock in active.items() if name != key and not declared_late(name[0], rules)]
        before = current.get(key, Clock(*key))
        updated, limit = _judged(before, arrival, others, wall_ns, rules)
        updated = replace(updated, waits_since_ns=_waits_since(before, updated, wall_ns, rules))
        current[key] = changed[key] = updated
        late = max(0, mark_ns - rules.lateness_ns)
        oldest = max(0, max(mark_ns, _high(arrival, rules) - updated.offset_ns) - rules.keep_ns)
        seen = (late_mark_ns if comes_late(updated, rules) else late) - rules.length_ns
        bounds.append(TimeBounds(oldest, limit, late, max(0, seen), updated.offset_ns))
    return ClockBounds(tuple(bounds), tuple(changed.values()))


def _waits_since(before: Clock, after: Clock, wall_ns: int, rules: SourceClockRules) -> int:
    """Since when the batches of this clock have waited on their way, while its times go on from where it was: one that
    was set back does not."""
    if not before.wall_ns or after.offset_ns or after.latest_ns <= before.latest_ns or not _has_waited(after, rules):
        return 0
    return before.waits_since_ns if _has_waited(before, rules) else wall_ns


def _has_waited(clock: Clock, rules: SourceClockRules) -> bool:
    return clock.last_lag_ns - clock.least_lag_ns > rules.tolerance_ns


def declared_late(source: str, rules: SourceClockRules) -> bool:
    """Has the operator said that this source comes late?"""
    return any(source == topic or source.startswith(f"{topic}/") for topic in rules.late_topics)


def comes_late(clock: Clock, rules: SourceClockRules) -> bool:
    """Does this source bring long batches that are later than those of the others, or is it said to come late?"""
    long = clock.state is ClockState.LATE and clock.span_ns > rules.long_batch_ns
    return long or declared_late(clock.source, rules)


def is_active(clock: Clock, wall_ns: int, rules: SourceClockRules) -> bool:
    return bool(clock.lag_ns) and abs(wall_ns - clock.wall_ns) <= rules.active_ns


def _judged(
    clock: Clock, arrival: Arrival, others: Sequence[Clock], wall_ns: int, rules: SourceClockRules
) -> tuple[Clock, int]:
    """The clock after this batch, and the latest end that is believed of it."""
    high = _high(arrival, rules)
    if not others:
        return _alone(clock, arrival, wall_ns, rules)
    now = replace(clock, lag_ns=wall_ns - high, span_ns=_span(arrival, rules))
    now = now if clock.wall_ns else replace(now, least_lag_ns=now.lag_ns)
    small = arrival.records < rules.substantial * clock.batch_records
    theirs = reference_of([*others, *(() if small else (now,))], rules)
    expected = wall_ns - (min(theirs.lag_ns, 0) if theirs.long else theirs.lag_ns)
    limit = expected + rules.tolerance_ns
    may_wait = _may_wait(clock, others, theirs.lag_ns, rules)
    on_time = max(limit, wall_ns - theirs.least_lag_ns + rules.tolerance_ns)
    if may_wait and not clock.offset_ns:
        on_time = max(on_time, wall_ns + rules.tolerance_ns)
    if limit < high - clock.offset_ns <= on_time:
        ahead = _ahead_of_backlog(clock, arrival, on_time, wall_ns, rules)
        return _late_file(ahead, arrival, theirs, wall_ns, rules), on_time
    if may_wait and not clock.offset_ns:
        limit = on_time
    if small and high - clock.offset_ns > limit:
        return clock, limit
    moved = _moved(clock, arrival, high - expected, wall_ns, rules, may_wait=may_wait)
    if moved.jumps > clock.jumps:
        moved = replace(moved, latest_ns=0, least_lag_ns=wall_ns - high)
    limit = _with_tail(limit, moved, arrival, rules)
    moved = _late_file(moved, arrival, theirs, wall_ns, rules)
    return _advanced(_learnt(moved, arrival, wall_ns, rules), arrival, limit, wall_ns, rules), limit


def _late_file(clock: Clock, arrival: Arrival, theirs: CommonLag, wall_ns: int, rules: SourceClockRules) -> Clock:
    """The clock, late if this is a file that is later than the streams are when none of their records has to wait: one
    that comes while they catch up is no stream because it is not later than they are now."""
    file = max(_span(arrival, rules), clock.span_ns) > rules.long_batch_ns and not theirs.long
    later = wall_ns - _high(arrival, rules) > theirs.least_lag_ns + rules.tolerance_ns
    return replace(clock, state=ClockState.LATE) if file and later and clock.state is ClockState.AGREES else clock


def _ahead_of_backlog(clock: Clock, arrival: Arrival, limit: int, wall_ns: int, rules: SourceClockRules) -> Clock:
    """A clock that is ahead of others whose records have waited, and not of the time."""
    state = ClockState.MOVED if clock.offset_ns else ClockState.AGREES
    settled = replace(clock, state=state, behind_since_ns=0)
    return _advanced(_learnt(settled, arrival, wall_ns, rules), arrival, limit, wall_ns, rules)


def _may_wait(clock: Clock, others: Sequence[Clock], lag: int, rules: SourceClockRules) -> bool:
    """May the records of this clock have waited in a queue of ours? Those of a Kafka topic do while we are slow, all
    its exporters alike: only where another of them is on time is this one's clock wrong."""
    if not clock.source.startswith(QUEUED):
        return False
    return not any(one.source == clock.source and abs(one.lag_ns - lag) <= rules.tolerance_ns for one in others)


def _alone(clock: Clock, arrival: Arrival, wall_ns: int, rules: SourceClockRules) -> tuple[Clock, int]:
    """A clock with no other to compare it with is the time. It has only its own past: a few records ahead of that are
    a stranger's, and where all of it goes back and stays there, its times are moved so that they go on."""
    high, span = _high(arrival, rules), _span(arrival, rules)
    wide = high - clock.offset_ns + max(rules.future_ns, 2 * span)
    if not is_active(clock, wall_ns, rules):
        return _advanced(_learnt(clock, arrival, wall_ns, rules), arrival, wide, wall_ns, rules), wide
    expected = wall_ns - clock.corrected_lag_ns
    ahead = high - clock.offset_ns - expected
    limit = expected + rules.tolerance_ns
    if clock.source.startswith(QUEUED):
        limit = max(limit, wall_ns + rules.tolerance_ns)
    if ahead > rules.tolerance_ns:
        if arrival.records < rules.substantial * clock.batch_records and high - clock.offset_ns > limit:
            return clock, limit
        wide = max(wide, limit)
        return _advanced(_learnt(clock, arrival, wall_ns, rules), arrival, wide, wall_ns, rules), wide
    limit = _with_tail(limit, clock, arrival, rules)
    goes_back = high - clock.offset_ns < clock.latest_ns - rules.tolerance_ns
    if not goes_back or max(span, clock.span_ns) > rules.long_batch_ns:
        settled = replace(clock, behind_since_ns=0)
        return _advanced(_learnt(settled, arrival, wall_ns, rules), arrival, limit, wall_ns, rules), limit
    moved = _moved(clock, arrival, high - expected + clock.offset_ns, wall_ns, rules)
    if moved.state is not ClockState.MOVED:
        return replace(moved, state=clock.state, wall_ns=wall_ns), limit
    moved = replace(_learnt(moved, arrival, wall_ns, rules), state=ClockState.MOVED)
    return _advanced(moved, arrival, limit, wall_ns, rules), limit


def _moved(
    clock: Clock, arrival: Arrival, deviation: int, wall_ns: int, rules: SourceClockRules, *, may_wait: bool = False
) -> Clock:
    """The clock with its offset, given how far the batch lies ahead of what is expected (before the offset)."""
    rest = deviation - clock.offset_ns
    long = max(_span(arrival, rules), clock.span_ns) > rules.long_batch_ns
    if rest > rules.tolerance_ns:
        offset = deviation if abs(deviation) > rules.tolerance_ns else 0
        state = ClockState.MOVED if offset else ClockState.AGREES
        return replace(clock, offset_ns=offset, state=state, jumps=clock.jumps + 1, behind_since_ns=0)
    if rest >= -rules.tolerance_ns:
        follow = int(rules.follow * rest) if clock.offset_ns else 0
        state = ClockState.MOVED if clock.offset_ns else ClockState.AGREES
        return replace(clock, offset_ns=clock.offset_ns + follow, state=state, behind_since_ns=0)
    if clock.offset_ns > 0:
        offset = deviation if deviation > rules.tolerance_ns else 0
        state = (
            ClockState.MOVED if offset else ClockState.AGREES if deviation >= -rules.tolerance_ns else ClockState.LATE
        )
        return replace(clock, offset_ns=offset, state=state, jumps=clock.jumps + 1, behind_since_ns=0)
    if long or may_wait or clock.waits_since_ns:
        return replace(clock, offset_ns=0, state=ClockState.LATE, behind_since_ns=0)
    steady = clock.behind_since_ns and abs(deviation - clock.behind_ns) <= rules.steady_by_ns
    if not steady:
        return replace(clock, state=ClockState.LATE, behind_since_ns=wall_ns, behind_ns=deviation)
    if wall_ns - clock.behind_since_ns < rules.steady_ns:
        return replace(clock, state=ClockState.LATE)
    return replace(clock, offset_ns=deviation, state=ClockState.MOVED, behind_since_ns=0, jumps=clock.jumps + 1)


def _learnt(clock: Clock, arrival: Arrival, wall_ns: int, rules: SourceClockRules) -> Clock:
    """The clock with its usual lag, span, interval and batch size."""
    lag = wall_ns - _high(arrival, rules)
    clock = replace(clock, last_lag_ns=lag)
    if not clock.wall_ns:
        return replace(
            clock,
            lag_ns=lag,
            least_lag_ns=lag,
            span_ns=_span(arrival, rules),
            batch_records=float(arrival.records),
            wall_ns=wall_ns,
        )
    jumped = not clock.lag_ns or abs(lag - clock.lag_ns) > rules.tolerance_ns
    interval = max(0, wall_ns - clock.wall_ns)
    catches_up = 0 <= wall_ns - clock.waits_since_ns <= rules.catch_up_ns
    waited = 0 if catches_up else max(0, lag - clock.least_lag_ns) * min(1.0, interval / rules.backlog_ns)
    return replace(
        clock,
        least_lag_ns=min(lag, int(clock.least_lag_ns + waited)),
        lag_ns=lag if jumped else int(clock.lag_ns + rules.follow * (lag - clock.lag_ns)),
        span_ns=int(clock.span_ns + rules.follow * (_span(arrival, rules) - clock.span_ns)),
        interval_ns=int(clock.interval_ns + rules.follow * (interval - clock.interval_ns))
        if clock.interval_ns
        else interval,
        batch_records=clock.batch_records + rules.follow * (arrival.records - clock.batch_records),
        wall_ns=wall_ns,
    )


def _with_tail(limit: int, clock: Clock, arrival: Arrival, rules: SourceClockRules) -> int:
    """The limit, moved so far that a batch most of which is believed does not lose its last records."""
    high = _high(arrival, rules) - clock.offset_ns
    return max(limit, _robust_end(arrival, rules) - clock.offset_ns) if high <= limit else limit


def _robust_end(arrival: Arrival, rules: SourceClockRules) -> int:
    """Where a batch may end at the latest; single records beyond that are a stranger's."""
    return _high(arrival, rules) + rules.lateness_ns + _span(arrival, rules) // 2


def _advanced(clock: Clock, arrival: Arrival, limit: int, wall_ns: int, rules: SourceClockRules) -> Clock:
    """The clock as far as this batch takes it: to its last record, but not to a single one beyond the others."""
    span = _span(arrival, rules)
    reached = min(arrival.last_ns, _robust_end(arrival, rules)) - clock.offset_ns
    reached = min(reached, limit)
    first = min(arrival.low_ns - span // 2, arrival.middle_ns) - clock.offset_ns
    first = max(first, arrival.first_ns - clock.offset_ns)
    clock = _with_hole(clock, first, reached, wall_ns, rules)
    return replace(clock, latest_ns=max(clock.latest_ns, reached))


def _with_hole(clock: Clock, first_ns: int, reached_ns: int, wall_ns: int, rules: SourceClockRules) -> Clock:
    """A source of long batches that begins this one well after the last has left something out; one that brings what
    was left out fills the hole. A hole that has been waited for long enough is given up."""
    if clock.hole_ns:
        filled = first_ns <= clock.hole_ns + clock.span_ns // 4 and reached_ns >= clock.hole_end_ns - clock.span_ns // 4
        given_up = wall_ns - clock.hole_wall_ns > rules.hole_intervals * max(clock.interval_ns, clock.span_ns)
        return replace(clock, hole_ns=0, hole_end_ns=0, hole_wall_ns=0) if filled or given_up else clock
    if clock.span_ns <= rules.long_batch_ns or not clock.latest_ns or first_ns - clock.latest_ns <= clock.span_ns // 4:
        return clock
    return replace(clock, hole_ns=clock.latest_ns, hole_end_ns=first_ns, hole_wall_ns=wall_ns)


def reference_lag(clocks: Iterable[Clock], rules: SourceClockRules) -> int | None:
    """The lag of the majority; None without clocks."""
    found = list(clocks)
    return reference_of(found, rules).lag_ns if found else None


def reference_of(clocks: Iterable[Clock], rules: SourceClockRules) -> CommonLag:
    """Every source counts once, however many exporters it names; between groups of one size the one next to our own
    clock is believed."""
    found = sorted(clocks, key=lambda clock: clock.lag_ns)
    per_source: dict[str, int] = {}
    for clock in found:
        per_source[clock.source] = per_source.get(clock.source, 0) + 1
    best: tuple[float, int] = (0.0, 0)
    group: list[Clock] = []
    first, weight = 0, 0.0
    for last, clock in enumerate(found):
        weight += 1 / per_source[clock.source]
        while clock.lag_ns - found[first].lag_ns > rules.tolerance_ns:
            weight -= 1 / per_source[found[first].source]
            first += 1
        middle = found[(first + last + 1) // 2].lag_ns
        if (round(weight, 6), -abs(middle)) > best or not group:
            best, group = (round(weight, 6), -abs(middle)), found[first : last + 1]
    long = sum(clock.span_ns > rules.long_batch_ns for clock in group) * 2 > len(group)
    least = sorted(clock.least_lag_ns for clock in group)[len(group) // 2]
    return CommonLag(group[len(group) // 2].lag_ns, least, long)


def _high(arrival: Arrival, rules: SourceClockRules) -> int:
    return arrival.high_ns if arrival.records >= rules.robust_records else arrival.middle_ns


def _span(arrival: Arrival, rules: SourceClockRules) -> int:
    return arrival.high_ns - arrival.low_ns if arrival.records >= rules.robust_records else 0
