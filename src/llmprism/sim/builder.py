"""What the parts of a job's program are built with: the job's cells, and a builder that chains operations.

A *cell* is a tensor-parallel group at one (stage, replica, context rank): its GPUs move in lockstep and its exchanges
run once per GPU as parallel lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llmprism.model import PairKind
from llmprism.sim.ops import Flag, OpTable, OpType
from llmprism.sim.rings import Exchange, Wiring
from llmprism.sim.scenario import JobSpec
from llmprism.units import MILLISECOND

__all__ = ["BACKWARD_FACTOR", "MB", "Builder", "JobProgram", "ring_segments"]

MB = 1e6

BACKWARD_FACTOR = 2.0
"""Backward costs twice the forward: gradients of inputs and of weights."""

MAX_SEGMENTS = 8
"""Segments a ring pass is simulated in; rings of up to five members are exact (2(n - 1) chunks)."""


@dataclass(slots=True)
class JobProgram:
    """What the builder knows of a job when its operations are laid down.

    `cells[stage][replica][context]` is a cell id. `groups` numbers the communicators (kind, cells) across all jobs;
    `pair_kinds` holds (pair id, PairKind) of all traffic.
    """

    spec: JobSpec
    index: int
    cells: list[list[list[int]]]
    nics_of_cell: dict[int, list[int]]
    groups: dict[tuple[PairKind, tuple[int, ...]], int] = field(default_factory=dict)
    pair_kinds: set[tuple[int, int]] = field(default_factory=set)
    pipelines: list[list[int]] = field(default_factory=list)

    @property
    def all_cells(self) -> list[int]:
        return [cell for stage in self.cells for row in stage for cell in row]


@dataclass(slots=True)
class Builder:
    """Lays down operations cell by cell.

    `tails` are the operations after which a cell goes on, `firsts` the operation (and position in it) that opens a
    cell's step; `first_of` and `last_of` find the operations of (what, cell, micro-batch, chunk); `pieces` are the
    parts of a cell's last backward pass, or all its computations so far where layers are sharded; `gathers` are the
    gathers of parameters that must be done before a cell's first backward pass.
    """

    program: JobProgram
    ops: OpTable
    wiring: Wiring
    tails: dict[int, list[int]] = field(default_factory=dict)
    firsts: dict[int, tuple[int, int]] = field(default_factory=dict)
    first_of: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    last_of: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    pieces: dict[int, list[int]] = field(default_factory=dict)
    gathers: dict[int, list[int]] = field(default_factory=dict)

    @property
    def spec(self) -> JobSpec:
        return self.program.spec

    def chain(self, cell: int, op: int, slot: int = 0) -> None:
        """`op` comes after what the cell did last, and the cell goes on after `op`."""
        for tail in self.tails.get(cell, []):
            self.ops.join(tail, op, slot)
        self.tails[cell] = [op]
        if cell not in self.firsts:
            self.firsts[cell] = (op, slot)

    def compute(self, cell: int, ms: float, micro_batch: int, replica: int, flags: int = 0) -> int:
        op = self.ops.add(
            OpType.COMPUTE,
            cell=cell,
            duration_ns=ms * MILLISECOND,
            micro_batch=micro_batch,
            replica=replica,
            flags=flags | Flag.LENGTH | Flag.SETUP | Flag.FIRST,
        )
        self.chain(cell, op)
        return op

    def collective(self, cells: list[int], exchange: Exchange, size: float, kind: PairKind, **options: int) -> int:
        """A collective of these cells; each goes on when it is done. `size` is what each lane's hop carries."""
        op = self.ops.add(
            exchange.type,
            size=size,
            kind=int(kind),
            lanes=exchange.lanes,
            width=exchange.width,
            segments=options.get("segments", 1),
            flags=options.get("flags", 0) | exchange.flags,
            group=options.get("group", -1),
            micro_batch=options.get("micro_batch", -1),
            replica=options.get("replica", 0),
        )
        for cell in cells:
            self.chain(cell, op, exchange.slot_of[cell])
        self.mark(exchange, kind)
        return op

    def segments(self, positions: int, half: bool) -> int:
        """Pieces of a pass round a ring of this job."""
        if self.spec.ring_pieces:
            return max(1, self.spec.ring_pieces // 2 if half else self.spec.ring_pieces)
        return ring_segments(positions, half)

    def mark(self, exchange: Exchange, kind: PairKind) -> None:
        self.program.pair_kinds.update((pair, int(kind)) for lane in exchange.lanes for pair in lane if pair >= 0)

    def register(self, members: list[int], kind: PairKind = PairKind.DP) -> int:
        """Notes the group for the truth; returns its number, which faults on the group refer to."""
        key = (kind, tuple(members))
        if key not in self.program.groups:
            self.program.groups[key] = self.ops.groups
            self.ops.groups += 1
        return self.program.groups[key]


def ring_segments(positions: int, half: bool) -> int:
    """Segments of a pass round a ring (`half`: reduce-scatter or all-gather only)."""
    exact = (positions - 1) * (1 if half else 2)
    return max(1, min(exact, MAX_SEGMENTS))
