"""One transfer over the network: when it may start, how fast it is, and the row that it leaves.

A NIC serves one transfer at a time and direction, first come, first served, so it never exceeds its line rate. The rate
is that of the slowest thing on the way. Links that are shared give out their bytes in bins of time.
"""

from __future__ import annotations

from llmprism.sim.compiled import inlined, kernel
from llmprism.sim.engine_tables import (
    LINK_BINS,
    NEVER,
    SOME_TIME,
    Counter,
    Faults,
    Jobs,
    Network,
    State,
    Transfers,
    World,
)
from llmprism.sim.noise import uniform

__all__ = ["LATENCY_NS", "slow_down", "transfer", "write_row"]

LATENCY_NS = 8_000
"""From the last byte sent to the receiver going on."""

NVLINK_NS_PER_BYTE = 1.0 / 300.0
"""300 GB/s inside a server."""

BIN_NS = 200_000
"""A shared link gives out its bytes in bins of 0.2 ms, to whoever asks for a bin that is not full."""

OVERHEAD, SPREAD = 1.03, 0.12
"""A transfer runs at 87-97 % of line rate: headers, and what else a NIC does."""

STALL_BYTES = 20_000
"""Smaller messages do not stall."""

STALL_MIN_NS, STALL_SPREAD_NS = 6e5, 4e6
"""Stalls of 0.6 to 4.6 ms, as the real captures show (timers of the sender's processor)."""

TRANSFERS = Counter.TRANSFERS


@inlined
def slow_down(faults: Faults, head: int, time: int) -> float:
    """Product of the slow-downs in a list that are on at a time."""
    factor = 1.0
    while head >= 0:
        if faults.start[head] <= time < faults.end[head]:
            factor *= faults.factor[head]
        head = faults.next[head]
    return factor


@kernel
def _on_the_way(net: Network, faults: Faults, pair: int, group: int, time: int) -> float:
    """The worst slow-down on the way of a pair: NICs, leaves, spines, links, and the group that uses it."""
    sender = slow_down(faults, faults.of_nic[net.pair_src[pair]], time)
    worst = max(sender, slow_down(faults, faults.of_nic[net.pair_dst[pair]], time))
    a, b = net.leaf_src[pair], net.leaf_dst[pair]
    worst = max(worst, max(slow_down(faults, faults.of_switch[a], time), slow_down(faults, faults.of_switch[b], time)))
    if group >= 0:
        worst = max(worst, slow_down(faults, faults.of_group[group], time))
    for choice in range(2):
        spine = net.spine[pair, choice]
        if spine >= 0:
            worst = max(worst, slow_down(faults, faults.of_switch[net.leaves + spine], time))
            worst = max(worst, slow_down(faults, faults.of_link[a * net.spines + spine], time))
            worst = max(worst, slow_down(faults, faults.of_link[b * net.spines + spine], time))
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


@inlined
def _dies(jobs: Jobs, nic: int, job: int) -> int:
    """When the process behind a NIC dies, as far as it belongs to this job."""
    return int(jobs.dead[nic]) if jobs.dead_job[nic] == job else NEVER


@kernel
def transfer(world: World, op: int, pair: int, ready: int, size: float, step: int, salt: int, joinable: int) -> int:
    """Sends `size` bytes of an operation over a pair as soon as it may; returns when the receiver has them.

    `joinable` is the output row of the piece before on the same pair (or -1): a piece that follows without a pause
    is added to it. What is never ready, or not through before one of its ends dies, is never there: NEVER.
    """
    if ready >= SOME_TIME:
        return NEVER
    if pair < 0:
        return ready + int(size * NVLINK_NS_PER_BYTE) + LATENCY_NS
    net, faults, jobs, state = world.net, world.faults, world.jobs, world.state
    job = world.ops.job[op]
    src, dst = net.pair_src[pair], net.pair_dst[pair]
    start = max(ready, max(state.tx_free[src], state.rx_free[dst]))
    slow = _on_the_way(net, faults, pair, world.ops.group[op], start)
    ns_per_byte = net.ns_per_byte * slow * (OVERHEAD + SPREAD * uniform(world.seed, pair, step, salt))
    active = int(size * ns_per_byte) + 1
    link = net.shared[pair]
    if link >= 0 and faults.shared_start[link] <= start < faults.shared_end[link]:
        active = _through_link(faults, state, link, start, size, ns_per_byte) - start + 1
    pause = 0
    if size > STALL_BYTES and uniform(world.seed, pair, step, salt + 7919) < jobs.stall_probability[job]:
        pause = int(STALL_MIN_NS + STALL_SPREAD_NS * uniform(world.seed, pair, step, salt + 104729))
    end = start + active + pause
    state.tx_free[src] = end
    state.rx_free[dst] = end
    if jobs.byte_noise[job] > 0.0:
        size *= 1.0 + jobs.byte_noise[job] * (2.0 * uniform(world.seed, pair, step, salt + 15485863) - 1.0)
    dies = min(_dies(jobs, src, job), _dies(jobs, dst, job))
    cut = min(jobs.crash[job], dies)
    write_row(state, world.out, pair, start, end, size, active, world.ops.kind[op], step, joinable, cut)
    if end > dies:
        state.tx_free[src], state.rx_free[dst] = max(dies, start), max(dies, start)
        return NEVER
    return int(end + LATENCY_NS)


@kernel
def write_row(
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
    row = state.counters[TRANSFERS]
    if 0 <= joinable < row and out.pair[joinable] == pair and start - out.end[joinable] <= LATENCY_NS + 1:
        out.end[joinable] = end
        out.bytes[joinable] += int(size)
        out.active_ns[joinable] += active
        return
    out.pair[row], out.start[row], out.end[row] = pair, start, end
    out.bytes[row], out.active_ns[row] = max(int(size), 1), active
    out.kind[row], out.step[row] = kind, step
    state.counters[TRANSFERS] += 1
