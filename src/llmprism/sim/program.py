"""A job's step as operations: who computes, who sends what to whom, and what waits for what.

A *cell* is a tensor-parallel group at one (stage, replica, context rank): its GPUs move in lockstep and its exchanges
run once per GPU as parallel lanes. The builder lays down the stages' instruction lists, joins neighbouring stages by
sends, then adds the gradient synchronisation of the job's sharding and the work around a step (data, norm, optimizer,
pauses).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from llmprism.model import PairKind
from llmprism.sim.cluster import Cluster
from llmprism.sim.ops import ONCE, Flag, OpTable, OpType, PairTable
from llmprism.sim.rings import Exchange, Wiring
from llmprism.sim.scenario import JobSpec
from llmprism.sim.schedule import Instruction, instructions

__all__ = ["JobProgram", "build_program"]

MB = 1e6
NS_PER_MS = 1e6
BACKWARD_FACTOR = 2.0
"""Backward costs twice the forward: gradients of inputs and of weights."""

MOUSE_BYTES = 240.0
"""A gradient-norm all-reduce: a few numbers and the headers."""

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
class _Builder:
    program: JobProgram
    ops: OpTable
    wiring: Wiring
    tails: dict[int, list[int]] = field(default_factory=dict)
    firsts: dict[int, tuple[int, int]] = field(default_factory=dict)
    first_of: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    last_of: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    pieces: dict[int, list[int]] = field(default_factory=dict)

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
            duration_ns=ms * NS_PER_MS,
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

    def mark(self, exchange: Exchange, kind: PairKind) -> None:
        self.program.pair_kinds.update((pair, int(kind)) for lane in exchange.lanes for pair in lane if pair >= 0)


def build_program(
    spec: JobSpec, index: int, nics: list[int], first_cell: int, cluster: Cluster, ops: OpTable, pairs: PairTable
) -> JobProgram:
    """Lays down one job. Cells are numbered from `first_cell`; ranks are tp fastest, then cp, dp, pp."""
    program = _layout_cells(spec, index, nics, first_cell)
    ops.job = index
    wiring = Wiring(cluster, pairs, program.nics_of_cell, index, spec.connections, round(spec.chunk_mb * 2**20))
    builder = _Builder(program, ops, wiring)
    if spec.sharding in ("fsdp", "hsdp"):
        _fsdp_step(builder)
    else:
        _pipeline_step(builder)
        _gradients(builder)
    _after_step(builder, cluster)
    return program


def _layout_cells(spec: JobSpec, index: int, nics: list[int], first_cell: int) -> JobProgram:
    grid = np.array(nics).reshape(spec.pp, spec.dp, spec.cp, spec.tp)
    ids = first_cell + np.arange(spec.pp * spec.dp * spec.cp).reshape(spec.pp, spec.dp, spec.cp)
    cells = [[[int(cell) for cell in row] for row in stage] for stage in ids]
    nics_of = {int(ids[s, d, c]): [int(nic) for nic in grid[s, d, c]] for s, d, c in np.ndindex(*ids.shape)}
    program = JobProgram(spec, index, cells, nics_of)
    if spec.pp > 1:
        program.pipelines = [
            [int(grid[s, d, c, t]) for s in range(spec.pp)] for d, c, t in np.ndindex(spec.dp, spec.cp, spec.tp)
        ]
    return program


def _pipeline_step(b: _Builder) -> None:
    spec = b.spec
    chunks = spec.virtual_stages if spec.schedule == "interleaved" and spec.pp > 1 else 1
    if spec.data_mb or spec.data_jitter_ms:
        _load_data(b, b.program.cells[0])
    for stage, rows in enumerate(b.program.cells):
        order = instructions(spec.schedule, stage, spec.pp, spec.micro_batches, chunks)
        for position, instruction in enumerate(order):
            _instruction(b, rows, instruction, chunks, last=position == len(order) - 1)
    _sends(b, chunks)


def _instruction(b: _Builder, rows: list[list[int]], work: Instruction, chunks: int, last: bool) -> None:
    spec = b.spec
    split = spec.schedule == "zero_bubble"
    factor = 1.0 if work.what == "F" or split else BACKWARD_FACTOR
    ms = spec.compute_ms * factor / chunks
    pieces = spec.buckets if last and spec.overlap else 1
    experts = spec.ep > 1 and work.what != "W"
    for replica, row in enumerate(rows):
        for cell in row:
            parts = [b.compute(cell, ms / pieces / (1 + experts), work.micro_batch, replica) for _ in range(pieces)]
            b.first_of[work.what, cell, work.micro_batch, work.chunk] = parts[0]
            b.pieces[cell] = parts
    across = len({b.wiring.cluster.server_of(n) for n in b.program.nics_of_cell[rows[0][0]]}) > 1
    if across and b.wiring.cluster.spec.nvlink:
        for cell in (cell for row in rows for cell in row):
            b.collective([cell], b.wiring.inside_cell(cell), spec.tp_mb * MB, PairKind.TP, segments=2)
    if spec.cp > 1 and work.what != "W":
        for replica, row in enumerate(rows):
            b.collective(
                row,
                b.wiring.snake(row),
                spec.context_mb * MB * (spec.cp - 1) / chunks,
                PairKind.CP,
                segments=spec.cp - 1,
                micro_batch=work.micro_batch,
                replica=replica,
                group=_register(b, row, PairKind.CP),
            )
    if experts:
        _experts(b, rows, work, ms / 2)
    for row in rows:
        for cell in row:
            b.last_of[work.what, cell, work.micro_batch, work.chunk] = b.tails[cell][0]


def _experts(b: _Builder, rows: list[list[int]], work: Instruction, ms: float) -> None:
    """Dispatch to the experts, their work, and the way back."""
    spec = b.spec
    members = [cell for row in rows for cell in row]
    for start in range(0, len(members), spec.ep):
        group = members[start : start + spec.ep]
        exchange = b.wiring.all_to_all(group)
        _register(b, group, PairKind.EP)
        b.collective(group, exchange, spec.expert_mb * MB, PairKind.EP, micro_batch=work.micro_batch)
        for cell in group:
            b.compute(cell, ms, work.micro_batch, 0)
        b.collective(group, exchange, spec.expert_mb * MB, PairKind.EP, micro_batch=work.micro_batch)


def _sends(b: _Builder, chunks: int) -> None:
    """Activations to the next stage (from the last to the first for the next chunk), gradients the other way."""
    spec = b.spec
    if spec.pp == 1:
        return
    virtual = spec.pp * chunks
    for replica in range(spec.dp):
        for context in range(spec.cp):
            cells = [b.program.cells[s][replica][context] for s in range(spec.pp)]
            for v in range(virtual - 1):
                here, there = (cells[v % spec.pp], v // spec.pp), (cells[(v + 1) % spec.pp], (v + 1) // spec.pp)
                for m in range(spec.micro_batches):
                    _send(b, "F", here, there, m, replica)
                    _send(b, "B", there, here, m, replica)


def _send(b: _Builder, what: str, src: tuple[int, int], dst: tuple[int, int], micro_batch: int, replica: int) -> None:
    exchange = b.wiring.send(src[0], dst[0])
    op = b.ops.add(
        OpType.SEND,
        size=b.spec.activation_mb * MB,
        kind=int(PairKind.PP),
        micro_batch=micro_batch,
        replica=replica,
        lanes=exchange.lanes,
        width=1,
        flags=Flag.LENGTH,
    )
    b.mark(exchange, PairKind.PP)
    b.ops.join(b.last_of[what, src[0], micro_batch, src[1]], op)
    b.ops.join(op, b.first_of[what, dst[0], micro_batch, dst[1]])


def bucket_sizes(spec: JobSpec) -> list[float]:
    """Bytes of each gradient bucket; unequal ones follow a fixed uneven pattern with a small first bucket."""
    weights = [1.0] * spec.buckets
    if spec.unequal_buckets and spec.buckets > 1:
        weights = [0.35] + [0.8 + 0.37 * (i * 5 % 4) for i in range(spec.buckets - 1)]
    return [spec.gradient_mb * MB * weight / sum(weights) for weight in weights]


def _gradients(b: _Builder) -> None:
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
    _optimizer(b, b.program.all_cells)
    if zero:
        for members in stages:
            if len(members) > 1:
                _all_gather(b, members, b.wiring.reduction(members, spec.collective), spec.gradient_mb * MB)


def _bucket_reductions(b: _Builder, members: list[int], half: bool) -> None:
    """Buckets go one after the other; with overlap each starts when its part of the backward pass is done."""
    exchange = b.wiring.reduction(members, b.spec.collective)
    group = _register(b, members)
    sizes = bucket_sizes(b.spec)
    earlier: int | None = None
    for i, size in enumerate(sizes):
        op = _reduction(b, members, exchange, size, group, half)
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


def _register(b: _Builder, members: list[int], kind: PairKind = PairKind.DP) -> int:
    """Notes the group for the truth; returns its number, which faults on the group refer to."""
    key = (kind, tuple(members))
    if key not in b.program.groups:
        b.program.groups[key] = b.ops.groups
        b.ops.groups += 1
    return b.program.groups[key]


def ring_segments(positions: int, half: bool) -> int:
    exact = (positions - 1) * (1 if half else 2)
    return max(1, min(exact, MAX_SEGMENTS))


def _reduction(b: _Builder, members: list[int], exchange: Exchange, size: float, group: int, half: bool) -> int:
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


def _all_gather(b: _Builder, members: list[int], exchange: Exchange, size: float) -> None:
    n = len(members)
    b.collective(
        members,
        exchange,
        size * (n - 1) / n / exchange.split,
        PairKind.DP,
        segments=ring_segments(exchange.width, half=True),
        flags=Flag.SYNC | Flag.CLOSE,
        group=_register(b, members),
    )


def _optimizer(b: _Builder, cells: list[int]) -> None:
    for cell in cells:
        op = b.ops.add(OpType.PAUSE, cell=cell, duration_ns=b.spec.optimizer_ms * NS_PER_MS)
        b.chain(cell, op)


def _across_stages(b: _Builder) -> None:
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


def _fsdp_step(b: _Builder) -> None:
    """Per layer: all-gather before forward and before backward, reduce-scatter after; the gathers run ahead."""
    spec = b.spec
    members = [cell for row in b.program.cells[0] for cell in row]
    if spec.data_mb or spec.data_jitter_ms:
        _load_data(b, b.program.cells[0])
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
    _optimizer(b, members)


def _layer(b: _Builder, members: list[int], gathers: dict[int, int], ms: float, micro_batch: int) -> None:
    for replica, cell in enumerate(members):
        op = b.compute(cell, ms, micro_batch, replica)
        b.pieces.setdefault(cell, []).append(op)
        if gathers:
            b.ops.join(gathers[cell], op)


def _comm_op(b: _Builder, group: list[int], size_mb: float, comm: dict[int, int], sync: bool) -> int:
    """A half-ring on the communication stream: after the stream's last operation, not after the compute."""
    exchange = b.wiring.reduction(group, "ring")
    n = len(group)
    op = b.ops.add(
        OpType.RING,
        size=size_mb * MB * (n - 1) / max(n, 1) / exchange.split,
        kind=int(PairKind.DP),
        lanes=exchange.lanes,
        width=exchange.width,
        segments=ring_segments(exchange.width, half=True),
        flags=Flag.CLOSE | (Flag.SYNC if sync else Flag.FIRST),
        group=_register(b, group),
    )
    b.mark(exchange, PairKind.DP)
    for cell in group:
        if cell in comm:
            b.ops.join(comm[cell], op, exchange.slot_of[cell])
        comm[cell] = op
    return op


