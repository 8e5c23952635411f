"""Slow storage: reads from, or writes to, a server outside the jobs take longer than they did.

A request is what a client reads or writes at once. A slow server answers in pieces with pauses between them, and every
piece alone is as fast as ever; so pieces are put together again until they make half of the client's usual request.
Reads and writes are looked at apart: a checkpoint of all ranks and the trickle of data loading have little in common.
The stretches of requests that are far slower than usual, each by itself and the server as a whole, are when it was
sick.

Catches: a file server whose transfers drop to a fraction of their rate, for good or for a while. Must not shout at: a
server that was never faster before (there is nothing to compare with), single slow transfers, short busy moments, a
checkpoint that all ranks write at once (each transfer is slow, the server as a whole is not). Tested with the
slow-storage scenario against the healthy ones with checkpoints and data loading.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.kernel import kernel
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.flows import TransferTable, ranges
from llmprism.stats.integer_order import stable_order
from llmprism.stats.segments import best_stretches

__all__ = ["find_slow_storage"]

SLOW_WHILE, BY_CHANCE = 0.8, 0.05
"""Shares of the requests that are slow while a server is sick and otherwise."""

_VICTIM: Final = {"reads": "data loading", "writes": "checkpointing"}


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests of one server, by their start; `rate` of each, `together` of all that run at the same time (Gb/s)."""

    start_ns: Int64
    end_ns: Int64
    rate: Float64
    together: Float64


def find_slow_storage(
    outside: TransferTable | None, members: frozenset[int], rules: FaultRules = RULES
) -> list[Finding]:
    """Findings for the servers at the other end of transfers with `members` (addresses of all jobs)."""
    if outside is None or not outside.pair_count:
        return []
    ends = np.unique(np.concatenate([outside.pair_src, outside.pair_dst]))
    servers = [int(node) for node in ends if int(node) not in members]
    findings = []
    for server in servers:
        reads = _slower(outside, server, np.flatnonzero(outside.pair_src == server), "reads", rules)
        writes = _slower(outside, server, np.flatnonzero(outside.pair_dst == server), "writes", rules)
        findings += _one_per_time(sorted([*reads, *writes], key=lambda finding: finding.start_ns))
    return findings


def _one_per_time(findings: list[Finding]) -> list[Finding]:
    """Reads and writes that are slow at the same time have one cause."""
    kept: list[Finding] = []
    for finding in findings:
        last = kept[-1] if kept else None
        if last is None or (last.end_ns is not None and last.end_ns < finding.start_ns):
            kept.append(finding)
    return kept


def _slower(outside: TransferTable, server: int, pairs: Int64, what: str, rules: FaultRules) -> list[Finding]:
    """Findings for the reads or the writes of one server: disks, caches and links serve the two differently."""
    requests = _requests(outside, pairs, rules)
    if requests.rate.size < 2 * rules.storage.requests:
        return []
    sick = np.ones(requests.rate.size, dtype=np.bool_)
    for rates in (requests.rate, requests.together):
        sick &= rates < _between(rates)
    for_it, against = log(SLOW_WHILE / BY_CHANCE), log((1.0 - SLOW_WHILE) / (1.0 - BY_CHANCE))
    name = outside.addresses[server]
    return [
        _finding(requests, sick, (first, after), name, what, rules)
        for first, after, _ in best_stretches(np.where(sick, for_it, against), rules.storage.price)
        if _lasts(requests, sick, first, after, rules)
    ]


def _lasts(requests: _Requests, sick: Bool, first: int, after: int, rules: FaultRules) -> bool:
    """Is a stretch long, dense and slow enough, after enough requests that were not?"""
    rule = rules.storage
    before = ~sick[:first]
    if sick[first:after].sum() < rule.requests or before.sum() < rule.requests:
        return False
    lasting = requests.end_ns[first:after].max() - requests.start_ns[first]
    drop = np.median(requests.rate[:first][before]) / np.median(requests.rate[first:after])
    return bool(lasting >= rule.slow_ns and sick[first:after].mean() >= rule.agreement and drop >= rule.drop)


