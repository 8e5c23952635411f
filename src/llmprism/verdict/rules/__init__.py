"""Every constant by which flows and logs are read together, one class for each idea, in one place.

What names a format or a unit, and texts, stand where they are used; what decides by its size stands here. Each field
says its unit and where the value comes from. `benchmarks/verdict_rules.py` tried half and twice each value on 86 real
runs: kind, place and class of all verdicts stay as they are, except where the field says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from llmprism.verdict.rules.endings import EndingRules, PlaceRules
from llmprism.verdict.rules.identity import ClockRules, MatchRules, SeatRules
from llmprism.verdict.rules.slowness import SlownessRules

__all__ = [
    "RULES",
    "ClockRules",
    "EndingRules",
    "MatchRules",
    "PlaceRules",
    "SeatRules",
    "SlownessRules",
    "VerdictRules",
]


@dataclass(frozen=True, slots=True)
class VerdictRules:
    """Passed to every function of the package that decides anything."""

    clock: ClockRules = field(default_factory=ClockRules)
    match: MatchRules = field(default_factory=MatchRules)
    seats: SeatRules = field(default_factory=SeatRules)
    place: PlaceRules = field(default_factory=PlaceRules)
    ending: EndingRules = field(default_factory=EndingRules)
    slowness: SlownessRules = field(default_factory=SlownessRules)


RULES: Final = VerdictRules()
"""The rules as they are shipped."""
