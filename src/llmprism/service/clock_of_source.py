"""What is known of one source's (exporter's) time, and what a batch of it says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from llmprism.ingest.accept import Arrival
from llmprism.service.rules.clocks import SourceClockRules

__all__ = ["Clock", "ClockState", "Key", "first_of", "high_of", "span_of"]


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
    a lag that may be a wrong clock; `waits_since_ns` (wall) is since when its batches have waited (0: they do not),
    and `waits_lag_ns` how old they were at least since then.
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
    waits_lag_ns: int = 0
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


def first_of(arrival: Arrival, rules: SourceClockRules) -> int:
    """Where a batch begins; single records before that are a stranger's."""
    return max(arrival.first_ns, min(arrival.low_ns - span_of(arrival, rules) // 2, arrival.middle_ns))


def high_of(arrival: Arrival, rules: SourceClockRules) -> int:
    """Where a batch ends but for its last records."""
    return arrival.high_ns if arrival.records >= rules.robust_records else arrival.middle_ns


def span_of(arrival: Arrival, rules: SourceClockRules) -> int:
    return arrival.high_ns - arrival.low_ns if arrival.records >= rules.robust_records else 0