def _between(rates: Float64) -> float:
    """The rate that parts slow requests from usual ones: where their logarithms fall best into two classes. Caches make
    classes of their own, so a share of the usual rate would not do."""
    values = np.sort(np.log(rates))
    left = np.cumsum(values)[:-1] / np.arange(1, values.size)
    right = np.cumsum(values[::-1])[::-1][1:] / np.arange(values.size - 1, 0, -1)
    share = np.arange(1, values.size) / values.size
    cut = int(np.argmax(share * (1.0 - share) * (right - left) ** 2))
    return float(np.exp(0.5 * (values[cut] + values[cut + 1])))


def _requests(outside: TransferTable, pairs: Int64, rules: FaultRules) -> _Requests:
    rule = rules.storage
    rows = ranges(outside.pair_offsets[pairs], outside.pair_offsets[pairs + 1])
    count = np.diff(outside.pair_offsets)[pairs]
    size = outside.bytes[rows].astype(np.float64)
    owner = np.repeat(np.arange(pairs.size), count)
    usual = np.bincount(owner, size**2, pairs.size) / np.maximum(np.bincount(owner, size, pairs.size), 1.0)
    last = _glued(owner, outside.bytes[rows], rule.request_share * usual)
    first = np.concatenate([[0], np.flatnonzero(np.diff(last)) + 1]) if rows.size else last
    amount = np.add.reduceat(outside.bytes[rows], first) if rows.size else last
    start = outside.start_ns[rows[first]]
    end = np.maximum.reduceat(outside.end_ns[rows], first) if rows.size else last
    keep = (amount >= rule.request_bytes) & (amount >= rule.request_share * usual[owner[first]]) & (end > start)
    start, end, amount = start[keep], end[keep], amount[keep]
    order = stable_order(start)
    start, end, amount = start[order], end[order], amount[order]
    return _Requests(start, end, 8.0 * amount / (end - start), _throughput(start, end, amount))


@kernel
def _glued(owner: Int64, size: Int64, wanted: Float64) -> Int64:
    """Number of the request of each row: rows of one owner in a row, until they make what is wanted of it."""
    number = np.zeros(owner.size, dtype=np.int64)
    request, amount = 0, 0.0
    for row in range(owner.size):
        if row and (owner[row] != owner[row - 1] or amount >= wanted[owner[row]]):
            request, amount = request + 1, 0.0
        number[row] = request
        amount += size[row]
    return number


def _finding(
    requests: _Requests, sick: Bool, stretch: tuple[int, int], name: str, what: str, rules: FaultRules
) -> Finding:
    first, after = stretch
    slow, before = requests.rate[first:after], requests.rate[:first][~sick[:first]]
    usual, now = float(np.median(before)), float(np.median(slow))
    lasts = after == requests.rate.size
    return Finding(
        kind=FindingKind.SLOW_STORAGE,
        job=None,
        where=Where(WhereType.STORAGE, name),
        start_ns=int(requests.start_ns[first]),
        end_ns=None if lasts else int(requests.end_ns[first:after].max()),
        severity=round(1.0 - now / usual, 3),
        confidence=round(float((slow < np.quantile(before, 0.1)).mean()) * rules.storage.sure, 3),
        lost_gpu_seconds=0.0,
        summary=(
            f"Storage {name} {'serves' if lasts else 'served'} {what} at {now:.2g} Gb/s where it served them at "
            f"{usual:.2g}: {_VICTIM[what]} waits for it; look at its disks, its load and its uplink."
        ),
        evidence=(
            Evidence(f"median rate of its {what}, Gb/s", round(now, 3), round(usual, 3)),
            Evidence(f"{what} in that time", int(slow.size)),
        ),
    )


def _throughput(start: Int64, end: Int64, size: Int64) -> Float64:
    """Gb/s that all transfers together reach while each one runs, every one of them at its mean rate."""
    speed = 8.0 * size / (end - start)
    moment, place = np.unique(np.concatenate([start, end]), return_inverse=True)
    running = np.cumsum(np.bincount(place, np.concatenate([speed, -speed]), minlength=moment.size))
    moved = np.concatenate([[0.0], np.cumsum(running[:-1] * np.diff(moment))])
    begin, finish = place[: start.size], place[start.size :]
    return np.asarray((moved[finish] - moved[begin]) / (end - start))
