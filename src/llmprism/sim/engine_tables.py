"""The tables that the engine's kernels work on, and the state that they change.

Kernels get them all in one `World`. Times are nanoseconds from the window's start; `NEVER` stands for no time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from llmprism.arrays import Float64, Int8, Int32, Int64
from llmprism.sim.ops import Ops

__all__ = [
    "LINK_BINS",
    "NEVER",
    "SOME_TIME",
    "STEP_FACTORS",
    "Counter",
    "Faults",
    "Jobs",
    "Network",
    "State",
    "Transfers",
    "World",
    "new_state",
    "new_transfers",
]


NEVER = np.iinfo(np.int64).max // 4
SOME_TIME = NEVER // 2
"""Times beyond this one are NEVER, less or more what was added to it on the way."""

LINK_BINS = 4096
"""Bins of time kept per shared link: 0.8 s, longer than operations are met out of order."""

STEP_FACTORS = 4096
"""Step factors are drawn for this many steps and then repeat."""


class Network(NamedTuple):
    """Per pair: NIC ids, the leaves at both ends, the spines of its two ECMP choices, the shared link it uses."""

    pair_src: Int32
    pair_dst: Int32
    leaf_src: Int32
    leaf_dst: Int32
    spine: Int32  # [pair, 2]; -1 inside one leaf
    shared: Int32  # [pair]; -1: none
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
    lane_jitter_ns: Float64
    hop_gap_ns: Float64
    byte_noise: Float64
    step_factor: Float64  # [job, STEP_FACTORS]
    hang: Int64  # [cell]: from then on it begins nothing
    killed: Int64  # [cell]: from then on it does nothing, and what it does then is never done
    dead: Int64  # [nic]: from then on it neither sends nor receives anything of the job `dead_job`
    dead_job: Int32  # [nic]


class Counter:
    """Places in `State.counters`."""

    HEAP, TRANSFERS, DONE, NOW, TRACE = range(5)


class State(NamedTuple):
    """What changes. Per-operation state is kept for two steps, by parity."""

    op_end: Int64  # [op, 2]
    waiting: Int32  # [op, 2]
    ready: Int64  # [op, 2]
    tx_free: Int64  # [nic]
    rx_free: Int64  # [nic]
    link_bin: Int64  # [shared link, LINK_BINS]: which bin of time the slot holds
    link_used: Float64  # [shared link, LINK_BINS]: bytes of that bin that are taken
    heap_time: Int64
    heap_op: Int32
    heap_step: Int32
    counters: Int64
    step_start: Int64  # [job, steps]
    step_end: Int64  # [job, steps]
    step_syncs: Int32  # [job, steps]: operations with Flag.SYNC that are done
    started: Int32  # [job]: latest step that any cell began
    last_step: Int32  # [job]: the step after which it ends; all cells do the same steps
    given_up: Int32  # [2, operations]: a list of operations, and their steps, that will never be done
    scratch: Int64  # [5, widest exchange]


class Transfers(NamedTuple):
    """What the engine writes: transfers, and the operations done (computations only, unless it traces).

    Times are relative to the window's start. `active_ns` is the sending time without stalls.
    """

    pair: Int32
    start: Int64
    end: Int64
    bytes: Int64
    active_ns: Int64
    kind: Int8
    step: Int32
    done_op: Int32
    done_step: Int32
    done_start: Int64
    done_end: Int64


class World(NamedTuple):
    ops: Ops
    net: Network
    faults: Faults
    jobs: Jobs
    state: State
    out: Transfers
    seed: np.uint64


def new_state(ops: Ops, nics: int, shared: int, jobs: int, max_steps: int, trace: bool) -> State:
    count = ops.type.size
    waiting = np.empty((count, 2), dtype=np.int32)
    waiting[:, 0] = ops.first_count
    waiting[:, 1] = ops.steady_count
    counters = np.zeros(5, dtype=np.int64)
    counters[Counter.TRACE] = int(trace)
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
        counters=counters,
        step_start=np.full((jobs, max_steps), NEVER, dtype=np.int64),
        step_end=np.full((jobs, max_steps), -NEVER, dtype=np.int64),
        step_syncs=np.zeros((jobs, max_steps), dtype=np.int32),
        started=np.zeros(jobs, dtype=np.int32),
        last_step=np.full(jobs, np.iinfo(np.int32).max, dtype=np.int32),
        given_up=np.zeros((2, count * 2 + 16), dtype=np.int32),
        scratch=np.zeros((5, int(ops.width.max(initial=1)) + 1), dtype=np.int64),
    )


def new_transfers(size: int, done: int) -> Transfers:
    """Room for `size` transfers and `done` operations."""
    return Transfers(
        pair=np.zeros(size, dtype=np.int32),
        start=np.zeros(size, dtype=np.int64),
        end=np.zeros(size, dtype=np.int64),
        bytes=np.zeros(size, dtype=np.int64),
        active_ns=np.zeros(size, dtype=np.int64),
        kind=np.zeros(size, dtype=np.int8),
        step=np.zeros(size, dtype=np.int32),
        done_op=np.zeros(done, dtype=np.int32),
        done_step=np.zeros(done, dtype=np.int32),
        done_start=np.zeros(done, dtype=np.int64),
        done_end=np.zeros(done, dtype=np.int64),
    )
