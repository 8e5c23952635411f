"""Per-GPU events: what each member did and when.

A member's messages are its own; what lies between them is computation, except that a wait for the next activation or
gradient right after something was handed on is idleness. Gradient messages of a member that follow each other closely
are one event: a synchronisation is one thing to a person, however many messages it takes.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int8, Int32, Int64
from llmprism.kernel import kernel
from llmprism.model.flows import MESSAGE_FLOOR_BYTES
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind
from llmprism.model.timeline import EventKind, Events, Steps
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["events_of"]

_COLLECTIVE = {PairKind.DP: EventKind.DP, PairKind.EP: EventKind.EP, PairKind.CP: EventKind.CP}


def events_of(job: Job, layout: JobLayout, steps: Steps, rules: TimelineRules = RULES) -> Events:
    """Events of all members within the steps, sorted by (address, start)."""
    if not steps.count:
        return Events.empty()
    messages = _messages(job, layout)
    address, kind, start, end, peer, size = _fuse(*messages, rules.fuse_ns)
    return _fill_gaps(address, kind, start, end, peer, size, steps, rules.shortest_gap_ns)


def _messages(job: Job, layout: JobLayout) -> tuple[Int32, Int8, Int64, Int64, Int32, Int64]:
    """Both ends' view of every training message: a send and a receive on pipelines, one event each on collectives."""
    transfers = job.transfers
    pair = transfers.pair_of_row
    parts = []
    large = transfers.bytes >= MESSAGE_FLOOR_BYTES
    views = [(PairKind.PP, EventKind.PP_SEND, True), (PairKind.PP, EventKind.PP_RECV, False)]
    views += [(carried, shown, own) for carried, shown in _COLLECTIVE.items() for own in (True, False)]
    for carried, shown, own in views:
        rows = np.flatnonzero((layout.transfer_kind == carried) & large)
        src, dst = transfers.pair_src[pair[rows]], transfers.pair_dst[pair[rows]]
        address, peer = (src, dst) if own else (dst, src)
        sent = transfers.bytes[rows] if own or carried == PairKind.PP else np.zeros(rows.size, dtype=np.int64)
        kind = np.full(rows.size, shown, dtype=np.int8)
        parts.append((address, kind, transfers.start_ns[rows], transfers.end_ns[rows], peer, sent))
    address, kind, start, end, peer, size = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((start, kind, address))
    return address[order], kind[order], start[order], end[order], peer[order], size[order]


@kernel
def _fuse_kernel(
    address: Int32, kind: Int8, start: Int64, end: Int64, peer: Int32, size: Int64, first_collective: int, fuse_ns: int
) -> Int64:
    """In place; returns the rows that stay."""
    keep = np.empty(address.size, dtype=np.int64)
    count = 0
    for i in range(address.size):
        if count:
            last = keep[count - 1]
            same = address[i] == address[last] and kind[i] == kind[last]
            if same and kind[i] >= first_collective and start[i] - end[last] <= fuse_ns:
                end[last] = max(end[last], end[i])
                if size[i] > 0 and size[last] == 0:
                    peer[last] = peer[i]
                size[last] += size[i]
                continue
        keep[count] = i
        count += 1
    return keep[:count]


def _fuse(
    address: Int32, kind: Int8, start: Int64, end: Int64, peer: Int32, size: Int64, fuse_ns: int
) -> tuple[Int32, Int8, Int64, Int64, Int32, Int64]:
    end, peer, size = end.copy(), peer.copy(), size.copy()
    keep = _fuse_kernel(address, kind, start, end, peer, size, int(EventKind.DP), fuse_ns)
    keep = keep[np.lexsort((start[keep], address[keep]))]
    return address[keep], kind[keep], start[keep], end[keep], peer[keep], size[keep]


@kernel
def _gap_kernel(
    address: Int32, kind: Int8, start: Int64, end: Int64, step: Int32, step_start: Int64, step_end: Int64,
    send: int, receive: int, compute: int, idle: int, shortest_gap_ns: int,
) -> tuple[Int32, Int32, Int8, Int64, Int64]:  # fmt: skip
    n = address.size
    limit = 2 * n + 2 * step_start.size + 2
    out_address, out_step = np.empty(limit, dtype=np.int32), np.empty(limit, dtype=np.int32)
    out_kind = np.empty(limit, dtype=np.int8)
    out_start, out_end = np.empty(limit, dtype=np.int64), np.empty(limit, dtype=np.int64)
    count = 0
    horizon, before = np.int64(0), -1
    for i in range(n):
        k = step[i]
        if i == 0 or address[i] != address[i - 1] or step[i - 1] != k:
            horizon, before = (step_start[k] if k >= 0 else start[i]), -1
        if k >= 0 and start[i] - horizon > shortest_gap_ns:
            out_address[count], out_step[count] = address[i], k
            out_kind[count] = idle if kind[i] == receive and before == send else compute
            out_start[count], out_end[count] = horizon, start[i]
            count += 1
        if end[i] > horizon:
            horizon, before = end[i], kind[i]
        last_of_step = i + 1 == n or address[i + 1] != address[i] or step[i + 1] != k
        if k >= 0 and last_of_step and step_end[k] - horizon > shortest_gap_ns:
            out_address[count], out_step[count], out_kind[count] = address[i], k, idle
            out_start[count], out_end[count] = horizon, step_end[k]
            count += 1
    return out_address[:count], out_step[:count], out_kind[:count], out_start[:count], out_end[:count]


def _fill_gaps(
    address: Int32, kind: Int8, start: Int64, end: Int64, peer: Int32, size: Int64, steps: Steps, shortest_gap_ns: int
) -> Events:
    step = steps.at(start).astype(np.int32)
    kinds = (int(EventKind.PP_SEND), int(EventKind.PP_RECV), int(EventKind.COMPUTE), int(EventKind.IDLE))
    gap_address, gap_step, gap_kind, gap_start, gap_end = _gap_kernel(
        address, kind, start, end, step, steps.start_ns, steps.end_ns, *kinds, shortest_gap_ns
    )
    none = np.full(gap_address.size, -1, dtype=np.int32)
    columns = (
        np.concatenate([address, gap_address]),
        np.concatenate([step, gap_step]),
        np.concatenate([kind, gap_kind]),
        np.concatenate([start, gap_start]),
        np.concatenate([end, gap_end]),
        np.concatenate([peer, none]),
        np.concatenate([size, np.zeros(gap_address.size, dtype=np.int64)]),
    )
    order = np.lexsort((columns[3], columns[0]))
    return Events(*(column[order] for column in columns))
