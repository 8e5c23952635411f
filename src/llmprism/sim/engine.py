"""The discrete-event engine: walks the operations of all jobs in time order and writes down the transfers.

A heap holds the operations whose predecessors are done, by the time at which they may start. The earliest is taken,
given its resources (NICs are served first come, first served, one transfer at a time and direction, so no NIC exceeds
its line rate; links and storage likewise where they are contended) and its end releases its successors. Nothing else
decides when something happens: a late sender, a slow transfer and a waiting peer follow.

An operation of step k + 1 may run while others still do step k; it is never two steps ahead (each cell's step ends in
one operation that waits for all of it), so every per-operation state is kept for two steps, by parity.

The engine stops when its output buffers are full and goes on where it stopped, so memory is bounded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llmprism.sim.compiled import inlined, kernel
from llmprism.sim.noise import bell, uniform
from llmprism.sim.ops import Flag, Ops, OpType

__all__ = ["DONE", "FULL", "Faults", "Jobs", "Network", "State", "Transfers", "advance", "new_state", "seed_heap"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

DONE, FULL = 0, 1

COMPUTE, PAUSE, SEND, RING = int(OpType.COMPUTE), int(OpType.PAUSE), int(OpType.SEND), int(OpType.RING)
TREE, ALL_TO_ALL, STORAGE, BARRIER = int(OpType.TREE), int(OpType.ALL_TO_ALL), int(OpType.STORAGE), int(OpType.BARRIER)
SYNC, LENGTH, FIRST, CLOSE = int(Flag.SYNC), int(Flag.LENGTH), int(Flag.FIRST), int(Flag.CLOSE)
OPEN, SETUP, JITTER = int(Flag.OPEN), int(Flag.SETUP), int(Flag.JITTER)

LATENCY_NS = 8_000
"""From the last byte sent to the receiver going on."""

NVLINK_NS_PER_BYTE = 1.0 / 300.0
"""300 GB/s inside a server."""

EAGER_BYTES = 4e6
"""What a connection takes before the receiver is there (NCCL: buffers of 4 MiB per channel)."""

BIN_NS = 200_000
"""A shared link gives out its bytes in bins of 0.2 ms, to whoever asks for a bin that is not full."""

LINK_BINS = 4096
"""Bins kept per link: 0.8 s, longer than operations are met out of order."""

STEP_FACTORS = 4096
"""Step factors are drawn for this many steps and then repeat."""

JITTER_PROBABILITY = 0.15
"""Share of the steps in which the data loader is late."""


class Network(NamedTuple):
    """Per pair: NIC ids, the leaves at both ends and the spine of its two ECMP choices."""

    pair_src: Int32
    pair_dst: Int32
    leaf_src: Int32
    leaf_dst: Int32
    spine: Int32  # [pair, 2]; -1 inside one leaf
    shared: Int32  # [pair]: contended link or -1
    spines: int
    leaves: int
    first_storage: int
    ns_per_byte: float
    storage_ns_per_byte: float


class Faults(NamedTuple):
    """Slow-downs as linked lists per target: `next` chains the faults of one target, -1 ends."""

    start: Int64
    end: Int64
    factor: Float64
    next: Int32
    of_cell: Int32
    of_nic: Int32
    of_switch: Int32
    of_link: Int32
    of_group: Int32
    shared_start: Int64
    shared_end: Int64
    shared_ns_per_byte: Float64


class Jobs(NamedTuple):
    start: Int64
    stop: Int64
    crash: Int64
    stall_start: Int64
    stall_end: Int64
    steps: Int32
    setup_factor: Float64
    compute_sigma: Float64
    length_spread: Float64
    routing_skew: Float64
    stall_probability: Float64
    step_factor: Float64  # [job, STEP_FACTORS]
    hang: Int64  # [cell]
    dead: Int64  # [nic]: from then on it neither sends nor receives


class State(NamedTuple):
    op_end: Int64  # [op, 2]
    waiting: Int32  # [op, 2]
    ready: Int64  # [op, 2]
    tx_free: Int64
    rx_free: Int64
    link_bin: Int64  # [shared link, LINK_BINS]: which bin of time the slot holds
    link_used: Float64  # [shared link, LINK_BINS]: bytes of that bin that are taken
    heap_time: Int64
    heap_op: Int32
    heap_step: Int32
    counters: Int64  # heap size, transfers, operations written, now, operations done, whether to write all
    step_start: Int64  # [job, steps]
    step_end: Int64
    step_syncs: Int32  # [job, steps] operations with Flag.SYNC that are done
    started: Int32  # [job] latest step that any cell began
    scratch: Int64  # [6, widest]


class Transfers(NamedTuple):
    """What the engine writes: transfers, and the operations done (computations only, unless all are wanted).

    `active_ns` is the sending time without stalls.
    """

    pair: Int32
    start: Int64
    end: Int64
    bytes: Int64
    active_ns: Int64
    kind: NDArray[np.int8]
    step: Int32
    done_op: Int32
    done_step: Int32
    done_start: Int64
    done_end: Int64


NEVER = np.iinfo(np.int64).max // 4


def new_state(ops: Ops, nics: int, shared: int, jobs: int, max_steps: int) -> State:
    count = ops.type.size
    widest = int(ops.width.max()) if count else 1
    waiting = np.empty((count, 2), dtype=np.int32)
    waiting[:, 0] = ops.first_count
    waiting[:, 1] = ops.steady_count
    return State(
        op_end=np.zeros((count, 2), dtype=np.int64),
        waiting=waiting,
        ready=np.full((count, 2), -NEVER, dtype=np.int64),
        tx_free=np.full(nics, -NEVER, dtype=np.int64),
        rx_free=np.full(nics, -NEVER, dtype=np.int64),
        link_bin=np.full((max(shared, 1), LINK_BINS), -1, dtype=np.int64),
        link_used=np.zeros((max(shared, 1), LINK_BINS), dtype=np.float64),
        heap_time=np.empty(count * 2 + 16, dtype=np.int64),
        heap_op=np.empty(count * 2 + 16, dtype=np.int32),
        heap_step=np.empty(count * 2 + 16, dtype=np.int32),
        counters=np.zeros(6, dtype=np.int64),
        step_start=np.full((jobs, max_steps), NEVER, dtype=np.int64),
        step_end=np.full((jobs, max_steps), -NEVER, dtype=np.int64),
        step_syncs=np.zeros((jobs, max_steps), dtype=np.int32),
        started=np.zeros(jobs, dtype=np.int32),
        scratch=np.zeros((6, widest + 1), dtype=np.int64),
    )


@kernel
def _push(state: State, time: int, op: int, step: int) -> None:
    i = state.counters[0]
    state.counters[0] += 1
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
    state.counters[0] -= 1
    n = state.counters[0]
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
def seed_heap(ops: Ops, jobs: Jobs, state: State) -> None:
    """Puts the operations that wait for nothing in the first step at the start of their job."""
    for op in range(ops.type.size):
        if ops.first_count[op] == 0:
            state.waiting[op, 0] = ops.steady_count[op]
            _push(state, jobs.start[ops.job[op]], op, 0)


@inlined
def _slow(faults: Faults, head: int, time: int) -> float:
    factor = 1.0
    while head >= 0:
        if faults.start[head] <= time < faults.end[head]:
            factor *= faults.factor[head]
        head = faults.next[head]
    return factor


@kernel
def _pair_slow(net: Network, faults: Faults, pair: int, group: int, time: int) -> float:
    """The worst slow-down on the way of a pair: NICs, leaves, spines, links, and the group that uses it."""
    worst = max(
        _slow(faults, faults.of_nic[net.pair_src[pair]], time), _slow(faults, faults.of_nic[net.pair_dst[pair]], time)
    )
    a, b = net.leaf_src[pair], net.leaf_dst[pair]
    worst = max(worst, max(_slow(faults, faults.of_switch[a], time), _slow(faults, faults.of_switch[b], time)))
    if group >= 0:
        worst = max(worst, _slow(faults, faults.of_group[group], time))
    for choice in range(2):
        spine = net.spine[pair, choice]
        if spine >= 0:
            worst = max(worst, _slow(faults, faults.of_switch[net.leaves + spine], time))
            worst = max(worst, _slow(faults, faults.of_link[a * net.spines + spine], time))
            worst = max(worst, _slow(faults, faults.of_link[b * net.spines + spine], time))
    return worst


@kernel
def _through_link(faults: Faults, state: State, link: int, start: int, size: float, ns_per_byte: float) -> int:
    """When the last of `size` bytes is through a shared link: at most the sender's rate, and what others left of it."""
    time, left = start, size
    whole = BIN_NS / faults.shared_ns_per_byte[link]
    while True:
        number = time // BIN_NS
        slot = number % LINK_BINS
        if state.link_bin[link, slot] != number:
            state.link_bin[link, slot] = number
            state.link_used[link, slot] = 0.0
        span = (number + 1) * BIN_NS - time
        amount = min(left, min(span / ns_per_byte, whole - state.link_used[link, slot]))
        state.link_used[link, slot] += amount
        left -= amount
        if left < 1.0:
            return int(time + min(span, amount * max(ns_per_byte, faults.shared_ns_per_byte[link])))
        time = (number + 1) * BIN_NS


