"""The operations that a step of a job is made of, and the tables that hold them.

A job's step is a graph of operations. An operation starts when all its predecessors are done; what it then does depends
on its type. The same graph is walked in every step. An edge has a lag: 0 joins operations of the same step, 1 joins
an operation to one of the next step, `ONCE` counts in the first step only (set-up work).

Collectives have *positions* (members, or servers where members of one server talk over NVLink) and *lanes* (parallel
exchanges of the same shape, one per tensor-parallel rank or rail). Each predecessor of a collective belongs to one
position, so that a late member is late and the others wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from llmprism.arrays import Float64, Int8, Int32, Int64

__all__ = ["INVISIBLE", "ONCE", "Flag", "OpTable", "OpType", "Ops", "PairTable"]

INVISIBLE = -1
"""Pair id of two GPUs of one server that talk over NVLink: no record, no NIC."""

ONCE = -1
"""Lag of an edge that exists in the first step only."""


class OpType(IntEnum):
    COMPUTE = 0
    PAUSE = 1
    SEND = 2
    RING = 3
    TREE = 4
    ALL_TO_ALL = 5
    STORAGE = 6
    BARRIER = 7


class Flag(IntEnum):
    SYNC = 1
    """Its end is (part of) the end of the step."""
    LENGTH = 2
    """Duration and bytes follow the sequence length of its micro-batch."""
    FIRST = 4
    """Its start is (part of) the start of the step."""
    CLOSE = 8
    """A ring in whose second half everything depends on everybody (all-reduce, or more members than segments)."""
    OPEN = 16
    """A ring without its last hop: a broadcast along the chain."""
    SETUP = 32
    """Takes longer in the set-up step."""
    JITTER = 64
    """A pause that comes only sometimes and varies (data loading)."""


class Ops(NamedTuple):
    """The tables as arrays, in the form that the engine walks. Offsets cut the ragged ones."""

    type: Int8
    job: Int32
    cell: Int32
    duration_ns: Float64
    bytes: Float64
    kind: Int8
    micro_batch: Int32
    replica: Int32
    flags: Int32
    every: Int32
    segments: Int32
    lanes: Int32
    width: Int32
    group: Int32
    flow_offset: Int64
    flow_pair: Int32
    pred_offset: Int64
    pred: Int32
    pred_slot: Int32
    pred_lag: Int8
    succ_offset: Int64
    succ: Int32
    succ_lag: Int8
    first_count: Int32
    steady_count: Int32


@dataclass(slots=True)
class PairTable:
    """Directed NIC pairs with the number of data connections each uses."""

    src: list[int] = field(default_factory=list)
    dst: list[int] = field(default_factory=list)
    job: list[int] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    chunk_bytes: list[int] = field(default_factory=list)
    _ids: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def add(self, src: int, dst: int, job: int, connections: int, chunk_bytes: int) -> int:
        key = (src, dst, job)
        if key not in self._ids:
            self._ids[key] = len(self.src)
            self.src.append(src)
            self.dst.append(dst)
            self.job.append(job)
            self.connections.append(connections)
            self.chunk_bytes.append(chunk_bytes)
        return self._ids[key]


@dataclass(slots=True)
class OpTable:
    """Operations under construction. `add` returns the id; predecessors may be joined later."""

    rows: list[tuple[int, int, int, float, float, int, int, int, int, int, int, int, int, int]] = field(
        default_factory=list
    )
    flows: list[list[int]] = field(default_factory=list)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    job: int = 0
    groups: int = 0

    def add(
        self,
        op_type: OpType,
        *,
        cell: int = -1,
        duration_ns: float = 0.0,
        size: float = 0.0,
        kind: int = 0,
        micro_batch: int = -1,
        replica: int = 0,
        flags: int = 0,
        every: int = 0,
        segments: int = 1,
        lanes: list[list[int]] | None = None,
        width: int = 0,
        group: int = -1,
    ) -> int:
        flows = lanes or []
        row = (
            int(op_type),
            self.job,
            cell,
            duration_ns,
            size,
            kind,
            micro_batch,
            replica,
            flags,
            every,
            segments,
            len(flows),
            width,
            group,
        )
        self.rows.append(row)
        self.flows.append([pair for lane in flows for pair in lane])
        return len(self.rows) - 1

    def join(self, before: int, after: int, slot: int = 0, lag: int = 0) -> None:
        """`after` waits for `before` (of the same step, or of the one before with lag 1)."""
        self.edges.append((before, after, slot, lag))

    def freeze(self) -> Ops:
        count = len(self.rows)
        columns = list(zip(*self.rows, strict=True)) if count else [()] * 14
        flow_offset = np.concatenate(([0], np.cumsum([len(flow) for flow in self.flows], dtype=np.int64)))
        edges = np.array(self.edges, dtype=np.int64).reshape(-1, 4)
        by_after = edges[np.lexsort((edges[:, 2], edges[:, 1]))]
        by_before = edges[np.argsort(edges[:, 0], kind="stable")]
        first = np.bincount(edges[edges[:, 3] != 1, 1], minlength=count)
        steady = np.bincount(edges[edges[:, 3] != ONCE, 1], minlength=count)
        floats = (3, 4)
        int_column = [np.array(() if i in floats else c, dtype=np.int32) for i, c in enumerate(columns)]
        return Ops(
            type=int_column[0].astype(np.int8),
            job=int_column[1],
            cell=int_column[2],
            duration_ns=np.array(columns[3], dtype=np.float64),
            bytes=np.array(columns[4], dtype=np.float64),
            kind=int_column[5].astype(np.int8),
            micro_batch=int_column[6],
            replica=int_column[7],
            flags=int_column[8],
            every=int_column[9],
            segments=int_column[10],
            lanes=int_column[11],
            width=int_column[12],
            group=int_column[13],
            flow_offset=flow_offset.astype(np.int64),
            flow_pair=np.array([pair for flow in self.flows for pair in flow], dtype=np.int32),
            pred_offset=np.searchsorted(by_after[:, 1], np.arange(count + 1)).astype(np.int64),
            pred=by_after[:, 0].astype(np.int32),
            pred_slot=by_after[:, 2].astype(np.int32),
            pred_lag=by_after[:, 3].astype(np.int8),
            succ_offset=np.searchsorted(by_before[:, 0], np.arange(count + 1)).astype(np.int64),
            succ=by_before[:, 1].astype(np.int32),
            succ_lag=by_before[:, 3].astype(np.int8),
            first_count=first.astype(np.int32),
            steady_count=steady.astype(np.int32),
        )
