"""A finding: one cause, where it is, since when, what it costs, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Alternative", "Evidence", "Finding", "FindingKind", "Where", "WhereType"]


class FindingKind(StrEnum):
    SLOW_STEP = "slow_step"
    SLOW_GPU = "slow_gpu"
    SLOW_NIC = "slow_nic"
    SLOW_LINK = "slow_link"
    SLOW_SWITCH = "slow_switch"
    SLOW_GROUP = "slow_group"
    IMBALANCE = "imbalance"
    CONGESTION = "congestion"
    STALL = "stall"
    HANG = "hang"
    CRASH = "crash"
    SLOW_STORAGE = "slow_storage"
    DIVERGED = "diverged"


class WhereType(StrEnum):
    GPU = "gpu"
    NIC = "nic"
    LINK = "link"
    SWITCH = "switch"
    GROUP = "group"
    STAGE = "stage"
    JOB = "job"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class Where:
    """The place: an address or switch name; (from, to) for a link; the members for a group or a stage; the job id."""

    type: WhereType
    id: str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    what: str
    value: float
    expected: float | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another cause that the records would allow, and how likely it is.

    `same_place`: it is another name of the place that the finding names, such as a switch and its only cable to the
    others. No record can tell the two apart for certain, and whoever goes there looks at both.
    """

    kind: FindingKind
    where: Where
    confidence: float
    same_place: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """`severity` is the share of the job's speed that is lost while it lasts (0..1); `end_ns` None: still going on.

    `alternatives` are the next best explanations, the likeliest first.
    """

    kind: FindingKind
    job: str | None
    where: Where
    start_ns: int
    end_ns: int | None
    severity: float
    confidence: float
    lost_gpu_seconds: float
    summary: str
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def place_confidence(self) -> float:
        """How likely it is this place, whatever is wrong there: other kinds may be listed for it."""
        return self.confidence + sum(one.confidence for one in self.alternatives if one.where == self.where)