@kernel
def _transfer(
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    job: int,
    pair: int,
    group: int,
    ready: int,
    size: float,
    kind: int,
    step: int,
    salt: int,
    joinable: int,
) -> int:
    """Sends `size` bytes over a pair as soon as it may; returns when the receiver has them.

    `joinable` is the output row of the piece before on the same pair (or -1): a piece that follows without a pause
    is added to it.
    """
    if pair < 0:
        return ready + int(size * NVLINK_NS_PER_BYTE) + LATENCY_NS
    src, dst = net.pair_src[pair], net.pair_dst[pair]
    start = max(ready, max(state.tx_free[src], state.rx_free[dst]))
    slow = _pair_slow(net, faults, pair, group, start)
    ns_per_byte = net.ns_per_byte * slow * (1.03 + 0.12 * uniform(seed, pair, step, salt))
    active = int(size * ns_per_byte) + 1
    link = net.shared[pair]
    if link >= 0 and faults.shared_start[link] <= start < faults.shared_end[link]:
        active = _through_link(faults, state, link, start, size, ns_per_byte) - start + 1
    pause = 0
    if size > 20_000 and uniform(seed, pair, step, salt + 7919) < jobs.stall_probability[job]:
        pause = int(6e5 + 4e6 * uniform(seed, pair, step, salt + 104729))
    end = start + active + pause
    state.tx_free[src] = end
    state.rx_free[dst] = end
    cut = min(jobs.crash[job], min(jobs.dead[src], jobs.dead[dst]))
    _write(state, out, pair, start, end, size, active, kind, step, joinable, cut)
    return int(end + LATENCY_NS)


