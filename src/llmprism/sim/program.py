"""A job as operations: its cells, its step by the kind of job, and the way from one step into the next."""

from __future__ import annotations

import numpy as np

from llmprism.model import PairKind
from llmprism.sim.builder import MB, Builder, JobProgram
from llmprism.sim.fsdp_step import fsdp_step
from llmprism.sim.gradients import gradients
from llmprism.sim.ops import ONCE, Flag, OpTable, OpType, PairTable
from llmprism.sim.pipeline_step import pipeline_step
from llmprism.sim.rings import Wiring
from llmprism.sim.scenario import JobSpec
from llmprism.sim.simulated_cluster import SimulatedCluster
from llmprism.units import MILLISECOND

__all__ = ["JobProgram", "build_program"]


def build_program(
    spec: JobSpec,
    index: int,
    nics: list[int],
    first_cell: int,
    cluster: SimulatedCluster,
    ops: OpTable,
    pairs: PairTable,
) -> JobProgram:
    """Lays down one job. Cells are numbered from `first_cell`; ranks are tp fastest, then cp, dp, pp."""
    program = _layout_cells(spec, index, nics, first_cell)
    ops.job = index
    wiring = Wiring(cluster, pairs, program.nics_of_cell, index, spec.connections, round(spec.chunk_mb * 2**20))
    builder = Builder(program, ops, wiring)
    if spec.sharding in ("fsdp", "hsdp") and spec.pp == 1:
        fsdp_step(builder)
    else:
        pipeline_step(builder)
        gradients(builder)
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


def _after_step(b: Builder, cluster: SimulatedCluster) -> None:
    """End of the step, evaluation and checkpoint, and the way into the next step; the broadcast before the first."""
    spec = b.spec
    cells = b.program.all_cells
    starts = dict(b.firsts)
    barrier: int | None = None
    if spec.checkpoint_every and cluster.spec.storage_nodes:
        barrier = b.ops.add(OpType.BARRIER, every=spec.checkpoint_every)
    for cell in cells:
        if spec.evaluate_every:
            duration = spec.evaluate_ms * MILLISECOND
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


def _broadcast(b: Builder, starts: dict[int, tuple[int, int]]) -> None:
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
