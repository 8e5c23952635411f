"""Every constant by which the live service concludes anything about jobs, findings and clocks, in one place.

What the operator sets (`config.WindowSettings`) is in `windows` and `clocks` too; `configured.rules_of` puts it there.
Intervals of polling, limits on what is kept or shown and the like stand where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from llmprism.service.rules.clocks import SourceClockRules
from llmprism.service.rules.findings import FindingRules
from llmprism.service.rules.runs import RunRules
from llmprism.service.rules.windows import WindowRules

__all__ = [
    "RULES",
    "FindingRules",
    "LiveRules",
    "RunRules",
    "SourceClockRules",
    "WindowRules",
]


@dataclass(frozen=True, slots=True)
class LiveRules:
    """Passed to every function of the package that decides anything."""

    windows: WindowRules = field(default_factory=WindowRules)
    clocks: SourceClockRules = field(default_factory=SourceClockRules)
    runs: RunRules = field(default_factory=RunRules)
    findings: FindingRules = field(default_factory=FindingRules)


RULES: Final = LiveRules()
"""The rules as they are shipped."""