@kernel
def _write(
    state: State,
    out: Transfers,
    pair: int,
    start: int,
    end: int,
    size: float,
    active: int,
    kind: int,
    step: int,
    joinable: int,
    cut: int,
) -> None:
    """One row of output, cut short where the job or one of its ends dies."""
    if start >= cut:
        return
    if end > cut:
        size *= (cut - start) / (end - start)
        end = cut
        active = min(active, end - start)
    row = state.counters[1]
    if 0 <= joinable < row and out.pair[joinable] == pair and start - out.end[joinable] <= LATENCY_NS + 1:
        out.end[joinable] = end
        out.bytes[joinable] += int(size)
        out.active_ns[joinable] += active
        return
    out.pair[row], out.start[row], out.end[row] = pair, start, end
    out.bytes[row], out.active_ns[row] = max(int(size), 1), active
    out.kind[row], out.step[row] = kind, step
    state.counters[1] += 1


@kernel
def _arrivals(ops: Ops, state: State, op: int, step: int, ready: int) -> None:
    """When each position of a collective is there, in scratch row 0."""
    arrival = state.scratch[0]
    for i in range(ops.width[op]):
        arrival[i] = -NEVER
    for e in range(ops.pred_offset[op], ops.pred_offset[op + 1]):
        lag = ops.pred_lag[e]
        if (lag == 1 and step == 0) or (lag == -1 and step > 0):
            continue
        parity = (step - (1 if lag == 1 else 0)) & 1
        slot = ops.pred_slot[e]
        arrival[slot] = max(arrival[slot], state.op_end[ops.pred[e], parity])
    for i in range(ops.width[op]):
        if arrival[i] == -NEVER:
            arrival[i] = ready


