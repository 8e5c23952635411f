"""The discrete-event engine: walks the operations of all jobs in time order and writes down the transfers.

A heap holds the operations whose predecessors are done, by the time at which they may start. The earliest is taken,
given its resources, and its end releases its successors. Nothing else decides when something happens: a late sender, a
slow transfer and a waiting peer follow.

An operation of step k + 1 may run while others still do step k; it is never two steps ahead (each cell's step ends in
one operation that waits for all of it), so every per-operation state is kept for two steps, by parity.

The engine stops when its output buffers are full and goes on where it stopped, so memory is bounded.
"""

from __future__ import annotations

import numpy as np

from llmprism.sim.compiled import inlined, kernel
from llmprism.sim.engine_tables import NEVER, SOME_TIME, STEP_FACTORS, Counter, State, World
from llmprism.sim.exchanges import all_to_all, arrivals, ring, send, storage, tree
from llmprism.sim.noise import bell, uniform
from llmprism.sim.ops import Flag, OpType
from llmprism.sim.transfer import slow_down

__all__ = ["DONE", "FULL", "advance", "seed_heap"]

DONE, FULL = 0, 1

JITTER_PROBABILITY = 0.15
"""Share of the steps in which the data loader is late."""

HEAP, TRANSFERS, LOGGED, NOW, TRACE = Counter.HEAP, Counter.TRANSFERS, Counter.DONE, Counter.NOW, Counter.TRACE
COMPUTE, PAUSE, SEND, RING = int(OpType.COMPUTE), int(OpType.PAUSE), int(OpType.SEND), int(OpType.RING)
TREE, STORAGE, BARRIER = int(OpType.TREE), int(OpType.STORAGE), int(OpType.BARRIER)
ALL_TO_ALL = int(OpType.ALL_TO_ALL)
SYNC, LENGTH, FIRST = int(Flag.SYNC), int(Flag.LENGTH), int(Flag.FIRST)
SETUP, JITTER = int(Flag.SETUP), int(Flag.JITTER)


@kernel
def _push(state: State, time: int, op: int, step: int) -> None:
    i = state.counters[HEAP]
    state.counters[HEAP] += 1
    times, ids, steps = state.heap_time, state.heap_op, state.heap_step
    while i > 0:
        parent = (i - 1) >> 1
        if times[parent] < time or (times[parent] == time and ids[parent] <= op):
            break
        times[i], ids[i], steps[i] = times[parent], ids[parent], steps[parent]
        i = parent
    times[i], ids[i], steps[i] = time, op, step