def _gather_ops(b: _Builder, shards: list[list[int]], size_mb: float, comm: dict[int, int]) -> dict[int, int]:
    """All-gathers of one layer. They run one layer ahead: after the last but one compute, beside the last."""
    result: dict[int, int] = {}
    for group in shards:
        op = _comm_op(b, group, size_mb, comm, sync=False)
        slots = b.wiring.reduction(group, "ring").slot_of
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


def _scatter_ops(b: _Builder, shards: list[list[int]], size_mb: float, comm: dict[int, int]) -> dict[int, int]:
    result: dict[int, int] = {}
    for group in shards:
        op = _comm_op(b, group, size_mb, comm, sync=True)
        slots = b.wiring.reduction(group, "ring").slot_of
        for cell in group:
            b.ops.join(b.tails[cell][0], op, slots[cell])
            result[cell] = op
    return result


def _replica_ops(b: _Builder, shards: list[list[int]], size_mb: float, after: dict[int, int]) -> dict[int, int]:
    """Hybrid sharding: the shards' gradients are all-reduced over the replicas."""
    result: dict[int, int] = {}
    for position in range(len(shards[0])):
        group = [shard[position] for shard in shards]
        exchange = b.wiring.reduction(group, "ring")
        op = _reduction(b, group, exchange, size_mb * MB / len(shards[0]), _register(b, group), half=False)
        for cell in group:
            b.ops.join(after[cell], op, exchange.slot_of[cell])
            result[cell] = op
    return result