@kernel
def _segment(
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    job: int,
    pair: int,
    group: int,
    ready: int,
    wait: int,
    size: float,
    kind: int,
    step: int,
    salt: int,
    joinable: int,
) -> int:
    """A segment to a follower that is there from `wait` on: what fits into buffers goes before, the rest then."""
    if size > EAGER_BYTES and wait > ready:
        end = _transfer(
            net,
            faults,
            jobs,
            state,
            out,
            seed,
            job,
            pair,
            group,
            ready,
            EAGER_BYTES,
            kind,
            step,
            salt + 8,
            joinable,
        )
        ready = max(end - LATENCY_NS, wait)
        size -= EAGER_BYTES
        joinable = state.counters[1] - 1
    return _transfer(net, faults, jobs, state, out, seed, job, pair, group, ready, size, kind, step, salt, joinable)


@kernel
def _ring(
    ops: Ops,
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    op: int,
    step: int,
    scale: float,
) -> int:
    """Each position sends a segment when it has sent the one before and received the one that it forwards.

    In the second half of a closed ring every position depends on all (the reduced parts are complete only then).
    """
    n, segments = ops.width[op], ops.segments[op]
    job, group, kind, flags = ops.job[op], ops.group[op], ops.kind[op], ops.flags[op]
    arrival, own, got, coming, rows = (
        state.scratch[0],
        state.scratch[1],
        state.scratch[2],
        state.scratch[3],
        state.scratch[4],
    )
    size = ops.bytes[op] * scale / segments
    chain = (flags & OPEN) != 0
    finish = -NEVER
    for lane in range(ops.lanes[op]):
        for i in range(n):
            own[i] = got[i] = coming[i] = arrival[i]
            rows[i] = -1
        for s in range(segments):
            if (flags & CLOSE) and segments > 1 and s == segments // 2:
                latest = own[0]
                for i in range(1, n):
                    latest = max(latest, own[i])
                for i in range(n):
                    own[i] = max(own[i], latest)
            for i in range(n - 1 if chain else n):
                follower = (i + 1) % n
                pair = ops.flow_pair[ops.flow_offset[op] + lane * n + i]
                ready = max(own[i], coming[i] if chain else got[i])
                salt = (op * 64 + s) * 16 + lane
                row = state.counters[1]
                wait = arrival[follower] if s == 0 else ready
                end = _segment(
                    net,
                    faults,
                    jobs,
                    state,
                    out,
                    seed,
                    job,
                    pair,
                    group,
                    ready,
                    wait,
                    size,
                    kind,
                    step,
                    salt,
                    rows[i],
                )
                if state.counters[1] > row:
                    rows[i] = state.counters[1] - 1
                own[i] = end - LATENCY_NS
                coming[follower] = end
            for i in range(n):
                got[i] = coming[i]
        for i in range(n):
            finish = max(finish, max(own[i], got[i]))
    return finish


@kernel
def _tree(
    ops: Ops,
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    op: int,
    step: int,
) -> int:
    """Up a binary tree to the root, then down again, in four segments."""
    n, job, group, kind = ops.width[op], ops.job[op], ops.group[op], ops.kind[op]
    arrival, up, down = state.scratch[0], state.scratch[1], state.scratch[2]
    segments = 4
    size = ops.bytes[op] / segments
    finish = -NEVER
    for lane in range(ops.lanes[op]):
        offset = ops.flow_offset[op] + lane * 2 * n
        for s in range(segments):
            for i in range(n):
                up[i] = arrival[i]
            for i in range(n - 1, 0, -1):
                parent = (i - 1) >> 1
                salt = (op * 64 + s) * 16 + lane
                end = _transfer(
                    net,
                    faults,
                    jobs,
                    state,
                    out,
                    seed,
                    job,
                    ops.flow_pair[offset + i],
                    group,
                    up[i],
                    size,
                    kind,
                    step,
                    salt,
                    -1,
                )
                up[parent] = max(up[parent], end)
            down[0] = up[0]
            for i in range(1, n):
                parent = (i - 1) >> 1
                salt = (op * 64 + 32 + s) * 16 + lane
                down[i] = _transfer(
                    net,
                    faults,
                    jobs,
                    state,
                    out,
                    seed,
                    job,
                    ops.flow_pair[offset + n + i],
                    group,
                    down[parent],
                    size,
                    kind,
                    step,
                    salt,
                    -1,
                )
                finish = max(finish, down[i])
    return finish


