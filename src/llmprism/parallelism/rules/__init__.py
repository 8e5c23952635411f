"""Every constant that the search for a layout decides by, one class for each idea, in one place.

What names a format or a unit stands where it is used; what decides by its size stands here. The rules are handed in at
`identify_layout` and on to every function that decides anything, so that a benchmark can try others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from llmprism.parallelism.rules.carrying import CarryRules
from llmprism.parallelism.rules.clock import ClockRules
from llmprism.parallelism.rules.composition import CompositionRules
from llmprism.parallelism.rules.confidence import ConfidenceRules
from llmprism.parallelism.rules.ends import StepEndRules
from llmprism.parallelism.rules.exchanges import ExchangeRules
from llmprism.parallelism.rules.kinds import KindRules
from llmprism.parallelism.rules.losses import LossRules
from llmprism.parallelism.rules.peers import PeerRules
from llmprism.parallelism.rules.sharding import ShardingRules
from llmprism.parallelism.rules.stages import StageRules

__all__ = [
    "RULES",
    "CarryRules",
    "ClockRules",
    "CompositionRules",
    "ConfidenceRules",
    "ExchangeRules",
    "KindRules",
    "LayoutRules",
    "LossRules",
    "PeerRules",
    "ShardingRules",
    "StageRules",
    "StepEndRules",
]


@dataclass(frozen=True, slots=True)
class LayoutRules:
    """Passed to every function of the package that decides anything."""

    clock: ClockRules = field(default_factory=ClockRules)
    losses: LossRules = field(default_factory=LossRules)
    ends: StepEndRules = field(default_factory=StepEndRules)
    kinds: KindRules = field(default_factory=KindRules)
    exchanges: ExchangeRules = field(default_factory=ExchangeRules)
    stages: StageRules = field(default_factory=StageRules)
    sharding: ShardingRules = field(default_factory=ShardingRules)
    peers: PeerRules = field(default_factory=PeerRules)
    confidence: ConfidenceRules = field(default_factory=ConfidenceRules)
    carrying: CarryRules = field(default_factory=CarryRules)
    composition: CompositionRules = field(default_factory=CompositionRules)


RULES: Final = LayoutRules()
"""The rules as they are shipped."""
