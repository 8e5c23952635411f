"""Gradient synchronisation over the replicas of each stage, what stages add up among themselves, and the optimizer."""

from __future__ import annotations

from llmprism.model import PairKind
from llmprism.sim.builder import MB, NS_PER_MS, Builder, ring_segments
from llmprism.sim.ops import Flag, OpType
from llmprism.sim.rings import Exchange
from llmprism.sim.scenario import JobSpec

__all__ = ["add_optimizer", "add_reduction", "bucket_sizes", "gradients"]

MOUSE_BYTES = 240.0
"""A gradient-norm all-reduce: a few numbers and the headers."""


def bucket_sizes(spec: JobSpec) -> list[float]:
    """Bytes of each gradient bucket; unequal ones follow a fixed uneven pattern with a small first bucket."""
    weights = [1.0] * spec.buckets
    if spec.unequal_buckets and spec.buckets > 1:
        weights = [0.35] + [0.8 + 0.37 * (i * 5 % 4) for i in range(spec.buckets - 1)]
    return [spec.gradient_mb * MB * weight / sum(weights) for weight in weights]


def gradients(b: Builder) -> None:
    """All-reduce, or reduce-scatter and all-gather around the optimizer (ZeRO), over the replicas of each stage."""
    spec = b.spec
    zero = spec.sharding.startswith("zero")
    stages = [[cell for row in stage for cell in row] for stage in b.program.cells]
    for members in stages:
        if len(members) > 1:
            _bucket_reductions(b, members, half=zero)
        else:
            b.chain(members[0], b.ops.add(OpType.PAUSE, cell=members[0], flags=Flag.SYNC))
    _across_stages(b)
    add_optimizer(b, b.program.all_cells)
    if zero:
        for members in stages:
            if len(members) > 1:
                _all_gather(b, members, b.wiring.reduction(members, spec.collective), spec.gradient_mb * MB)


def _bucket_reductions(b: Builder, members: list[int], half: bool) -> None:
    """Buckets go one after the other; with overlap each starts when its part of the backward pass is done."""
    exchange = b.wiring.reduction(members, b.spec.collective)
    group = b.register(members)
    sizes = bucket_sizes(b.spec)
    earlier: int | None = None
    for i, size in enumerate(sizes):
        op = add_reduction(b, members, exchange, size, group, half)
        for cell in members:
            whole = i == len(sizes) - 1 or len(b.pieces[cell]) == 1
            for before in b.tails[cell] if whole else [b.pieces[cell][i]]:
                b.ops.join(before, op, exchange.slot_of[cell])
        if earlier is not None:
            b.ops.join(earlier, op, 0)
        earlier = op
    if earlier is not None:
        for cell in members:
            b.tails[cell] = [earlier]


def add_reduction(b: Builder, members: list[int], exchange: Exchange, size: float, group: int, half: bool) -> int:
    n = len(members)
    volume = size * (n - 1) / n * (1 if half else 2)
    if exchange.type == OpType.TREE:
        volume = size
    op = b.ops.add(
        exchange.type,
        size=volume / exchange.split,
        kind=int(PairKind.DP),
        lanes=exchange.lanes,
        width=exchange.width,
        segments=ring_segments(exchange.width, half),
        flags=Flag.SYNC | Flag.CLOSE,
        group=group,
    )
    b.mark(exchange, PairKind.DP)
    return op


def _all_gather(b: Builder, members: list[int], exchange: Exchange, size: float) -> None:
    n = len(members)
    b.collective(
        members,
        exchange,
        size * (n - 1) / n / exchange.split,
        PairKind.DP,
        segments=ring_segments(exchange.width, half=True),
        flags=Flag.SYNC | Flag.CLOSE,
        group=b.register(members),
    )


def add_optimizer(b: Builder, cells: list[int]) -> None:
    for cell in cells:
        op = b.ops.add(OpType.PAUSE, cell=cell, duration_ns=b.spec.optimizer_ms * NS_PER_MS)
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
