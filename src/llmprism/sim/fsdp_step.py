"""A step with sharded parameters (FSDP, hybrid sharding): gathers run ahead of the layers, scatters behind them."""

from __future__ import annotations

from llmprism.model import PairKind
from llmprism.sim.builder import BACKWARD_FACTOR, MB, Builder
from llmprism.sim.gradients import add_optimizer, add_reduction
from llmprism.sim.ops import Flag, OpType
from llmprism.sim.pipeline_step import load_data

__all__ = ["fsdp_step"]


def fsdp_step(b: Builder) -> None:
    """Per layer: all-gather before forward and before backward, reduce-scatter after; the gathers run ahead."""
    spec = b.spec
    members = [cell for row in b.program.cells[0] for cell in row]
    if spec.data_mb or spec.data_jitter_ms:
        load_data(b, b.program.cells[0])
    size_of_group = spec.shard_group if spec.sharding == "hsdp" and spec.shard_group else len(members)
    shards = [members[i : i + size_of_group] for i in range(0, len(members), size_of_group)]
    layer_mb = spec.gradient_mb / spec.layers
    comm: dict[int, int] = {}
    for m in range(spec.micro_batches):
        for _ in range(spec.layers):
            gathers = _gather_ops(b, shards, layer_mb, comm)
            _layer(b, members, gathers, spec.compute_ms / spec.layers, m)
        scatters: dict[int, int] = {}
        for layer in range(spec.layers):
            gathers = _gather_ops(b, shards, layer_mb, comm) if layer else {}
            _layer(b, members, gathers, spec.compute_ms * BACKWARD_FACTOR / spec.layers, m)
            scatters = _scatter_ops(b, shards, layer_mb, comm)
            if spec.sharding == "hsdp" and len(shards) > 1:
                scatters = _replica_ops(b, shards, layer_mb, scatters)
                comm.update(scatters)
        for cell in members:
            b.tails[cell].append(scatters[cell])
    add_optimizer(b, members)


def _layer(b: Builder, members: list[int], gathers: dict[int, int], ms: float, micro_batch: int) -> None:
    for replica, cell in enumerate(members):
        op = b.compute(cell, ms, micro_batch, replica)
        b.pieces.setdefault(cell, []).append(op)
        if gathers:
            b.ops.join(gathers[cell], op)


def _comm_op(b: Builder, group: list[int], size_mb: float, comm: dict[int, int], sync: bool) -> int:
    """A half-ring on the communication stream: after the stream's last operation, not after the compute."""
    exchange = b.wiring.reduction(group, "ring", int(b.spec.two_way_rings and not sync))
    n = len(group)
    op = b.ops.add(
        OpType.RING,
        size=size_mb * MB * (n - 1) / max(n, 1) / exchange.split,
        kind=int(PairKind.DP),
        lanes=exchange.lanes,
        width=exchange.width,
        segments=b.segments(exchange.width, half=True),
        flags=Flag.CLOSE | (Flag.SYNC if sync else Flag.FIRST),
        group=b.register(group),
    )
    b.mark(exchange, PairKind.DP)
    for cell in group:
        if cell in comm:
            b.ops.join(comm[cell], op, exchange.slot_of[cell])
        comm[cell] = op
    return op


def _gather_ops(b: Builder, shards: list[list[int]], size_mb: float, comm: dict[int, int]) -> dict[int, int]:
    """All-gathers of one layer. They run one layer ahead: after the last but one compute, during the last."""
    result: dict[int, int] = {}
    for group in shards:
        op = _comm_op(b, group, size_mb, comm, sync=False)
        slots = b.wiring.reduction(group, "ring", int(b.spec.two_way_rings)).slot_of
        for cell in group:
            computed = b.pieces.get(cell, [])
            if len(computed) > 1:
                b.ops.join(computed[-2], op, slots[cell])
            elif not computed and b.tails.get(cell):
                b.ops.join(b.tails[cell][0], op, slots[cell])
            elif not computed and cell not in b.firsts:
                b.firsts[cell] = (op, slots[cell])
            result[cell] = op
    return result


def _scatter_ops(b: Builder, shards: list[list[int]], size_mb: float, comm: dict[int, int]) -> dict[int, int]:
    result: dict[int, int] = {}
    for group in shards:
        op = _comm_op(b, group, size_mb, comm, sync=True)
        slots = b.wiring.reduction(group, "ring").slot_of
        for cell in group:
            b.ops.join(b.tails[cell][0], op, slots[cell])
            result[cell] = op
    return result


def _replica_ops(b: Builder, shards: list[list[int]], size_mb: float, after: dict[int, int]) -> dict[int, int]:
    """Hybrid sharding: the shards' gradients are all-reduced over the replicas."""
    result: dict[int, int] = {}
    for position in range(len(shards[0])):
        group = [shard[position] for shard in shards]
        reduction = add_reduction(b, group, size_mb * MB / len(shards[0]), b.register(group), half=False)
        for op, exchange in reduction.firsts:
            for cell in group:
                b.ops.join(after[cell], op, exchange.slot_of[cell])
        for cell in group:
            result[cell] = reduction.lasts[-1]
    return result
