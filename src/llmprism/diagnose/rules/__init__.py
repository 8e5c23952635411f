"""Every constant by which faults are found, one class for each idea, in one place.

What names a format or a unit, and texts, stand where they are used; what decides by its size stands here. The rules are
handed in where evidence is gathered and faults are looked for, and on to every function that decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from llmprism.diagnose.rules.blame import BlameRules
from llmprism.diagnose.rules.dead_or_hung import DeadOrHungRules
from llmprism.diagnose.rules.endings import EndingRules
from llmprism.diagnose.rules.evidence import EvidenceRules
from llmprism.diagnose.rules.members import MemberRules
from llmprism.diagnose.rules.named_place import NamedPlaceRules
from llmprism.diagnose.rules.places import PlaceRules
from llmprism.diagnose.rules.slow_stage import SlowStageRules
from llmprism.diagnose.rules.standstill import StandstillRules
from llmprism.diagnose.rules.storage import StorageRules
from llmprism.diagnose.rules.trust import TrustRules
from llmprism.diagnose.rules.whether_stopped import WhetherStoppedRules
from llmprism.diagnose.rules.who_stopped import WhoStoppedRules

__all__ = [
    "RULES",
    "BlameRules",
    "DeadOrHungRules",
    "EndingRules",
    "EvidenceRules",
    "FaultRules",
    "MemberRules",
    "NamedPlaceRules",
    "PlaceRules",
    "SlowStageRules",
    "StandstillRules",
    "StorageRules",
    "TrustRules",
    "WhetherStoppedRules",
    "WhoStoppedRules",
]


@dataclass(frozen=True, slots=True)
class FaultRules:
    """Passed to every function of the package that decides anything."""

    evidence: EvidenceRules = field(default_factory=EvidenceRules)
    places: PlaceRules = field(default_factory=PlaceRules)
    named_place: NamedPlaceRules = field(default_factory=NamedPlaceRules)
    members: MemberRules = field(default_factory=MemberRules)
    blame: BlameRules = field(default_factory=BlameRules)
    slow_stage: SlowStageRules = field(default_factory=SlowStageRules)
    endings: EndingRules = field(default_factory=EndingRules)
    dead_or_hung: DeadOrHungRules = field(default_factory=DeadOrHungRules)
    whether_stopped: WhetherStoppedRules = field(default_factory=WhetherStoppedRules)
    who_stopped: WhoStoppedRules = field(default_factory=WhoStoppedRules)
    standstill: StandstillRules = field(default_factory=StandstillRules)
    storage: StorageRules = field(default_factory=StorageRules)
    trust: TrustRules = field(default_factory=TrustRules)


RULES: Final = FaultRules()
"""The rules as they are shipped."""
