"""How far the sources have come: the event time up to which windows can be made.

The clocks that agree decide (`clocks`): each is taken back by as much as it is ahead of the slowest of them. A source
that delivers files of minutes may leave one out and bring it later; the watermark waits for it at the hole for two of
the source's usual intervals. A source that has fallen behind and goes on from where it was is catching up, with what
it kept while it or this service was away: it is waited for too, for two minutes at most, because windows that are made
without it show its jobs silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from llmprism.service.clocks import Clock, is_active, reference_of
from llmprism.service.rules.clocks import ClockRules

__all__ = ["watermark"]


def watermark(clocks: Iterable[Clock], mark_ns: int, wall_ns: int, rules: ClockRules) -> int:
    """How far the sources that agree have come; `mark_ns` is what it was. It goes back only where the clock that took
    it there is one that the others do not agree with."""
    active = [clock for clock in clocks if is_active(clock, wall_ns, rules) and clock.latest_ns]
    if not active:
        return mark_ns
    theirs = reference_of((replace(clock, lag_ns=clock.corrected_lag_ns) for clock in active), rules)
    lag = theirs.lag_ns
    if theirs.long:
        agreeing = [clock for clock in active if clock.corrected_lag_ns >= min(lag, 0) - rules.tolerance_ns]
    else:
        agreeing = [clock for clock in active if abs(clock.corrected_lag_ns - lag) <= rules.tolerance_ns]
    lags = [clock.corrected_lag_ns for clock in agreeing]
    reached = max(_shared_time(clock, agreeing, rules) for clock in agreeing)
    reached = min([reached, *(clock.hole_ns for clock in agreeing if clock.hole_ns)])
    reached = min([reached, *(clock.latest_ns for clock in active if _catches_up(clock, wall_ns, rules))])
    outlier = max((clock.latest_ns for clock in active if clock.corrected_lag_ns < min(lags)), default=0)
    if reached < mark_ns <= outlier and mark_ns - reached > rules.tolerance_ns:
        return reached
    return max(mark_ns, reached)


def _catches_up(clock: Clock, wall_ns: int, rules: ClockRules) -> bool:
    """Does this source send what it has kept, and has it not done so for long?"""
    streams = clock.span_ns <= rules.long_batch_ns
    return streams and clock.late_since_ns > 0 and wall_ns - clock.late_since_ns <= rules.catch_up_ns


def _shared_time(clock: Clock, agreeing: Sequence[Clock], rules: ClockRules) -> int:
    """How far this clock has come, less what it is ahead of the slowest other one where that is more than the lateness
    that windows allow anyway. Long batches say nothing about this."""
    if clock.span_ns > rules.long_batch_ns:
        return clock.latest_ns
    lag = clock.last_lag_ns + clock.offset_ns
    streams = [one.corrected_lag_ns for one in agreeing if one is not clock and one.span_ns <= rules.long_batch_ns]
    lead = max(streams, default=lag) - lag
    return clock.latest_ns - (lead if lead > rules.lateness_ns else 0)
