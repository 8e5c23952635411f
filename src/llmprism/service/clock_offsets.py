"""How far a clock is off: the offset of a source after a batch that lies ahead of, or behind, what is expected.

A batch ahead of the others moves its clock at once. One behind them comes from a clock that is behind, or has waited on
its way. Waiting begins with a silence, after which the times go on from where they were. The offset of a clock that was
moved is kept meanwhile, until the lag is back or has stayed the same for a while. A clock that drifts sends as often as
before and is followed as soon as it is further off than batches are long; one that is set back says times again.
"""

from __future__ import annotations

from dataclasses import replace

from llmprism.ingest.accept import Arrival
from llmprism.service.clock_of_source import Clock, ClockState, first_of, high_of, span_of
from llmprism.service.rules.clocks import SourceClockRules

__all__ = ["goes_on", "was_silent", "with_offset"]


def with_offset(
    clock: Clock,
    arrival: Arrival,
    deviation: int,
    wall_ns: int,
    rules: SourceClockRules,
    *,
    may_wait: bool = False,
    others_waited_ns: int = 0,
) -> Clock:
    """The clock with its offset, given how far the batch lies ahead of what is expected (before the offset). The
    batches of the others have waited for `others_waited_ns`: by so much it may be ahead of them and be right."""
    rest = deviation - clock.offset_ns
    long = max(span_of(arrival, rules), clock.span_ns) > rules.long_batch_ns
    if rest > rules.tolerance_ns:
        return _jumped(clock, deviation if abs(deviation) > rules.tolerance_ns else 0)
    if clock.offset_ns and rest < 0 and goes_on(clock, arrival, rules):
        if clock.waits_since_ns or (rest < -rules.tolerance_ns and (long or may_wait)):
            return replace(clock, state=ClockState.MOVED, behind_since_ns=wall_ns, behind_ns=deviation)
        kept = _kept(clock, deviation, wall_ns, rules)
        if kept is not None:
            return kept
    if rest >= -rules.tolerance_ns:
        return _followed(clock, rest if rest < 0 else max(0, rest - others_waited_ns), rules)
    if clock.offset_ns > 0:
        moved = _jumped(clock, deviation if deviation > rules.tolerance_ns else 0)
        return replace(moved, state=ClockState.LATE) if deviation < -rules.tolerance_ns else moved
    if long or may_wait or clock.waits_since_ns:
        return replace(clock, offset_ns=0, state=ClockState.LATE, behind_since_ns=0)
    if not _stays_behind(clock, deviation, rules):
        return replace(clock, state=ClockState.LATE, behind_since_ns=wall_ns, behind_ns=deviation)
    if wall_ns - clock.behind_since_ns < rules.steady_ns:
        return replace(clock, state=ClockState.LATE)
    return _jumped(clock, deviation)


def was_silent(clock: Clock, wall_ns: int, rules: SourceClockRules) -> bool:
    """Have no batches of it come for longer than usual until now?"""
    return wall_ns - clock.wall_ns > rules.silent_intervals * clock.interval_ns


def goes_on(clock: Clock, arrival: Arrival, rules: SourceClockRules) -> bool:
    """Does this batch begin where the last one ended, as what was kept meanwhile does?"""
    until = clock.latest_ns + clock.offset_ns
    first = first_of(arrival, rules)
    return first <= until + clock.interval_ns + rules.lateness_ns and high_of(arrival, rules) > until


def _kept(clock: Clock, deviation: int, wall_ns: int, rules: SourceClockRules) -> Clock | None:
    """The clock as it was, where its batch may have waited; None where that is not so, or has been for too long."""
    if was_silent(clock, wall_ns, rules):
        return replace(clock, state=ClockState.MOVED, behind_since_ns=wall_ns, behind_ns=deviation)
    if not clock.behind_since_ns or wall_ns - clock.behind_since_ns >= rules.steady_ns:
        return None
    return None if deviation < clock.behind_ns - rules.steady_by_ns else replace(clock, state=ClockState.MOVED)


def _stays_behind(clock: Clock, deviation: int, rules: SourceClockRules) -> bool:
    """Is it as far behind as it was, or further? A backlog shrinks."""
    return bool(clock.behind_since_ns) and deviation <= clock.behind_ns + rules.steady_by_ns


def _jumped(clock: Clock, offset: int) -> Clock:
    state = ClockState.MOVED if offset else ClockState.AGREES
    return replace(clock, offset_ns=offset, state=state, jumps=clock.jumps + 1, behind_since_ns=0)


def _followed(clock: Clock, rest: int, rules: SourceClockRules) -> Clock:
    """The clock, moved by a part of what is left beyond the time that a batch spans; the lag that it has when nothing
    waits goes with it. A batch may end anywhere within that time, so less says nothing of the clock, and an offset that
    wandered with it would push the records of one step apart."""
    if not clock.offset_ns:
        return replace(clock, state=ClockState.AGREES, behind_since_ns=0)
    unsure = max(clock.span_ns, clock.interval_ns)
    follow = int(rules.follow * (rest - max(-unsure, min(rest, unsure))))
    offset, least = clock.offset_ns + follow, clock.least_lag_ns - follow
    since = clock.behind_since_ns if rest < 0 else 0
    return replace(clock, offset_ns=offset, least_lag_ns=least, state=ClockState.MOVED, behind_since_ns=since)