@kernel
def _drop_top(state: State) -> None:
    state.counters[HEAP] -= 1
    n = state.counters[HEAP]
    times, ids, steps = state.heap_time, state.heap_op, state.heap_step
    time, op, step = times[n], ids[n], steps[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        right = child + 1
        if right < n and (times[right] < times[child] or (times[right] == times[child] and ids[right] < ids[child])):
            child = right
        if time < times[child] or (time == times[child] and op <= ids[child]):
            break
        times[i], ids[i], steps[i] = times[child], ids[child], steps[child]
        i = child
    times[i], ids[i], steps[i] = time, op, step


@kernel
def seed_heap(world: World) -> None:
    """Puts the operations that wait for nothing in the first step at the start of their job."""
    ops = world.ops
    for op in range(ops.type.size):
        if ops.first_count[op] == 0:
            world.state.waiting[op, 0] = ops.steady_count[op]
            _push(world.state, world.jobs.start[ops.job[op]], op, 0)


@kernel
def _compute(world: World, op: int, step: int, start: int, scale: float) -> tuple[int, int]:
    """Start and end of a computation; the end is NEVER on a cell that hangs, or that is killed before."""
    ops, jobs, faults = world.ops, world.jobs, world.faults
    job, cell = ops.job[op], ops.cell[op]
    if jobs.stall_start[job] <= start < jobs.stall_end[job]:
        start = jobs.stall_end[job]
    if start >= jobs.hang[cell]:
        return start, NEVER
    duration = ops.duration_ns[op] * scale * jobs.step_factor[job, step % STEP_FACTORS]
    duration *= np.exp(jobs.compute_sigma[job] * bell(world.seed, op, step, 1))
    if (ops.flags[op] & SETUP) and step == 0:
        duration *= jobs.setup_factor[job]
    end = start + int(duration * slow_down(faults, faults.of_cell[cell], start))
    return start, NEVER if end > jobs.killed[cell] else end


@kernel
def _pause(world: World, op: int, step: int, start: int) -> int:
    duration = world.ops.duration_ns[op]
    if world.ops.flags[op] & JITTER:
        late = uniform(world.seed, op, step, 5) < JITTER_PROBABILITY
        duration *= -np.log(1.0 - uniform(world.seed, op, step, 6)) if late else 0.02
    return start + int(duration)


@kernel
def _length_scale(world: World, op: int, step: int) -> float:
    """How much longer than usual the sequences of an operation's micro-batch are."""
    ops = world.ops
    job = ops.job[op]
    if not (ops.flags[op] & LENGTH) or world.jobs.length_spread[job] == 0:
        return 1.0
    u = uniform(world.seed, ops.micro_batch[op] * 1009 + ops.replica[op], step, job + 17)
    return float(1.0 + world.jobs.length_spread[job] * (2.0 * u - 1.0))


@kernel
def _run(world: World, op: int, step: int, ready: int) -> tuple[int, int]:
    """Carries out one operation; returns its start and its end. An end of NEVER: it is never done."""
    kind, every, cell = world.ops.type[op], world.ops.every[op], world.ops.cell[op]
    if cell >= 0 and ready >= min(world.jobs.hang[cell], world.jobs.killed[cell]):
        return ready, NEVER
    if every > 0 and (step + 1) % every != 0:
        return ready, (-NEVER if kind == BARRIER else ready)
    scale = _length_scale(world, op, step)
    if kind == COMPUTE:
        return _compute(world, op, step, ready, scale)
    if kind == PAUSE:
        return ready, _pause(world, op, step, ready)
    if kind == BARRIER:
        return ready, ready
    if kind == STORAGE:
        return ready, storage(world, op, step, ready)
    if kind == SEND:
        return ready, send(world, op, step, ready, scale)
    start = arrivals(world, op, step, ready)
    if kind == RING:
        return start, ring(world, op, step, scale)
    if kind == TREE:
        return start, tree(world, op, step)
    return start, all_to_all(world, op, step)


@kernel
def _release(world: World, op: int, step: int, end: int) -> None:
    """Tells the successors; those that wait for nothing more go on the heap."""
    ops, jobs, state = world.ops, world.jobs, world.state
    job = ops.job[op]
    for e in range(ops.succ_offset[op], ops.succ_offset[op + 1]):
        lag = ops.succ_lag[e]
        if lag == -1 and step > 0:
            continue
        after, next_step = ops.succ[e], step + (1 if lag == 1 else 0)
        if next_step > state.last_step[job]:
            continue
        if lag == 1 and next_step > state.started[job]:
            if end >= jobs.stop[job] or next_step >= jobs.steps[job]:
                state.last_step[job] = step
                continue
            state.started[job] = next_step
        parity = next_step & 1
        state.ready[after, parity] = max(state.ready[after, parity], end)
        state.waiting[after, parity] -= 1
        if state.waiting[after, parity] == 0:
            ready = max(state.ready[after, parity], jobs.start[job])
            state.waiting[after, parity] = ops.steady_count[after]
            state.ready[after, parity] = -NEVER
            _push(state, ready, after, next_step)


@inlined
def _is_collective(kind: int) -> bool:
    return kind in (RING, TREE, ALL_TO_ALL)


@kernel
def _give_up(world: World, op: int, step: int) -> None:
    """Tells the successors of an operation that is never done, and theirs. A collective begins without the members that
    never come; everything else is never done either. Of the next step only the collectives of the cell that stopped are
    told: nobody else can be that far."""
    ops, state = world.ops, world.state
    given_up, count, stopped = state.given_up, 0, ops.cell[op]
    given_up[0, 0], given_up[1, 0], known = op, step, 1
    state.op_end[op, step & 1] = NEVER
    while count < known:
        never, now = given_up[0, count], given_up[1, count]
        count += 1
        for e in range(ops.succ_offset[never], ops.succ_offset[never + 1]):
            lag = ops.succ_lag[e]
            if (lag == -1 and now > 0) or (lag == 1 and (now > step or ops.cell[never] != stopped)):
                continue
            after, then = ops.succ[e], now + (1 if lag == 1 else 0)
            if then > step and not _is_collective(ops.type[after]) and ops.cell[after] != stopped:
                continue
            if _is_collective(ops.type[after]) and not _one_less(world, after, then):
                continue
            if state.op_end[after, then & 1] != NEVER and known < given_up.shape[1]:
                state.op_end[after, then & 1] = NEVER
                given_up[0, known], given_up[1, known] = after, then
                known += 1


@kernel
def _one_less(world: World, op: int, step: int) -> bool:
    """A member of a collective will never come: the others begin when all of them are there. Is there nobody else?"""
    ops, jobs, state = world.ops, world.jobs, world.state
    parity = step & 1
    state.waiting[op, parity] -= 1
    if state.waiting[op, parity] > 0:
        return False
    ready = max(state.ready[op, parity], jobs.start[ops.job[op]])
    nobody = state.ready[op, parity] == -NEVER
    state.waiting[op, parity] = ops.steady_count[op]
    state.ready[op, parity] = -NEVER
    if not nobody:
        _push(state, ready, op, step)
    return bool(nobody)


@kernel
def _note(world: World, op: int, step: int, start: int, end: int) -> None:
    """Keeps what later operations, the truth and the trace need to know of a finished operation."""
    ops, state, out = world.ops, world.state, world.out
    job = ops.job[op]
    state.op_end[op, step & 1] = end
    if ops.type[op] == COMPUTE or state.counters[TRACE]:
        row = state.counters[LOGGED]
        out.done_op[row], out.done_step[row], out.done_start[row], out.done_end[row] = op, step, start, end
        state.counters[LOGGED] += 1
    if step >= state.step_end.shape[1]:
        return
    if ops.flags[op] & FIRST:
        state.step_start[job, step] = min(state.step_start[job, step], start)
    if ops.flags[op] & SYNC:
        state.step_end[job, step] = max(state.step_end[job, step], end)
        state.step_syncs[job, step] += 1


@kernel
def advance(world: World, until: int, room: int) -> int:
    """Goes on until time `until` (DONE) or until fewer than `room` rows of the output are free (FULL)."""
    state, out = world.state, world.out
    state.counters[TRANSFERS] = 0
    state.counters[LOGGED] = 0
    transfers, logged = out.pair.size - room, out.done_op.size - 1
    while state.counters[HEAP] > 0:
        if state.counters[TRANSFERS] >= transfers or state.counters[LOGGED] >= logged:
            return FULL
        ready, op, step = state.heap_time[0], state.heap_op[0], state.heap_step[0]
        if ready > until:
            return DONE
        state.counters[NOW] = ready
        _drop_top(state)
        if ready >= world.jobs.crash[world.ops.job[op]]:
            continue
        start, end = _run(world, op, step, ready)
        if end >= SOME_TIME:
            _give_up(world, op, step)
            continue
        _note(world, op, step, start, end)
        _release(world, op, step, end)
    return DONE
