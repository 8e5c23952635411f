"""Whose time is believed, and how far the sources have come: every constant of that."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.units import SECOND

__all__ = ["SourceClockRules"]


@dataclass(frozen=True, slots=True)
class SourceClockRules:
    """Clocks of sources and exporters. The operator sets the first five. Times are in nanoseconds."""

    lateness_ns: int = 2 * SECOND
    """As for windows."""

    future_ns: int = 300 * SECOND
    """How far a first batch may be spread."""

    keep_ns: int = 86_400 * SECOND
    """Age of the oldest records worth storing."""

    length_ns: int = 60 * SECOND
    """Of a window."""

    late_topics: tuple[str, ...] = ()
    """Sources that the operator has declared to come late; their partitions are named `SOURCE/NUMBER`."""

    tolerance_ns: int = 10 * SECOND
    """Lags that differ by less are one time: exporters flush every second or two, and windows wait for the slowest of
    those that agree. More than this would take a third of the time in which a hang must be reported."""

    active_ns: int = 60 * SECOND
    """A clock that has not been seen for a minute says nothing about the others."""

    substantial: float = 0.1
    """Share of a clock's usual records per batch from which a batch can move it; fewer are strangers' records."""

    steady_ns: int = 30 * SECOND
    """A clock that stays as far behind for so long, or falls back further, is wrong; a backlog shrinks meanwhile."""

    steady_by_ns: int = 2 * SECOND
    """By how much the lag may change for other reasons in that time."""

    long_batch_ns: int = 20 * SECOND
    """A batch that spans more is a file of a rotating collector, not a stream."""

    backlog_ns: int = 300 * SECOND
    """A lag that has grown is taken for a backlog for about so long: the longest outages that a sender rides out are
    caught up with in less, and a machine whose lag has changed for good is believed after twice that."""

    catch_up_ns: int = 120 * SECOND
    """A source that has fallen behind and sends what it kept is waited for so long: two windows. Collectors that keep a
    minute send it in less; one that cannot keep up at all must not hold the others up for ever."""

    restart_ns: int = 30 * SECOND
    """So long after a start windows wait for a source that sent until the service ended: senders that are refused try
    again within half a minute."""

    recent_ns: int = 10 * SECOND
    """A source sent until the service ended if its last batch came so long before the last one of all."""

    follow: float = 0.2
    """Weight of a new batch in what is learnt of a clock: a drifting clock is followed within some batches."""

    silent_intervals: float = 1.5
    """A source whose next batch takes longer than so many of its usual intervals was silent: batches that come as often
    as before have not waited, half an interval is what a busy sender needs more, and a batch that was refused once is
    a whole one late."""

    hole_intervals: float = 2.0
    """So many of a source's usual intervals are waited for a file that is missing between two others."""

    gone_intervals: float = 3.0
    """A source of late files that has been silent for so many of its usual intervals is not waited for any more by the
    windows of late files: one file may be missing, and the next one late."""

    robust_records: int = 20
    """Records of a batch from which its upper quantile is not made by one or two of them."""
