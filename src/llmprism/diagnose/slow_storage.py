"""Slow storage: reads from, or writes to, a server outside the jobs take longer than they did.

Reads and writes are looked at apart: a checkpoint of all ranks and the trickle of data loading have little in common.

Catches: a file server whose transfers drop to a fraction of their rate and stay there. Must not shout at: a server that
was never faster (there is nothing to compare with), single slow transfers, busy moments that pass, a checkpoint that
all ranks write at once (each transfer is slow, the server as a whole is not). Tested with the slow-storage scenario
against the healthy ones with checkpoints and data loading.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.flows import TransferTable, ranges
from llmprism.stats.order import stable_order

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

__all__ = ["find_slow_storage"]

MIN_BYTES: Final = 1_000_000
"""Smaller transfers are dominated by latency."""

MIN_TRANSFERS: Final = 12
"""Transfers on either side of the change."""

MIN_DROP: Final = 2.5
"""Ratio of the median rates before and after: load alone halves a rate."""

AGREEMENT: Final = 0.8
"""Share of the transfers after the change that are slower than the slow end of those before it."""

MIN_TIME_NS: Final = 5_000_000_000
"""How long it must last."""

_VICTIM: Final = {"reads": "data loading", "writes": "checkpointing"}


def find_slow_storage(outside: TransferTable | None, members: frozenset[int]) -> list[Finding]:
    """Findings for the servers at the other end of transfers with `members` (addresses of all jobs)."""
    if outside is None or not outside.pair_count:
        return []
    ends = np.unique(np.concatenate([outside.pair_src, outside.pair_dst]))
    servers = [int(node) for node in ends if int(node) not in members]
    findings = []
    for server in servers:
        reads = _slower(outside, server, np.flatnonzero(outside.pair_src == server), "reads")
        writes = _slower(outside, server, np.flatnonzero(outside.pair_dst == server), "writes")
        found = [finding for finding in (reads, writes) if finding is not None]
        findings += sorted(found, key=lambda finding: finding.start_ns)[:1]
    return findings


def _slower(outside: TransferTable, server: int, pairs: Int64, what: str) -> Finding | None:
    """A finding for the reads or the writes of one server: disks, caches and links serve the two differently."""
    rows = ranges(outside.pair_offsets[pairs], outside.pair_offsets[pairs + 1])
    rows = rows[(outside.bytes[rows] >= MIN_BYTES) & (outside.end_ns[rows] > outside.start_ns[rows])]
    rows = rows[stable_order(outside.start_ns[rows])]
    if rows.size < 2 * MIN_TRANSFERS:
        return None
    rate = 8.0 * outside.bytes[rows] / (outside.end_ns[rows] - outside.start_ns[rows])
    cut = _change(np.log(rate))
    lasts = int(outside.end_ns[rows[-1]] - outside.start_ns[rows[cut]])
    throughput = _throughput(outside.start_ns[rows], outside.end_ns[rows], outside.bytes[rows])
    if lasts < MIN_TIME_NS or not (_drops(rate, cut) and _drops(throughput, cut)):
        return None
    before, after = rate[:cut], rate[cut:]
    slow_end = np.quantile(before, 0.1)
    name = outside.addresses[server]
    usual, now = float(np.median(before)), float(np.median(after))
    return Finding(
        kind=FindingKind.SLOW_STORAGE,
        job=None,
        where=Where(WhereType.STORAGE, name),
        start_ns=int(outside.start_ns[rows[cut]]),
        end_ns=None,
        severity=round(1.0 - now / usual, 3),
        confidence=round(float((after < slow_end).mean()) * 0.9, 3),
        lost_gpu_seconds=0.0,
        summary=(
            f"Storage {name} serves {what} at {now:.1f} Gb/s where it served them at {usual:.1f}: {_VICTIM[what]} "
            "waits for it; look at its disks, its load and its uplink."
        ),
        evidence=(
            Evidence(f"median rate of its {what}, Gb/s", round(now, 3), round(usual, 3)),
            Evidence(f"{what} since then", int(after.size)),
        ),
    )


def _drops(values: Float64, cut: int) -> bool:
    """Are nearly all values from `cut` on far below those before it?"""
    before, after = values[:cut], values[cut:]
    agreed = float((after < np.quantile(before, 0.1)).mean())
    return bool(np.median(before) >= MIN_DROP * np.median(after)) and agreed >= AGREEMENT


def _throughput(start: Int64, end: Int64, size: Int64) -> Float64:
    """Gb/s that all transfers together reach while each one runs, every one of them at its mean rate."""
    speed = 8.0 * size / (end - start)
    moment, place = np.unique(np.concatenate([start, end]), return_inverse=True)
    running = np.cumsum(np.bincount(place, np.concatenate([speed, -speed]), minlength=moment.size))
    moved = np.concatenate([[0.0], np.cumsum(running[:-1] * np.diff(moment))])
    begin, finish = place[: start.size], place[start.size :]
    return np.asarray((moved[finish] - moved[begin]) / (end - start))


def _change(values: Float64) -> int:
    """Where a series splits best into two levels, at least MIN_TRANSFERS from either end."""
    index = np.arange(MIN_TRANSFERS, values.size - MIN_TRANSFERS + 1)
    total = np.cumsum(values)
    left = total[index - 1] / index
    right = (total[-1] - total[index - 1]) / (values.size - index)
    gain = index * (values.size - index) * (left - right) ** 2
    return int(index[np.argmax(gain)])
