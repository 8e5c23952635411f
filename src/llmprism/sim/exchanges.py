"""The exchanges between cells: sends, rings, trees, all-to-all, storage. Each returns when everybody has everything.

Positions of a collective arrive when their own predecessors are done; scratch row 0 holds the arrivals. Who is late
makes the others wait through the segments that they forward, not through a common start. So does one that never comes:
the others begin, fill the buffers of the connections to it, and wait for what it does not pass on.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int64
from llmprism.sim.compiled import kernel
from llmprism.sim.engine_tables import NEVER, SOME_TIME, Counter, World
from llmprism.sim.noise import uniform
from llmprism.sim.ops import Flag
from llmprism.sim.transfer import LATENCY_NS, slow_down, transfer, write_row

__all__ = ["all_to_all", "arrivals", "ring", "send", "storage", "tree"]

EAGER_BYTES = 4e6
"""What a connection takes before the receiver is there (NCCL: buffers of 4 MiB per channel)."""

TREE_SEGMENTS = 4
"""Parts in which a tree passes its data on."""

TRANSFERS = Counter.TRANSFERS
CLOSE, OPEN = int(Flag.CLOSE), int(Flag.OPEN)


@kernel
def arrivals(world: World, op: int, step: int, ready: int) -> int:
    """Puts the arrival of each position into scratch row 0; returns the first."""
    ops, state = world.ops, world.state
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
    first = NEVER
    for i in range(ops.width[op]):
        if arrival[i] == -NEVER:
            arrival[i] = ready
        first = min(first, arrival[i])
    return int(first)


@kernel
def _late(world: World, op: int, step: int, lane: int, position: int) -> int:
    """How late the process of one lane is: processes of a tensor-parallel group have host work of their own."""
    mean = world.jobs.lane_jitter_ns[world.ops.job[op]]
    if mean == 0.0:
        return 0
    return int(-np.log(1.0 - uniform(world.seed, op * 16 + lane, step, 7001 + position)) * mean)


@kernel
def send(world: World, op: int, step: int, start: int, scale: float) -> int:
    """The same message on every lane; the receiver goes on when it has them all."""
    ops = world.ops
    end = start
    for lane in range(ops.lanes[op]):
        pair = ops.flow_pair[ops.flow_offset[op] + lane]
        begin = start + _late(world, op, step, lane, 0)
        end = max(end, transfer(world, op, pair, begin, ops.bytes[op] * scale, step, op * 16 + lane, -1))
    return end


@kernel
def _segment(
    world: World, op: int, pair: int, ready: int, wait: int, size: float, step: int, salt: int, joinable: int
) -> int:
    """A segment to a follower that is there from `wait` on: what fits into buffers goes before, the rest then."""
    if ready >= SOME_TIME:
        return NEVER
    if size > EAGER_BYTES and wait > ready:
        early = transfer(world, op, pair, ready, EAGER_BYTES, step, salt + 8, joinable)
        ready = max(early - LATENCY_NS, wait)
        size -= EAGER_BYTES
        joinable = world.state.counters[TRANSFERS] - 1
    return transfer(world, op, pair, ready, size, step, salt, joinable)


@kernel
def _to(world: World, op: int, pair: int, ready: int, arrival: int, size: float, step: int, salt: int) -> int:
    """A transfer to one that may never come: what fits into buffers leaves all the same, and nobody ever has it."""
    if arrival < SOME_TIME:
        return transfer(world, op, pair, ready, size, step, salt, -1)
    transfer(world, op, pair, ready, min(size, EAGER_BYTES), step, salt, -1)
    return NEVER


@kernel
def _level(times: Int64, n: int) -> None:
    """Raises the first `n` times to the latest of them."""
    latest = times[0]
    for i in range(1, n):
        latest = max(latest, times[i])
    for i in range(n):
        times[i] = latest


@kernel
def ring(world: World, op: int, step: int, scale: float) -> int:
    """Each position sends a segment when it has sent the one before and received the one that it forwards.

    In the second half of a closed ring every position depends on all (the reduced parts are complete only then).
    An open ring is a chain: a position passes on what it has just received.
    """
    ops, scratch, counters = world.ops, world.state.scratch, world.state.counters
    arrival, own, got, coming, rows = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    n, segments, flags = ops.width[op], ops.segments[op], ops.flags[op]
    size = ops.bytes[op] * scale / segments
    chain = (flags & OPEN) != 0
    gap = world.jobs.hop_gap_ns[ops.job[op]]
    finish = -NEVER
    for lane in range(ops.lanes[op]):
        for i in range(n):
            own[i] = got[i] = coming[i] = arrival[i] + _late(world, op, step, lane, i)
            rows[i] = -1
        for s in range(segments):
            if (flags & CLOSE) and segments > 1 and s == segments // 2:
                _level(own, n)
            for i in range(n - 1 if chain else n):
                follower = (i + 1) % n
                pair = ops.flow_pair[ops.flow_offset[op] + lane * n + i]
                ready = max(own[i], coming[i] if chain else got[i])
                wait = arrival[follower] if s == 0 else ready
                if arrival[follower] >= SOME_TIME and (s + 1) * size > EAGER_BYTES and s > 0:
                    ready = NEVER  # the buffers are full
                salt = (op * 64 + s) * 16 + lane
                written = counters[TRANSFERS]
                end = _segment(world, op, pair, ready, wait, size, step, salt, rows[i])
                if counters[TRANSFERS] > written:
                    rows[i] = counters[TRANSFERS] - 1
                own[i] = end - LATENCY_NS
                if gap > 0.0 and s + 1 < segments:
                    own[i] += int(gap * (0.5 + uniform(world.seed, pair, step, salt + 31)))
                coming[follower] = end
            for i in range(n):
                got[i] = coming[i]
        for i in range(n):
            finish = max(finish, max(own[i], got[i]))
    return int(finish)


@kernel
def tree(world: World, op: int, step: int) -> int:
    """Up a binary tree to the root, then down again, in segments."""
    ops, scratch = world.ops, world.state.scratch
    arrival, up, down = scratch[0], scratch[1], scratch[2]
    n = ops.width[op]
    size = ops.bytes[op] / TREE_SEGMENTS
    finish = -NEVER
    for lane in range(ops.lanes[op]):
        offset = ops.flow_offset[op] + lane * 2 * n
        for s in range(TREE_SEGMENTS):
            salt = (op * 64 + s) * 16 + lane
            for i in range(n):
                up[i] = arrival[i] + _late(world, op, step, lane, i)
            for i in range(n - 1, 0, -1):
                parent = (i - 1) >> 1
                end = _to(world, op, ops.flow_pair[offset + i], up[i], arrival[parent], size, step, salt)
                up[parent] = max(up[parent], end)
            down[0] = up[0]
            for i in range(1, n):
                pair = ops.flow_pair[offset + n + i]
                down[i] = _to(world, op, pair, down[(i - 1) >> 1], arrival[i], size, step, salt + 512)
                finish = max(finish, down[i])
    return int(finish)


@kernel
def all_to_all(world: World, op: int, step: int) -> int:
    """Everybody sends to everybody, in rotation; a popular expert's rank receives more."""
    ops, arrival, seed = world.ops, world.state.scratch[0], world.seed
    n, job = ops.width[op], ops.job[op]
    skew = world.jobs.routing_skew[job]
    finish = -NEVER
    for i in range(n):
        finish = max(finish, arrival[i])
    for lane in range(ops.lanes[op]):
        for shift in range(1, n):
            for i in range(n):
                j = (i + shift) % n
                pair = ops.flow_pair[ops.flow_offset[op] + (lane * n + i) * n + j]
                popular = 1.0 + skew * (2.0 * uniform(seed, j, step, ops.micro_batch[op] * 31 + job) - 1.0)
                size = ops.bytes[op] / n * popular * (1.0 + 0.3 * skew * (uniform(seed, op, step, i * n + j) - 0.5))
                begin = arrival[i] + _late(world, op, step, lane, i)
                end = _to(world, op, pair, begin, arrival[j], size, step, (op * 64 + shift) * 16 + lane)
                finish = max(finish, end)
    return int(finish)


@kernel
def storage(world: World, op: int, step: int, start: int) -> int:
    """One transfer to or from a storage node, which serves one at a time."""
    ops, net, state = world.ops, world.net, world.state
    pair = ops.flow_pair[ops.flow_offset[op]]
    src, dst = net.pair_src[pair], net.pair_dst[pair]
    reading = src >= net.first_storage
    node = src if reading else dst
    begin = max(start, state.tx_free[node] if reading else state.rx_free[node])
    slow = slow_down(world.faults, world.faults.of_nic[node], begin)
    active = int(ops.bytes[op] * net.storage_ns_per_byte * slow * (1.0 + 0.1 * uniform(world.seed, op, step, 3))) + 1
    end = begin + active
    if reading:
        state.tx_free[node] = end
    else:
        state.rx_free[node] = end
    cut = world.jobs.crash[ops.job[op]]
    write_row(state, world.out, pair, begin, end, ops.bytes[op], active, ops.kind[op], step, -1, cut)
    return int(end)