@kernel
def _all_to_all(
    ops: Ops,
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    op: int,
    step: int,
) -> int:
    """Everybody sends to everybody, in rotation; a popular expert's rank receives more."""
    n, job, kind = ops.width[op], ops.job[op], ops.kind[op]
    arrival = state.scratch[0]
    finish = -NEVER
    for i in range(n):
        finish = max(finish, arrival[i])
    skew = jobs.routing_skew[job]
    for lane in range(ops.lanes[op]):
        for shift in range(1, n):
            for i in range(n):
                j = (i + shift) % n
                pair = ops.flow_pair[ops.flow_offset[op] + (lane * n + i) * n + j]
                popular = 1.0 + skew * (2.0 * uniform(seed, j, step, ops.micro_batch[op] * 31 + job) - 1.0)
                size = ops.bytes[op] / n * popular * (1.0 + 0.3 * skew * (uniform(seed, op, step, i * n + j) - 0.5))
                salt = (op * 64 + shift) * 16 + lane
                end = _transfer(
                    net, faults, jobs, state, out, seed, job, pair, -1, arrival[i], size, kind, step, salt, -1
                )
                finish = max(finish, end)
    return finish


@kernel
def _compute(
    ops: Ops,
    faults: Faults,
    jobs: Jobs,
    seed: np.uint64,
    op: int,
    step: int,
    start: int,
    scale: float,
) -> tuple[int, int]:
    """Start and end of a computation; the end is NEVER on a cell that hangs."""
    job = ops.job[op]
    if jobs.stall_start[job] <= start < jobs.stall_end[job]:
        start = jobs.stall_end[job]
    if start >= jobs.hang[ops.cell[op]]:
        return start, NEVER
    duration = ops.duration_ns[op] * scale * jobs.step_factor[job, step % STEP_FACTORS]
    duration *= np.exp(jobs.compute_sigma[job] * bell(seed, op, step, 1))
    if (ops.flags[op] & SETUP) and step == 0:
        duration *= jobs.setup_factor[job]
    end = start + int(duration * _slow(faults, faults.of_cell[ops.cell[op]], start))
    return start, end


@kernel
def _pause(ops: Ops, seed: np.uint64, op: int, step: int, start: int) -> int:
    duration = ops.duration_ns[op]
    if ops.flags[op] & JITTER:
        late = uniform(seed, op, step, 5)
        duration *= -np.log(1.0 - uniform(seed, op, step, 6)) if late < JITTER_PROBABILITY else 0.02
    return start + int(duration)


@kernel
def _storage(
    ops: Ops,
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    op: int,
    step: int,
    start: int,
) -> int:
    """One transfer to or from a storage node, which serves one at a time."""
    pair = ops.flow_pair[ops.flow_offset[op]]
    src, dst = net.pair_src[pair], net.pair_dst[pair]
    if src >= net.first_storage:
        begin = max(start, state.tx_free[src])
        slow = _slow(faults, faults.of_nic[src], begin)
    else:
        begin = max(start, state.rx_free[dst])
        slow = _slow(faults, faults.of_nic[dst], begin)
    active = int(ops.bytes[op] * net.storage_ns_per_byte * slow * (1.0 + 0.1 * uniform(seed, op, step, 3))) + 1
    end = begin + active
    if src >= net.first_storage:
        state.tx_free[src] = end
    else:
        state.rx_free[dst] = end
    cut = jobs.crash[ops.job[op]]
    _write(state, out, pair, begin, end, ops.bytes[op], active, ops.kind[op], step, -1, cut)
    return int(end)


@kernel
def _send(
    ops: Ops,
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    op: int,
    step: int,
    start: int,
    scale: float,
) -> int:
    """The same message on every lane; the receiver goes on when it has them all."""
    end = start
    size = ops.bytes[op] * scale
    for lane in range(ops.lanes[op]):
        pair = ops.flow_pair[ops.flow_offset[op] + lane]
        salt = op * 16 + lane
        done = _transfer(
            net, faults, jobs, state, out, seed, ops.job[op], pair, -1, start, size, ops.kind[op], step, salt, -1
        )
        end = max(end, done)
    return end