def _load_data(b: _Builder, rows: list[list[int]]) -> None:
    spec = b.spec
    for cell in (cell for row in rows for cell in row):
        if spec.data_jitter_ms:
            duration = spec.data_jitter_ms * NS_PER_MS
            b.chain(cell, b.ops.add(OpType.PAUSE, cell=cell, duration_ns=duration, flags=Flag.JITTER | Flag.FIRST))
        if spec.data_mb:
            exchange = b.wiring.storage(cell, read=True)
            op = b.ops.add(
                OpType.STORAGE,
                cell=cell,
                size=spec.data_mb * MB,
                kind=int(PairKind.OTHER),
                lanes=exchange.lanes,
                width=1,
                flags=Flag.FIRST,
            )
            b.chain(cell, op)


def _after_step(b: _Builder, cluster: Cluster) -> None:
    """End of the step, evaluation and checkpoint, and the way into the next step; the broadcast before the first."""
    spec = b.spec
    cells = b.program.all_cells
    starts = dict(b.firsts)
    barrier: int | None = None
    if spec.checkpoint_every and cluster.spec.storage_nodes:
        barrier = b.ops.add(OpType.BARRIER, every=spec.checkpoint_every)
    for cell in cells:
        if spec.evaluate_every:
            duration = spec.evaluate_ms * NS_PER_MS
            b.chain(cell, b.ops.add(OpType.PAUSE, cell=cell, duration_ns=duration, every=spec.evaluate_every))
        if barrier is not None:
            exchange = b.wiring.storage(cell, read=False)
            op = b.ops.add(
                OpType.STORAGE,
                cell=cell,
                size=spec.checkpoint_mb * MB,
                kind=int(PairKind.OTHER),
                lanes=exchange.lanes,
                width=1,
                every=spec.checkpoint_every,
            )
            b.chain(cell, op)
            b.ops.join(op, barrier)
        end = b.ops.add(OpType.PAUSE, cell=cell)
        b.chain(cell, end)
        first, slot = starts[cell]
        b.ops.join(end, first, slot, lag=1)
        if barrier is not None:
            b.ops.join(barrier, first, slot, lag=1)
    if spec.start_s >= 0 and spec.collective == "ring" and spec.sharding != "hsdp":
        _broadcast(b, starts)


def _broadcast(b: _Builder, starts: dict[int, tuple[int, int]]) -> None:
    """Replica 0 sends the parameters to the others before the first step."""
    for stage in b.program.cells:
        members = [cell for row in stage for cell in row]
        exchange = b.wiring.reduction(members, "ring")
        op = b.ops.add(
            OpType.RING,
            size=b.spec.gradient_mb * MB / exchange.split,
            kind=int(PairKind.DP),
            lanes=exchange.lanes,
            width=exchange.width,
            segments=4,
            flags=Flag.OPEN,
        )
        for cell in members:
            first, slot = starts[cell]
            b.ops.join(op, first, slot, lag=ONCE)
