"""A step of a pipeline (of one stage too): the stages' instructions, joined by sends; experts, contexts, data."""

from __future__ import annotations

from llmprism.model import PairKind
from llmprism.sim.builder import BACKWARD_FACTOR, MB, Builder
from llmprism.sim.gradients import gather_ahead
from llmprism.sim.ops import Flag, OpType
from llmprism.sim.schedule import Instruction, instructions
from llmprism.units import MILLISECOND

__all__ = ["load_data", "pipeline_step"]


def pipeline_step(b: Builder) -> None:
    spec = b.spec
    chunks = spec.virtual_stages if spec.schedule == "interleaved" and spec.pp > 1 else 1
    if spec.overlap_gather and spec.sharding.startswith("zero"):
        gather_ahead(b)
    if spec.data_mb or spec.data_jitter_ms:
        load_data(b, b.program.cells[0])
    for stage, rows in enumerate(b.program.cells):
        order = instructions(spec.schedule, stage, spec.pp, spec.micro_batches, chunks)
        for position, instruction in enumerate(order):
            _instruction(b, rows, instruction, chunks, last=position == len(order) - 1)
    _sends(b, chunks)


def _instruction(b: Builder, rows: list[list[int]], work: Instruction, chunks: int, last: bool) -> None:
    spec = b.spec
    split = spec.schedule == "zero_bubble"
    factor = 1.0 if work.what == "F" or split else BACKWARD_FACTOR
    ms = spec.compute_ms * factor / chunks
    pieces = spec.buckets if last and spec.overlap else 1
    experts = spec.ep > 1 and work.what != "W"
    sharded = spec.sharding == "fsdp"
    if sharded and work.what != "W" and (spec.regather or work.micro_batch == 0):
        _sharded_pass(b, rows, chunks, gather=True)
    for replica, row in enumerate(rows):
        for cell in row:
            parts = [b.compute(cell, ms / pieces / (1 + experts), work.micro_batch, replica) for _ in range(pieces)]
            b.first_of[work.what, cell, work.micro_batch, work.chunk] = parts[0]
            b.pieces[cell] = parts
            for gather in b.gathers.pop(cell, []) if work.what == "B" else []:
                b.ops.join(gather, parts[0])
    _inside_stage(b, rows, work, chunks)
    if experts:
        _experts(b, rows, work, ms / 2)
    for row in rows:
        for cell in row:
            b.last_of[work.what, cell, work.micro_batch, work.chunk] = b.tails[cell][0]
    if sharded and (last or (spec.regather and work.what == "B")):
        _sharded_pass(b, rows, chunks, gather=False)


def _inside_stage(b: Builder, rows: list[list[int]], work: Instruction, chunks: int) -> None:
    """What a pass exchanges inside its stage: tensor-parallel sums across servers, rings of keys and values."""
    spec = b.spec
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
                group=b.register(row, PairKind.CP),
            )


def _sharded_pass(b: Builder, rows: list[list[int]], chunks: int, gather: bool) -> None:
    """FSDP inside a pipeline: the stage's parameters are gathered before a pass, its gradients scattered after one."""
    members = [cell for row in rows for cell in row]
    if len(members) < 2:
        if not gather:
            b.chain(members[0], b.ops.add(OpType.PAUSE, cell=members[0], flags=Flag.SYNC))
        return
    n, spec = len(members), b.spec
    exchange = b.wiring.reduction(members, "ring", int(spec.two_way_rings and gather))
    size = spec.gradient_mb * MB / chunks * (spec.gather_share if gather else 1.0) * (n - 1) / n / exchange.split
    flags = Flag.CLOSE | (Flag.FIRST if gather else Flag.SYNC)
    segments = b.segments(exchange.width, half=True)
    b.collective(members, exchange, size, PairKind.DP, segments=segments, flags=flags, group=b.register(members))


def _experts(b: Builder, rows: list[list[int]], work: Instruction, ms: float) -> None:
    """Dispatch to the experts, their work, and the way back."""
    spec = b.spec
    members = [cell for row in rows for cell in row]
    for start in range(0, len(members), spec.ep):
        group = members[start : start + spec.ep]
        exchange = b.wiring.all_to_all(group)
        b.register(group, PairKind.EP)
        b.collective(group, exchange, spec.expert_mb * MB, PairKind.EP, micro_batch=work.micro_batch)
        for cell in group:
            b.compute(cell, ms, work.micro_batch, 0)
        b.collective(group, exchange, spec.expert_mb * MB, PairKind.EP, micro_batch=work.micro_batch)


def _sends(b: Builder, chunks: int) -> None:
    """Activations to the next stage (from the last to the first for the next chunk), gradients the other way."""
    spec = b.spec
    if spec.pp == 1:
        return
    virtual = spec.pp * chunks
    for replica in range(spec.dp):
        for context in range(spec.cp):
            cells = [b.program.cells[s][replica][context] for s in range(spec.pp)]
            sent: dict[tuple[str, int, int], int] = {}
            for v in range(virtual - 1):
                here, there = (cells[v % spec.pp], v // spec.pp), (cells[(v + 1) % spec.pp], (v + 1) // spec.pp)
                for m in range(spec.micro_batches):
                    sent["F", v, m] = _send(b, "F", here, there, m, replica)
                    sent["B", v, m] = _send(b, "B", there, here, m, replica)
            if spec.batched_sends and spec.schedule == "1f1b":
                _batch_sends(b, cells, sent)


def _batch_sends(b: Builder, cells: list[int], sent: dict[tuple[str, int, int], int]) -> None:
    """In the steady state a stage's next activation and its successor's next gradient go at the same time.

    Stage s has sent `lead` activations before it waits for a gradient; from then on activation lead + k and gradient k
    are one exchange of both stages, which begins when both are ready.
    """
    count = b.spec.micro_batches
    for stage in range(len(cells) - 1):
        lead = len(cells) - stage - 1
        for k in range(count - lead):
            activation, gradient = sent["F", stage, lead + k], sent["B", stage, k]
            b.ops.join(b.last_of["B", cells[stage + 1], k, 0], activation)
            b.ops.join(b.last_of["F", cells[stage], lead + k, 0], gradient)


def _send(b: Builder, what: str, src: tuple[int, int], dst: tuple[int, int], micro_batch: int, replica: int) -> int:
    exchange = b.wiring.send(src[0], dst[0])
    op = b.ops.add(
        OpType.SEND,
        cell=src[0],
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
    return op


def load_data(b: Builder, rows: list[list[int]]) -> None:
    spec = b.spec
    for cell in (cell for row in rows for cell in row):
        if spec.data_jitter_ms:
            duration = spec.data_jitter_ms * MILLISECOND
            b.chain(cell, b.ops.add(OpType.PAUSE, cell=cell, duration_ns=duration, flags=Flag.JITTER | Flag.FIRST))
        for turn in range(spec.storage_fanout if spec.data_mb else 0):
            exchange = b.wiring.storage(cell, read=True, turn=turn)
            op = b.ops.add(
                OpType.STORAGE,
                cell=cell,
                size=spec.data_mb * MB / spec.storage_fanout,
                kind=int(PairKind.OTHER),
                lanes=exchange.lanes,
                width=1,
                flags=Flag.FIRST,
            )
            b.chain(cell, op)
