"""What the graph of pairs must know of each pair's transfers: totals, kept apart at the pair's long silences.

Everything that recognition decides on the graph (which pairs are bulk, who stands outside, where a pair passes from one
job to the next, what belongs together) follows from these totals, a few dozen bytes per pair and silence. So transfers
may be summed up wherever they lie, and only the sums need to meet.

Invariants: segments of a pair follow each other without a hole; the first one starts at the pair's first row; every
later one starts with a message after a silence of more than `job_gap_ns` between messages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Int32, Int64
from llmprism.kernel import kernel
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.recognize.bulk import PairTraffic
from llmprism.recognize.rules import RULES, RecognitionRules

__all__ = ["PairPieces", "PairSegments", "segments_of"]


@dataclass(frozen=True, slots=True)
class PairSegments:
    """Segments of pair `p` are `offsets[p]:offsets[p + 1]`; `row` counts from the first row of the pair.

    `message_first_ns` and `message_last_ns` bound the messages of a segment (transfers that are no heartbeats); -1
    where it has none.
    """

    offsets: Int64
    row: Int64
    bytes: Int64
    largest: Int64
    first_ns: Int64
    last_ns: Int64
    records: Int64
    message_first_ns: Int64
    message_last_ns: Int64

    @property
    def pair_of_segment(self) -> Int64:
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    @property
    def traffic(self) -> PairTraffic:
        """Totals of whole pairs."""
        return self._joined(self.offsets[:-1])

    def _joined(self, starts: Int64) -> PairTraffic:
        if not starts.size:
            none = np.zeros(0, dtype=np.int64)
            return PairTraffic(none, none, none, none)
        never = np.iinfo(np.int64).max
        first = np.minimum.reduceat(np.where(self.message_first_ns >= 0, self.message_first_ns, never), starts)
        last = np.maximum.reduceat(self.message_last_ns, starts)
        return PairTraffic(
            np.add.reduceat(self.bytes, starts),
            np.maximum.reduceat(self.largest, starts),
            np.where(first < never, first, self.first_ns[starts]),
            np.where(last >= 0, last, np.maximum.reduceat(self.last_ns, starts)),
        )


@dataclass(frozen=True, slots=True)
class PairPieces:
    """Directed pairs, those that serve several jobs cut in pieces: piece `i` is pair `origin[i]` from its row `row[i]`
    on, up to the next piece. `traffic` and `records` are the totals of the pieces."""

    addresses: tuple[str, ...]
    pair_src: Int32
    pair_dst: Int32
    origin: Int64
    row: Int64
    traffic: PairTraffic
    records: Int64

    @classmethod
    def of(cls, addresses: tuple[str, ...], src: Int32, dst: Int32, segments: PairSegments, cut: Bool) -> PairPieces:
        """The pairs `src` → `dst`, cut where `cut` marks the first segment of a new piece."""
        begins = cut.copy()
        begins[segments.offsets[:-1]] = True
        starts = np.flatnonzero(begins)
        origin = segments.pair_of_segment[starts]
        records = np.add.reduceat(segments.records, starts) if starts.size else segments.records
        traffic = segments._joined(starts)
        return cls(addresses, src[origin], dst[origin], origin, segments.row[starts], traffic, records)

    def cut(self, transfers: TransferTable) -> TransferTable:
        """The table of the whole pairs with each piece as a pair of its own (the same ends more than once)."""
        if self.origin.size == transfers.pair_count:
            return transfers
        offsets = np.append(transfers.pair_offsets[self.origin] + self.row, transfers.pair_offsets[-1])
        return TransferTable(
            transfers.addresses, transfers.paths, self.pair_src, self.pair_dst, offsets,
            transfers.pair_gap_ns[self.origin], transfers.start_ns, transfers.end_ns, transfers.bytes,
            transfers.active_ns, transfers.path, transfers.records,
        )  # fmt: skip


def segments_of(transfers: TransferTable, rules: RecognitionRules = RULES) -> PairSegments:
    """The segments of every pair; pairs of control messages only are one segment each, whatever their silences."""
    if not transfers.pair_count:
        none = np.zeros(0, dtype=np.int64)
        return PairSegments(np.zeros(1, dtype=np.int64), none, none, none, none, none, none, none, none)
    bounds = transfers.pair_offsets
    largest, _, _, _ = _totals(bounds, transfers.end_ns, transfers.bytes, transfers.records)
    offsets, starts, first, last = _cut_at_silences(
        bounds, transfers.start_ns, transfers.end_ns, transfers.bytes, largest >= rules.message_bytes,
        rules.job_gap_ns, MESSAGE_FLOOR_BYTES,
    )  # fmt: skip
    largest, total, last_ns, records = _totals(
        np.append(starts, bounds[-1]), transfers.end_ns, transfers.bytes, transfers.records
    )
    return PairSegments(
        offsets=offsets,
        row=starts - np.repeat(bounds[:-1], np.diff(offsets)),
        bytes=total,
        largest=largest,
        first_ns=transfers.start_ns[starts],
        last_ns=last_ns,
        records=records,
        message_first_ns=first,
        message_last_ns=last,
    )


def _totals_by_arrays(bounds: Int64, end: Int64, size: Int64, records: Int32) -> tuple[Int64, Int64, Int64, Int64]:
    """The kernel below without a loop."""
    starts = bounds[:-1]
    return (
        np.maximum.reduceat(size, starts),
        np.add.reduceat(size, starts),
        np.maximum.reduceat(end, starts),
        np.add.reduceat(records, starts, dtype=np.int64),
    )


@kernel(small=_totals_by_arrays)
def _totals(bounds: Int64, end: Int64, size: Int64, records: Int32) -> tuple[Int64, Int64, Int64, Int64]:
    """Largest transfer, bytes, last end and records of the rows between each two bounds, none of which is empty."""
    parts = bounds.size - 1
    largest, total = np.zeros(parts, dtype=np.int64), np.zeros(parts, dtype=np.int64)
    last, count = np.empty(parts, dtype=np.int64), np.zeros(parts, dtype=np.int64)
    for part in range(parts):
        last[part] = end[bounds[part]]
        for row in range(bounds[part], bounds[part + 1]):
            largest[part] = max(largest[part], size[row])
            total[part] += size[row]
            last[part] = max(last[part], end[row])
            count[part] += records[row]
    return largest, total, last, count


def _cut_by_arrays(
    bounds: Int64, start: Int64, end: Int64, size: Int64, bulky: Bool, silence_ns: int, floor: int
) -> tuple[Int64, Int64, Int64, Int64]:
    """The kernel below without a loop."""
    pair_of_row = np.repeat(np.arange(bulky.size), np.diff(bounds))
    rows = np.flatnonzero(bulky[pair_of_row] & (size >= floor))
    pair = pair_of_row[rows]
    after = rows[1:][(pair[1:] == pair[:-1]) & (start[rows[1:]] - end[rows[:-1]] > silence_ns)]
    starts = np.unique(np.concatenate([bounds[:-1], after]))
    low, high = np.searchsorted(rows, starts), np.searchsorted(rows, np.append(starts[1:], bounds[-1]))
    first, last = np.full(starts.size, -1, dtype=np.int64), np.full(starts.size, -1, dtype=np.int64)
    some = low < high
    first[some], last[some] = start[rows[low[some]]], end[rows[high[some] - 1]]
    return np.searchsorted(starts, bounds), starts, first, last


@kernel(small=_cut_by_arrays)
def _cut_at_silences(
    bounds: Int64, start: Int64, end: Int64, size: Int64, bulky: Bool, silence_ns: int, floor: int
) -> tuple[Int64, Int64, Int64, Int64]:
    """Offsets of each pair's segments, their first rows, start of their first and end of their last message (or -1)."""
    offsets = np.zeros(bounds.size, dtype=np.int64)
    for pair in range(bulky.size):
        count, before = 1, -1
        for row in range(bounds[pair], bounds[pair + 1] if bulky[pair] else bounds[pair]):
            if size[row] >= floor:
                if before >= 0 and start[row] - end[before] > silence_ns:
                    count += 1
                before = row
        offsets[pair + 1] = offsets[pair] + count
    starts = np.empty(offsets[-1], dtype=np.int64)
    first, last = np.full(offsets[-1], -1, dtype=np.int64), np.full(offsets[-1], -1, dtype=np.int64)
    for pair in range(bulky.size):
        segment = offsets[pair]
        starts[segment] = bounds[pair]
        for row in range(bounds[pair], bounds[pair + 1] if bulky[pair] else bounds[pair]):
            if size[row] >= floor:
                if last[segment] >= 0 and start[row] - last[segment] > silence_ns:
                    segment += 1
                    starts[segment] = row
                if first[segment] < 0:
                    first[segment] = start[row]
                last[segment] = end[row]
    return offsets, starts, first, last
