"""Every constant by which flows and logs are read together, one class for each idea, in one place.

What names a format or a unit, and texts, stand where they are used; what decides by its size stands here. Each field
says its unit and where the value comes from. `benchmarks/verdict_rules.py` tried half and twice each value on 86 real
runs: kind, place and class of all verdicts stay as they are, except where the field says otherwise. A millionth and a
million times each value change something in the reports of 168 runs, or fail a unit test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from llmprism.verdict.rules.endings import StopPlaceRules, StopRules
from llmprism.verdict.rules.identity import LogClockRules, MatchRules, SeatRules
from llmprism.verdict.rules.slowness import SlownessRules

__all__ = [
    "RULES",
    "LogClockRules",
    "MatchRules",
    "SeatRules",
    "SlownessRules",
    "StopPlaceRules",
    "StopRules",
    "VerdictRules",
]


@dataclass(frozen=True, slots=True)
class VerdictRules:
    """Passed to every function of the package that decides anything."""

    clock: LogClockRules = field(default_factory=LogClockRules)
    match: MatchRules = field(default_factory=MatchRules)
    seats: SeatRules = field(default_factory=SeatRules)
    place: StopPlaceRules = field(default_factory=StopPlaceRules)
    ending: StopRules = field(default_factory=StopRules)
    slowness: SlownessRules = field(default_factory=SlownessRules)


RULES: Final = VerdictRules()
"""The rules as they are shipped."""
