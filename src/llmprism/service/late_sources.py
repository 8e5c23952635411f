"""How far the sources have come that deliver files of minutes, later than windows wait.

Their records are stored in segments of their own, whose names begin with `late-`, and looked at in windows of their own
(`late_lane`), because the windows of the others cannot wait for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llmprism.service.clock_of_source import Clock
from llmprism.service.clocks import comes_late
from llmprism.service.rules.clocks import SourceClockRules

__all__ = ["LATE_PREFIX", "late_mark"]

LATE_PREFIX: Final = "late-"


def late_mark(clocks: Iterable[Clock], wall_ns: int, rules: SourceClockRules) -> int:
    """The event time that all late sources have reached; 0 without any. One that left a file out is waited for at the
    hole (`clocks`), and one that has fallen silent is not waited for."""
    late = [clock for clock in clocks if comes_late(clock, rules)]
    active = [
        clock
        for clock in late
        if wall_ns - clock.wall_ns <= max(rules.active_ns, rules.gone_intervals * clock.interval_ns)
    ]
    return min((clock.hole_ns or clock.latest_ns for clock in active or late), default=0)
