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
from typing import Final

from llmprism.ingest.accept import Arrival, TimeBounds
from llmprism.service.clock_of_source import Clock, ClockState, Key, first_of, high_of, span_of
from llmprism.service.clock_offsets import was_silent, with_offset
from llmprism.service.rules.clocks import SourceClockRules

__all__ = [
    "ClockBounds",
    "CommonLag",
    "comes_late",
    "declared_late",
    "is_active",
    "judge",
    "reference_lag",
    "reference_of",
]

QUEUED: Final = "kafka:"
"""Sources whose records wait in a queue while this service is slow or away begin so."""


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
        lag = wall_ns - high_of(arrival, rules)
        if key not in active:
            known = clocks.get(key)
            least = known.least_lag_ns if known is not None and known.wall_ns else lag
            active[key] = Clock(*key, lag_ns=lag, least_lag_ns=least, span_ns=span_of(arrival, rules), wall_ns=wall_ns)
        elif key[0].startswith(QUEUED):  # those that are read together catch up together
            active[key] = replace(active[key], lag_ns=lag)
    for arrival in arrivals:
        key = sources[arrival.part], arrival.exporter
        others = [clock for name, clock in active.items() if name != key and not declared_late(name[0], rules)]
        before = current.get(key, Clock(*key))
        updated, limit = _judged(before, arrival, others, wall_ns, rules)
        if not others:
            updated = _late_after_a_start(updated, arrival, clocks.values(), wall_ns, rules)
        updated = _waiting(before, updated, wall_ns, rules)
        current[key] = changed[key] = updated
        late = max(0, mark_ns - rules.lateness_ns)
        oldest = max(0, max(mark_ns, high_of(arrival, rules) - updated.offset_ns) - rules.keep_ns)
        seen = (late_mark_ns if comes_late(updated, rules) else late) - rules.length_ns
        bounds.append(TimeBounds(oldest, limit, late, max(0, seen), updated.offset_ns))
    return ClockBounds(tuple(bounds), tuple(changed.values()))


def _waiting(before: Clock, after: Clock, wall_ns: int, rules: SourceClockRules) -> Clock:
    """The clock after a batch, with since when its batches have waited on their way while its times go on from where
    it was: one that was set back does not wait, nor one that falls further behind though it sends as often as before.
    One that was moved may drift, and is believed to wait only from a silence on."""
    lag, silent = after.last_lag_ns, was_silent(before, wall_ns, rules)
    if not before.wall_ns or after.latest_ns <= before.latest_ns or not _has_waited(after, rules):
        return replace(after, waits_since_ns=0)
    if not _has_waited(before, rules):
        begins = silent or not after.offset_ns
        return replace(after, waits_since_ns=wall_ns if begins else 0, waits_lag_ns=lag)
    if silent:
        return replace(after, waits_since_ns=before.waits_since_ns or wall_ns, waits_lag_ns=lag)
    if lag > before.waits_lag_ns + rules.steady_by_ns:
        return replace(after, waits_since_ns=0)
    return replace(after, waits_since_ns=before.waits_since_ns, waits_lag_ns=min(before.waits_lag_ns, lag))


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
    high = high_of(arrival, rules)
    if not others:
        return _alone(clock, arrival, wall_ns, rules)
    now = replace(clock, lag_ns=wall_ns - high, span_ns=span_of(arrival, rules))
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
    waited = max(0, theirs.lag_ns - theirs.least_lag_ns)
    moved = with_offset(clock, arrival, high - expected, wall_ns, rules, may_wait=may_wait, others_waited_ns=waited)
    if moved.jumps > clock.jumps:
        moved = replace(moved, latest_ns=0, least_lag_ns=wall_ns - high)
    limit = _with_tail(limit, moved, arrival, rules)
    moved = _late_file(moved, arrival, theirs, wall_ns, rules)
    return _advanced(_learnt(moved, arrival, wall_ns, rules), arrival, limit, wall_ns, rules), limit


def _late_file(clock: Clock, arrival: Arrival, theirs: CommonLag, wall_ns: int, rules: SourceClockRules) -> Clock:
    """The clock, late if this is a file that is later than the streams are when none of their records has to wait: one
    that comes while they catch up is no stream because it is not later than they are now."""
    file = max(span_of(arrival, rules), clock.span_ns) > rules.long_batch_ns and not theirs.long
    later = wall_ns - high_of(arrival, rules) > theirs.least_lag_ns + rules.tolerance_ns
    return replace(clock, state=ClockState.LATE) if file and later and clock.state is ClockState.AGREES else clock


def _late_after_a_start(
    clock: Clock, arrival: Arrival, known: Iterable[Clock], wall_ns: int, rules: SourceClockRules
) -> Clock:
    """The clock, late if this is a file that comes before any of the streams that sent until this service ended."""
    others = [one for one in known if one.key != clock.key and not declared_late(one.source, rules)]
    usual = [replace(one, lag_ns=one.least_lag_ns) for one in others if one.is_asleep and one.waits_since_ns]
    return _late_file(clock, arrival, reference_of(usual, rules), wall_ns, rules) if usual else clock


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
    high, span = high_of(arrival, rules), span_of(arrival, rules)
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
    moved = with_offset(clock, arrival, high - expected, wall_ns, rules)
    if moved.state is not ClockState.MOVED:
        return replace(moved, state=clock.state, wall_ns=wall_ns), limit
    moved = replace(_learnt(moved, arrival, wall_ns, rules), state=ClockState.MOVED)
    return _advanced(moved, arrival, limit, wall_ns, rules), limit


def _learnt(clock: Clock, arrival: Arrival, wall_ns: int, rules: SourceClockRules) -> Clock:
    """The clock with its usual lag, span, interval and batch size."""
    lag = wall_ns - high_of(arrival, rules)
    clock = replace(clock, last_lag_ns=lag)
    if not clock.wall_ns:
        return replace(
            clock,
            lag_ns=lag,
            least_lag_ns=lag,
            span_ns=span_of(arrival, rules),
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
        span_ns=int(clock.span_ns + rules.follow * (span_of(arrival, rules) - clock.span_ns)),
        interval_ns=int(clock.interval_ns + rules.follow * (interval - clock.interval_ns))
        if clock.interval_ns
        else interval,
        batch_records=clock.batch_records + rules.follow * (arrival.records - clock.batch_records),
        wall_ns=wall_ns,
    )


def _with_tail(limit: int, clock: Clock, arrival: Arrival, rules: SourceClockRules) -> int:
    """The limit, moved so far that a batch most of which is believed does not lose its last records."""
    high = high_of(arrival, rules) - clock.offset_ns
    return max(limit, _robust_end(arrival, rules) - clock.offset_ns) if high <= limit else limit


def _robust_end(arrival: Arrival, rules: SourceClockRules) -> int:
    """Where a batch may end at the latest; single records beyond that are a stranger's."""
    return high_of(arrival, rules) + rules.lateness_ns + span_of(arrival, rules) // 2


def _advanced(clock: Clock, arrival: Arrival, limit: int, wall_ns: int, rules: SourceClockRules) -> Clock:
    """The clock as far as this batch takes it: to its last record, but not to a single one beyond the others."""
    reached = min(arrival.last_ns, _robust_end(arrival, rules)) - clock.offset_ns
    reached = min(reached, limit)
    clock = _with_hole(clock, first_of(arrival, rules) - clock.offset_ns, reached, wall_ns, rules)
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
