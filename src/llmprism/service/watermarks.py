"""How far the sources have come: the event time up to which windows can be made.

The clocks that agree decide (`clocks`): each is taken back by as much as it is ahead of the slowest of them. A source
that delivers files of minutes may leave one out and bring it later; the watermark waits for it at the hole for two of
the source's usual intervals.

A source whose last batch had waited on its way has more to send: what it kept while it or this service was away. It is
waited for, for two minutes at most, because windows that are made without it show its jobs silent. The same holds for
half a minute after a start for the sources that sent until the service ended and have not been heard since, and after a
time in which nothing could be stored for those that sent until it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from llmprism.service.clock_of_source import Clock
from llmprism.service.clocks import declared_late, is_active, reference_of
from llmprism.service.rules.clocks import SourceClockRules

__all__ = ["watermark"]


def watermark(clocks: Iterable[Clock], mark_ns: int, wall_ns: int, rules: SourceClockRules) -> int:
    """How far the sources that agree have come; `mark_ns` is what it was. It goes back only where the clock that took
    it there is one that the others do not agree with."""
    known = [clock for clock in clocks if not declared_late(clock.source, rules)]
    active = [clock for clock in known if is_active(clock, wall_ns, rules) and clock.latest_ns]
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
    outlier = max((clock.latest_ns for clock in active if clock.corrected_lag_ns < min(lags)), default=0)
    if reached < mark_ns <= outlier and mark_ns - reached > rules.tolerance_ns:
        return reached
    return max(mark_ns, min([reached, *(clock.latest_ns for clock in known if _has_more(clock, wall_ns, rules))]))


def _has_more(clock: Clock, wall_ns: int, rules: SourceClockRules) -> bool:
    """Is there more to come from this source that has waited?"""
    if clock.span_ns > rules.long_batch_ns or not clock.waits_since_ns:
        return False
    if clock.is_asleep:
        return wall_ns - clock.waits_since_ns <= rules.restart_ns
    return is_active(clock, wall_ns, rules) and wall_ns - clock.waits_since_ns <= rules.catch_up_ns


def _shared_time(clock: Clock, agreeing: Sequence[Clock], rules: SourceClockRules) -> int:
    """How far this clock has come, less what it is ahead of the slowest other one where that is more than the lateness
    that windows allow anyway. Long batches say nothing about this."""
    if clock.span_ns > rules.long_batch_ns:
        return clock.latest_ns
    lag = clock.last_lag_ns + clock.offset_ns
    streams = [one.corrected_lag_ns for one in agreeing if one is not clock and one.span_ns <= rules.long_batch_ns]
    lead = max(streams, default=lag) - lag
    return clock.latest_ns - (lead if lead > rules.lateness_ns else 0)
