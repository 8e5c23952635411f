"""Gradient synchronisation over the replicas of each stage, what stages add up among themselves, and the optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from llmprism.model import PairKind
from llmprism.sim.builder import MB, Builder
from llmprism.sim.collectives import COLLECTIVES
from llmprism.sim.ops import Flag, OpType
from llmprism.sim.rings import Exchange
from llmprism.sim.scenario import JobSpec
from llmprism.units import MILLISECOND

__all__ = ["Reduction", "add_optimizer", "add_reduction", "bucket_sizes", "gather_ahead", "gradients"]

MOUSE_BYTES = 240.0
"""A gradient-norm all-reduce: a few numbers and the headers."""


def bucket_sizes(spec: JobSpec) -> list[float]:
    """Bytes of each gradient bucket; unequal ones follow a fixed uneven pattern with a small first bucket."""
    weights = [1.0] * spec.buckets
    if spec.unequal_buckets and spec.buckets > 1:
        weights = [0.35] + [0.8 + 0.37 * (i * 5 % 4) for i in range(spec.buckets - 1)]
    return [spec.gradient_mb * MB * weight / sum(weights) for weight in weights]


@dataclass(frozen=True, slots=True)
class Reduction:
    """One bucket on its way: the operations that begin it, with who is where in them, and those that end it."""

    firsts: list[tuple[int, Exchange]]
    lasts: list[int]


def gradients(b: Builder) -> None:
    """All-reduce, or reduce-scatter and all-gather around the optimizer (ZeRO), over the replicas of each stage."""
    spec = b.spec
    zero = spec.sharding.startswith("zero")
    stages = [[cell for row in stage for cell in row] for stage in b.program.cells]
    for members in stages:
        if spec.sharding == "fsdp":
            continue  # scattered with the backward passes
        if len(members) > 1:
            _bucket_reductions(b, members, half=zero)
        else:
            b.chain(members[0], b.ops.add(OpType.PAUSE, cell=members[0], flags=Flag.SYNC))
    _across_stages(b)
    add_optimizer(b, b.program.all_cells)
    if zero and not spec.overlap_gather:
        for members in stages:
            if len(members) > 1:
                _gather_at_the_end(b, members)


def _bucket_reductions(b: Builder, members: list[int], half: bool) -> None:
    """Buckets go one after the other; with overlap each starts when its part of the backward pass is done."""
    group = b.register(members)
    sizes = bucket_sizes(b.spec)
    earlier: Reduction | None = None
    for i, size in enumerate(sizes):
        reduction = add_reduction(b, members, size, group, half)
        for channel, (op, exchange) in enumerate(reduction.firsts):
            for cell in members:
                whole = i == len(sizes) - 1 or len(b.pieces[cell]) == 1
                for before in b.tails[cell] if whole else [b.pieces[cell][i]]:
                    b.ops.join(before, op, exchange.slot_of[cell])
            if earlier is not None:
                b.ops.join(earlier.lasts[channel], op, 0)
        earlier = reduction
    if earlier is not None:
        for cell in members:
            b.tails[cell] = list(earlier.lasts)


def add_reduction(
    b: Builder, members: list[int], size: float, group: int, half: bool, gather: bool = False, flags: int = Flag.SYNC
) -> Reduction:
    """An all-reduce, or half of one (`half`: reduce-scatter, with `gather` all-gather), on all channels.

    Trees are for all-reduces only, as in NCCL.
    """
    spec = b.spec
    reduction = Reduction([], [])
    algorithm = "ring" if half and not COLLECTIVES[spec.collective].halves else spec.collective
    volume = COLLECTIVES[algorithm].volume
    two_way = spec.two_way_rings and algorithm == "ring"
    for channel in range(spec.channels):
        order = channel * (2 if two_way else 1) + int(two_way and gather)
        exchange = b.wiring.reduction(members, algorithm, order)
        part = size / spec.channels
        if half or not two_way:
            op = _reduce(b, exchange, volume(part, len(members), half), group, half, flags)
            reduction.firsts.append((op, exchange))
            reduction.lasts.append(op)
            continue
        back = b.wiring.reduction(members, algorithm, order + 1)
        once = volume(part, len(members), True)
        there, again = (_reduce(b, e, once, group, True, flags) for e in (exchange, back))
        for cell in members:
            b.ops.join(there, again, back.slot_of[cell])
        reduction.firsts.append((there, exchange))
        reduction.lasts.append(again)
    return reduction


def _reduce(b: Builder, exchange: Exchange, volume: float, group: int, half: bool, flags: int) -> int:
    """One operation in which each member sends `volume` bytes."""
    op = b.ops.add(
        exchange.type,
        size=volume / exchange.split,
        kind=int(PairKind.DP),
        lanes=exchange.lanes,
        width=exchange.width,
        segments=b.segments(exchange.width, half),
        flags=flags | Flag.CLOSE,
        group=group,
    )
    b.mark(exchange, PairKind.DP)
    return op


def _gather_at_the_end(b: Builder, members: list[int]) -> None:
    """The updated parameters go round after the optimizer."""
    size = b.spec.gradient_mb * MB * b.spec.gather_share
    reduction = add_reduction(b, members, size, b.register(members), half=True, gather=True)
    for cell in members:
        for op, exchange in reduction.firsts:
            for tail in b.tails.get(cell, []):
                b.ops.join(tail, op, exchange.slot_of[cell])
        b.tails[cell] = list(reduction.lasts)


def gather_ahead(b: Builder) -> None:
    """Optimizer sharding that hides its gathers: bucket by bucket under the step's first forward pass."""
    for stage in b.program.cells:
        members = [cell for row in stage for cell in row]
        if len(members) < 2:
            continue
        group = b.register(members)
        begin = {cell: b.ops.add(OpType.PAUSE, cell=cell) for cell in members}
        for cell, op in begin.items():
            b.chain(cell, op)
        buckets = [
            add_reduction(b, members, size * b.spec.gather_share, group, half=True, gather=True, flags=Flag.FIRST)
            for size in bucket_sizes(b.spec)
        ]
        for op, exchange in buckets[0].firsts:
            for cell in members:
                b.ops.join(begin[cell], op, exchange.slot_of[cell])
        for earlier, later in pairwise(buckets):
            for before, (op, _) in zip(earlier.lasts, later.firsts, strict=True):
                b.ops.join(before, op, 0)
        for cell in members:
            b.tails[cell] = list(buckets[0].lasts)
            b.gathers[cell] = list(buckets[-1].lasts)


def add_optimizer(b: Builder, cells: list[int]) -> None:
    for cell in cells:
        longer = 1.0 + b.spec.optimizer_spread * (cell * 7 % 11 / 10)
        op = b.ops.add(OpType.PAUSE, cell=cell, duration_ns=b.spec.optimizer_ms * MILLISECOND * longer)
        b.chain(cell, op)


def _across_stages(b: Builder) -> None:
    """First and last stage add up the gradients of the embedding that they share; the norm goes round the pipeline."""
    spec = b.spec
    if spec.pp < 2:
        return
    for replica in range(spec.dp):
        for context in range(spec.cp):
            cells = [stage[replica][context] for stage in b.program.cells]
            if spec.tied_embeddings_mb:
                ends = [cells[0], cells[-1]]
                exchange = b.wiring.snake(ends)
                size = spec.tied_embeddings_mb * MB
                b.collective(ends, exchange, size, PairKind.OTHER, segments=2, flags=Flag.SYNC | Flag.CLOSE)
            if spec.gradient_norm:
                b.collective(cells, b.wiring.snake(cells), MOUSE_BYTES, PairKind.OTHER, flags=Flag.CLOSE)