@kernel
def _run(
    ops: Ops,
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    op: int,
    step: int,
    ready: int,
) -> tuple[int, int]:
    """Carries out one operation; returns its start and its end. An end of NEVER: it never ends (hang)."""
    kind, job, flags = ops.type[op], ops.job[op], ops.flags[op]
    every = ops.every[op]
    if every > 0 and (step + 1) % every != 0:
        return ready, (-NEVER if kind == BARRIER else ready)
    start = ready
    scale = 1.0
    if (flags & LENGTH) and jobs.length_spread[job] > 0:
        u = uniform(seed, ops.micro_batch[op] * 1009 + ops.replica[op], step, job + 17)
        scale = 1.0 + jobs.length_spread[job] * (2.0 * u - 1.0)
    if kind == COMPUTE:
        return _compute(ops, faults, jobs, seed, op, step, start, scale)
    if kind == PAUSE:
        return start, _pause(ops, seed, op, step, start)
    if kind == BARRIER:
        return start, start
    if kind == STORAGE:
        return start, _storage(ops, net, faults, jobs, state, out, seed, op, step, start)
    if kind == SEND:
        return start, _send(ops, net, faults, jobs, state, out, seed, op, step, start, scale)
    _arrivals(ops, state, op, step, ready)
    start = state.scratch[0, 0]
    for i in range(1, ops.width[op]):
        start = min(start, state.scratch[0, i])
    if kind == RING:
        return start, _ring(ops, net, faults, jobs, state, out, seed, op, step, scale)
    if kind == TREE:
        return start, _tree(ops, net, faults, jobs, state, out, seed, op, step)
    return start, _all_to_all(ops, net, faults, jobs, state, out, seed, op, step)


@kernel
def _release(ops: Ops, jobs: Jobs, state: State, op: int, step: int, end: int) -> None:
    """Tells the successors; those that wait for nothing more go on the heap."""
    job = ops.job[op]
    for e in range(ops.succ_offset[op], ops.succ_offset[op + 1]):
        lag = ops.succ_lag[e]
        if lag == -1 and step > 0:
            continue
        after, next_step = ops.succ[e], step + (1 if lag == 1 else 0)
        if lag == 1 and next_step > state.started[job]:
            if end >= jobs.stop[job] or next_step >= jobs.steps[job]:
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


@kernel
def advance(
    ops: Ops,
    net: Network,
    faults: Faults,
    jobs: Jobs,
    state: State,
    out: Transfers,
    seed: np.uint64,
    until: int,
    room: int,
) -> int:
    """Goes on until time `until` (DONE) or until fewer than `room` rows of the output are free (FULL)."""
    state.counters[1] = 0
    state.counters[2] = 0
    capacity = out.pair.size - room
    log_size = out.done_op.size - 1
    while state.counters[0] > 0:
        if state.counters[1] >= capacity or state.counters[2] >= log_size:
            return FULL
        ready, op, step = state.heap_time[0], state.heap_op[0], state.heap_step[0]
        if ready > until:
            return DONE
        state.counters[3] = ready
        _drop_top(state)
        job = ops.job[op]
        if ready >= jobs.crash[job]:
            continue
        start, end = _run(ops, net, faults, jobs, state, out, seed, op, step, ready)
        state.counters[4] += 1
        if end == NEVER:
            continue
        state.op_end[op, step & 1] = end
        if ops.type[op] == COMPUTE or state.counters[5]:
            row = state.counters[2]
            out.done_op[row], out.done_step[row], out.done_start[row], out.done_end[row] = op, step, start, end
            state.counters[2] += 1
        if step < state.step_end.shape[1]:
            if (ops.flags[op] & FIRST) and start < state.step_start[job, step]:
                state.step_start[job, step] = start
            if ops.flags[op] & SYNC:
                state.step_end[job, step] = max(state.step_end[job, step], end)
                state.step_syncs[job, step] += 1
        _release(ops, jobs, state, op, step, end)
    return DONE
