"""Self-checks of a run: laws that true traffic obeys, each a function from what happened to a list of complaints.

They look at the transfers and operations that the engine wrote, not at how it made them; the tests run them over the
scenarios and over runs with a planted corruption of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmprism.model import PairKind
from llmprism.sim.engine_tables import Transfers
from llmprism.sim.ops import Flag, OpType
from llmprism.sim.simulation import Simulation

__all__ = ["Trace", "check_causality", "check_line_rate", "check_ring_bytes", "check_steps", "trace_of"]

ROUNDING_BYTES = 64
"""Segments are cut to whole bytes: at most one byte lost per segment."""

SLACK_NS = 20_000
"""A step ends when its last receiver goes on, some microseconds after the last byte."""

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trace:
    """All transfers and operations of a run, in the columns of Transfers."""

    pair: NDArray[np.int32]
    start: Int64
    end: Int64
    bytes: Int64
    kind: NDArray[np.int8]
    step: NDArray[np.int32]
    done_op: NDArray[np.int32]
    done_step: NDArray[np.int32]
    done_start: Int64
    done_end: Int64


def trace_of(batches: Iterable[Transfers]) -> Trace:
    """The batches of a traced simulation put together."""
    parts = list(batches)
    return Trace(*(np.concatenate([getattr(part, name) for part in parts]) for name in Trace.__slots__))


def check_ring_bytes(simulation: Simulation, trace: Trace) -> list[str]:
    """Every member of a gradient ring receives in a finished step what it sends."""
    pairs = simulation.pairs
    src, dst, job = np.array(pairs.src), np.array(pairs.dst), np.array(pairs.job)
    rings = _ring_nics(simulation)
    problems = []
    gradient = trace.kind == int(PairKind.DP)
    for segment, nics in rings.items():
        numbers, _, _ = simulation.steps(segment)
        own = gradient & (job[trace.pair] == segment) & np.isin(trace.step, numbers)
        key = trace.step[own].astype(np.int64) * len(simulation.cluster.addresses)
        sent = _sum_by(key + src[trace.pair[own]], trace.bytes[own])
        received = _sum_by(key + dst[trace.pair[own]], trace.bytes[own])
        for where in sent.keys() | received.keys():
            step, nic = divmod(where, len(simulation.cluster.addresses))
            if step == 0 or nic not in nics:
                continue
            difference = abs(sent.get(where, 0) - received.get(where, 0))
            if difference > ROUNDING_BYTES:
                name = simulation.cluster.addresses[nic]
                problems.append(f"segment {segment} step {step}: {name} sent and received differ by {difference} bytes")
    return problems


def _ring_nics(simulation: Simulation) -> dict[int, set[int]]:
    """NICs of each segment that are in closed gradient rings and in no tree."""
    ops = simulation.ops
    result: dict[int, set[int]] = {}
    for op in np.flatnonzero((ops.type == int(OpType.RING)) & (ops.kind == int(PairKind.DP))):
        if ops.flags[op] & int(Flag.OPEN):
            continue
        lanes, width = int(ops.lanes[op]), int(ops.width[op])
        flows = ops.flow_pair[ops.flow_offset[op] : ops.flow_offset[op + 1]].reshape(lanes, width)
        for lane in flows[(flows >= 0).all(axis=1)]:
            result.setdefault(int(ops.job[op]), set()).update(simulation.pairs.src[pair] for pair in lane)
    return result


def _sum_by(keys: Int64, values: Int64) -> dict[int, int]:
    unique, inverse = np.unique(keys, return_inverse=True)
    total = np.zeros(unique.size, dtype=np.int64)
    np.add.at(total, inverse, values)
    return dict(zip(unique.tolist(), total.tolist(), strict=True))


def check_causality(simulation: Simulation, trace: Trace) -> list[str]:
    """No operation starts before what it waits for is done (a collective: ends before any member's part is done)."""
    ops = simulation.ops
    count = ops.type.size
    key = trace.done_step.astype(np.int64) * count + trace.done_op
    order = np.argsort(key)
    key, start, end = key[order], trace.done_start[order], trace.done_end[order]
    before = np.repeat(np.arange(count), np.diff(ops.succ_offset))
    problems = []
    collective = np.isin(ops.type, [int(OpType.RING), int(OpType.TREE), int(OpType.ALL_TO_ALL)])
    skipped = (ops.every[before] > 0) & (ops.type[before] == int(OpType.BARRIER))
    for step in np.unique(trace.done_step):
        valid = ((ops.succ_lag != -1) | (step == 0)) & ~skipped
        first, found_first = _find(key, int(step) * count + before)
        later = int(step) + (ops.succ_lag == 1)
        second, found_second = _find(key, later * count + ops.succ)
        both = valid & found_first & found_second
        reference = np.where(collective[ops.succ], end[second], start[second])
        bad = both & (reference < end[first])
        problems += [
            f"step {step}: operation {ops.succ[e]} is before operation {before[e]}" for e in np.flatnonzero(bad)[:5]
        ]
    return problems


def _find(keys: Int64, wanted: Int64) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return at, keys[at] == wanted


def check_line_rate(simulation: Simulation, trace: Trace) -> list[str]:
    """In each direction a NIC carries one transfer at a time, and none above its rate."""
    net = simulation.network
    problems = []
    gpus = (net.pair_src[trace.pair] < net.first_storage) & (net.pair_dst[trace.pair] < net.first_storage)
    length = np.maximum(trace.end - trace.start, 1)
    fast = gpus & (trace.bytes * net.ns_per_byte > length * 1.0001 + 1)
    problems += [f"transfer {i} is above line rate" for i in np.flatnonzero(fast)[:5]]
    for name, nic in (("sends", net.pair_src[trace.pair]), ("receives", net.pair_dst[trace.pair])):
        rows = np.flatnonzero(gpus)
        order = rows[np.lexsort((trace.start[rows], nic[rows]))]
        same = nic[order][1:] == nic[order][:-1]
        overlap = same & (trace.start[order][1:] < trace.end[order][:-1])
        problems += [
            f"{simulation.cluster.addresses[nic[order[i + 1]]]} {name} two transfers at once"
            for i in np.flatnonzero(overlap)[:5]
        ]
    return problems


def check_steps(simulation: Simulation, trace: Trace, truth_ends: dict[int, Int64]) -> list[str]:
    """The truth's step ends (per segment, relative to the window) are the ends of the gradients' last transfers."""
    job = np.array(simulation.pairs.job)
    problems = []
    for segment, ends in truth_ends.items():
        numbers, _, _ = simulation.steps(segment)
        if numbers.size != ends.size:
            problems.append(f"segment {segment}: {ends.size} steps in the truth, {numbers.size} happened")
            continue
        own = (trace.kind == int(PairKind.DP)) & (job[trace.pair] == segment)
        for number, end in zip(numbers, ends, strict=True):
            moments = trace.end[own & (trace.step == number)]
            if moments.size and abs(int(moments.max()) - int(end)) > SLACK_NS:
                problems.append(
                    f"segment {segment} step {number}: the truth ends {int(end) - int(moments.max())} ns off"
                )
    return problems
