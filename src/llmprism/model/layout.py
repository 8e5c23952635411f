"""How a job is laid out over its members: degrees, groups, pipelines, and what each pair carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import numpy as np

from llmprism.arrays import Float64, Int8, Int32
from llmprism.model.clock import StepClock

__all__ = ["Group", "JobLayout", "Layout", "LayoutAlternative", "PairKind", "PairRoles", "Schedule", "Sharding"]


class PairKind(IntEnum):
    """What a directed pair (or one transfer of it) carries; `label` is the name the report uses."""

    UNKNOWN = 0
    DP = 1
    PP = 2
    EP = 3
    CP = 4
    TP = 5
    OTHER = 6

    @property
    def label(self) -> str:
        return self.name.lower()


class Sharding(StrEnum):
    NONE = "none"
    ZERO = "zero"
    FSDP = "fsdp"
    UNKNOWN = "unknown"


class Schedule(StrEnum):
    ONE_F_ONE_B = "1f1b"
    GPIPE = "gpipe"
    INTERLEAVED = "interleaved"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Layout:
    """The degrees; None where the evidence does not decide."""

    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    cp: int | None = None
    sharding: Sharding = Sharding.UNKNOWN
    micro_batches: int | None = None
    schedule: Schedule = Schedule.UNKNOWN


@dataclass(frozen=True, slots=True)
class LayoutAlternative:
    """Another layout that the evidence leaves open: how likely it is, and `why` one would have it ("if ...")."""

    layout: Layout
    confidence: float
    why: str


@dataclass(frozen=True, slots=True)
class Group:
    """Members (address ids) that exchange collectives; in ring order when `ring` is true."""

    kind: PairKind
    members: tuple[int, ...]
    ring: bool = False


@dataclass(frozen=True, slots=True)
class PairRoles:
    """Directed pairs with real traffic; a pair that carries two kinds has two rows."""

    src: Int32
    dst: Int32
    kind: Int8
    confidence: Float64

    @classmethod
    def empty(cls) -> PairRoles:
        none = np.zeros(0, dtype=np.int32)
        return cls(none, none, np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class JobLayout:
    """Result of the parallelism stage. `pipelines` list address ids in stage order.

    `transfer_kind` has one PairKind per row of the job's transfers. `clock` ticks at the end of every step's gradient
    synchronisation (None: no steps are visible). `confidence` is in all that the layout says, `grouping` in
    who belongs to which group and pipeline (None: the same). `alternatives` are the next best layouts, the likeliest
    first; `evidence` holds what the confidence was made of, by name. `steps_confidence` is in the period of the clock
    and where its steps end. `step_bytes` are those of the job in a step as its records alone show it (0: no steps).
    """

    layout: Layout
    groups: tuple[Group, ...]
    pipelines: tuple[tuple[int, ...], ...]
    pairs: PairRoles
    transfer_kind: Int8
    confidence: float = 0.0
    notes: tuple[str, ...] = field(default=())
    clock: StepClock | None = None
    alternatives: tuple[LayoutAlternative, ...] = ()
    evidence: tuple[tuple[str, float], ...] = ()
    grouping: float | None = None
    steps_confidence: float = 0.0
    step_bytes: int = 0

    @property
    def peers_confidence(self) -> float:
        """How sure it is who does the same work as whom."""
        return self.confidence if self.grouping is None else self.grouping

    def stage_of(self) -> dict[int, int]:
        """Address id → pipeline stage, for members of pipelines."""
        return {address: stage for pipeline in self.pipelines for stage, address in enumerate(pipeline)}
