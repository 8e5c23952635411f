"""Records → transfers.

A pair of NICs talks over several connections at once and a collector ends a record at every short pause, so one
message arrives as many records. Here the records of a directed pair are put together across ports: records that
overlap in time, or follow each other within the pair's own gap, are one transfer. The gap is the valley between the
short pauses inside messages and the long ones between them (Otsu's threshold on the logarithm of the pauses),
bounded so that it can neither fuse gradient buckets nor keep the pieces of one message apart.

The path of a transfer is that of the record that ended it: where connections take several paths, the slowest one. Of
records that end it in the same moment (stamps are coarse, or the connections share out every piece) neither is slower:
now one is taken, now another, so that a pair shows all of its paths and not always the same one.

Invariant: no byte is lost; per pair the transfers do not overlap and are separated by more than `pair_gap_ns`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int32, Int64
from llmprism.ingest.rules import RULES, IngestRules
from llmprism.kernel import kernel
from llmprism.model.flows import FlowTable, TransferTable
from llmprism.stats.bursts import running_max

__all__ = ["assemble_transfers"]

_BINS: Final = 80
"""Histogram bins for the pauses: five per octave from 16 µs on, enough to place the valley within 15 %."""

_CHANCE_NS: Final = 8192
"""Units of the time at which a transfer starts whose number is chance."""


@kernel
def _pause_bin(pause_ns: int) -> int:
    position = int(5.0 * (math.log2(pause_ns) - 14.0))
    return min(max(position, 0), _BINS - 1)


@kernel
def _otsu(histogram: Float64) -> int:
    """First bin of the upper class of the split that separates the two classes best; -1 when there is no split."""
    total = histogram.sum()
    moment = 0.0
    for i in range(histogram.size):
        moment += i * histogram[i]
    best, best_bin = 0.0, -1
    below, below_moment = 0.0, 0.0
    for i in range(histogram.size - 1):
        below += histogram[i]
        below_moment += i * histogram[i]
        above = total - below
        if below <= 0 or above <= 0:
            continue
        difference = below_moment / below - (moment - below_moment) / above
        variance = below * above * difference * difference
        if variance > best:
            best, best_bin = variance, i + 1
    return best_bin


@kernel
def _pair_gap(start: Int64, end: Int64, shortest_ns: int, longest_ns: int) -> int:
    histogram = np.zeros(_BINS)
    horizon = end[0]
    pauses = 0
    for i in range(1, start.size):
        pause = start[i] - horizon
        if pause > shortest_ns:
            histogram[_pause_bin(pause)] += 1.0
            pauses += 1
        horizon = max(horizon, end[i])
    split = _otsu(histogram) if pauses > 1 else -1
    gap = shortest_ns if split < 0 else int(2.0 ** (14.0 + split / 5.0))
    return min(max(gap, shortest_ns), longest_ns)


@cache
def _pause_edges() -> Int64:
    """The shortest pause of every bin but the first, in ns: found by the function that says which bin it is."""
    edges = []
    for place in range(1, _BINS):
        near = math.floor(2.0 ** (14.0 + place / 5.0))
        edges.append(next(pause for pause in range(near - 2, near + 4) if _pause_bin.python(pause) >= place))
    return np.array(edges, dtype=np.int64)


@cache
def _gap_of_split() -> Int64:
    """The gap for the first bin of the upper class, in ns."""
    return np.array([int(2.0 ** (14.0 + split / 5.0)) for split in range(_BINS)], dtype=np.int64)


def _splits_by_arrays(histograms: Float64) -> Int64:
    """`_otsu` of many histograms; counts and moments are whole numbers, so that sums in any order are the same."""
    moments = histograms * np.arange(_BINS)
    below, below_moment = np.cumsum(histograms, axis=1)[:, :-1], np.cumsum(moments, axis=1)[:, :-1]
    above, above_moment = histograms.sum(axis=1)[:, None] - below, moments.sum(axis=1)[:, None] - below_moment
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = below_moment / below - above_moment / above
    variance = np.where((below > 0) & (above > 0), below * above * difference * difference, 0.0)
    best = variance.argmax(axis=1)
    return np.where(variance[np.arange(best.size), best] > 0, best + 1, -1)


def _pauses(offsets: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """Of every row but the first of its pair: its number, its pair, and how long nothing was under way before it."""
    first = np.zeros(start.size, dtype=np.bool_)
    first[offsets[:-1]] = True
    follows = np.flatnonzero(~first)
    pair = np.repeat(np.arange(offsets.size - 1), np.diff(offsets) - 1)
    return follows, pair, start[follows] - running_max(end, offsets)[follows - 1]


def _gaps_by_arrays(offsets: Int64, start: Int64, end: Int64, shortest_ns: int, longest_ns: int) -> tuple[Int64, Int64]:
    """The kernel below without a loop."""
    pairs = offsets.size - 1
    _, pair, pause = _pauses(offsets, start, end)
    long = pause > shortest_ns
    several, place = np.unique(pair[long], return_inverse=True)
    bins = np.searchsorted(_pause_edges(), pause[long], side="right")
    counted = np.bincount(place * _BINS + bins, minlength=several.size * _BINS).reshape(-1, _BINS)
    split = _splits_by_arrays(counted.astype(np.float64)) if several.size else np.zeros(0, dtype=np.int64)
    gaps = np.full(pairs, shortest_ns, dtype=np.int64)
    found = (split >= 0) & (counted.sum(axis=1) > 1)
    gaps[several[found]] = _gap_of_split()[split[found]]
    gaps = np.minimum(np.maximum(gaps, shortest_ns), longest_ns)
    return gaps, 1 + np.bincount(pair[pause > gaps[pair]], minlength=pairs)


@kernel(by_arrays=_gaps_by_arrays)
def _gaps_and_counts(
    offsets: Int64, start: Int64, end: Int64, shortest_ns: int, longest_ns: int
) -> tuple[Int64, Int64]:
    pairs = offsets.size - 1
    gaps = np.zeros(pairs, dtype=np.int64)
    counts = np.zeros(pairs, dtype=np.int64)
    for p in range(pairs):
        lo, hi = offsets[p], offsets[p + 1]
        gap = _pair_gap(start[lo:hi], end[lo:hi], shortest_ns, longest_ns)
        transfers, horizon = 1, end[lo]
        for i in range(lo + 1, hi):
            if start[i] - horizon > gap:
                transfers += 1
            horizon = max(horizon, end[i])
        gaps[p] = gap
        counts[p] = transfers
    return gaps, counts


def _merge_by_arrays(
    offsets: Int64, gaps: Int64, rows: Int64, start: Int64, end: Int64, size: Int64, path: Int32,
    to_start: Int64, to_end: Int64, to_size: Int64, to_active: Int64, to_path: Int32, to_records: Int32,
) -> None:  # fmt: skip
    """The kernel below without a loop."""
    assert rows[-1] == to_start.size  # noqa: S101 - every transfer has a row
    follows, pair, pause = _pauses(offsets, start, end)
    opens = np.ones(start.size, dtype=np.bool_)
    opens[follows] = pause > gaps[pair]
    first, extends, active = np.flatnonzero(opens), opens.copy(), end - start
    extends[follows] |= active[follows] + pause > 0
    tied, begin = np.zeros_like(opens), first[np.cumsum(opens) - 1]
    tied[follows] = active[follows] + pause == 0
    tied &= start[begin] // _CHANCE_NS % (np.arange(start.size) - begin + 1) == 0
    active[follows] += np.minimum(pause, 0)
    active[~extends] = 0
    to_start[:], to_end[:] = start[first], np.maximum.reduceat(end, first)
    to_size[:], to_active[:] = np.add.reduceat(size, first), np.add.reduceat(active, first)
    to_records[:] = np.diff(first, append=start.size)
    shown = np.where(opens | ((extends | tied) & (path >= 0)), np.arange(start.size), 0)
    to_path[:] = path[np.maximum.reduceat(shown, first)]


@kernel(by_arrays=_merge_by_arrays)
def _merge(
    offsets: Int64, gaps: Int64, rows: Int64, start: Int64, end: Int64, size: Int64, path: Int32,
    to_start: Int64, to_end: Int64, to_size: Int64, to_active: Int64, to_path: Int32, to_records: Int32,
) -> None:  # fmt: skip
    """Fills the columns of transfers, those of a pair from its row of `rows` on."""
    for p in range(offsets.size - 1):
        row, begin = rows[p] - 1, offsets[p]
        horizon = np.int64(0)
        for i in range(offsets[p], offsets[p + 1]):
            if i == offsets[p] or start[i] - horizon > gaps[p]:
                row += 1
                begin = i
                to_start[row], to_end[row], to_path[row] = start[i], end[i], path[i]
                to_size[row], to_records[row] = 0, 0
                to_active[row] = end[i] - start[i]
                horizon = end[i]
            elif end[i] > horizon:
                to_active[row] += end[i] - max(horizon, start[i])
                horizon = end[i]
                to_end[row] = horizon
                if path[i] >= 0:
                    to_path[row] = path[i]
            elif end[i] == horizon and path[i] >= 0 and to_start[row] // _CHANCE_NS % (i - begin + 1) == 0:
                to_path[row] = path[i]
            to_size[row] += size[i]
            to_records[row] += 1


def assemble_transfers(flows: FlowTable, rules: IngestRules = RULES) -> TransferTable:
    """Put the records of every directed pair together into transfers."""
    gaps, counts = _gaps_and_counts(
        flows.pair_offsets, flows.start_ns, flows.end_ns, rules.shortest_gap_ns, rules.longest_gap_ns
    )
    offsets = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    rows = int(offsets[-1])
    start, end, size, active = (np.empty(rows, dtype=np.int64) for _ in range(4))
    path, records = (np.empty(rows, dtype=np.int32) for _ in range(2))
    _merge(
        flows.pair_offsets, gaps, offsets, flows.start_ns, flows.end_ns, flows.bytes, flows.path,
        start, end, size, active, path, records,
    )  # fmt: skip
    return TransferTable(
        flows.addresses, flows.paths, flows.pair_src, flows.pair_dst, offsets, gaps,
        start, end, size, active, path, records,
    )  # fmt: skip
