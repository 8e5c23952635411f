"""Pairs that serve two jobs one after the other are cut in two.

A scheduler may give the servers of a finished job to the next one, and some pairs of NICs then talk in both. Such a
pair is cut at a silence of both of its ends if the peers of either end are not the same before and after it. A job that
only pauses, or comes back after a crash, has the same peers and is not cut.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Int64, TransferTable

Bool = NDArray[np.bool_]

__all__ = ["cut_reused_pairs"]

MIN_SILENCE_NS: Final = 2_000_000_000
"""2 s of silence of both ends: a scheduler needs longer to start the next job."""


def cut_reused_pairs(transfers: TransferTable, bulk: Bool) -> tuple[TransferTable, Bool]:
    """The table with reused pairs cut in two (the same ends twice), and which of its pairs are bulk."""
    rows = np.flatnonzero(np.repeat(bulk, np.diff(transfers.pair_offsets)) & (transfers.bytes >= MESSAGE_FLOOR_BYTES))
    pair = transfers.pair_of_row[rows]
    same = pair[1:] == pair[:-1]
    silent = transfers.start_ns[rows][1:] - transfers.end_ns[rows][:-1] > MIN_SILENCE_NS
    cuts = np.flatnonzero(same & silent) + 1
    if not cuts.size:
        return transfers, bulk
    activity = _Activity(transfers, bulk)
    wanted = [
        int(rows[cut])
        for cut in cuts
        if activity.changes(int(pair[cut]), int(transfers.end_ns[rows[cut - 1]]), int(transfers.start_ns[rows[cut]]))
    ]
    return _cut(transfers, bulk, np.array(wanted, dtype=np.int64)) if wanted else (transfers, bulk)


class _Activity:
    """When and with whom each address exchanges bulk traffic."""

    def __init__(self, transfers: TransferTable, bulk: Bool) -> None:
        large = np.repeat(bulk, np.diff(transfers.pair_offsets)) & (transfers.bytes >= MESSAGE_FLOOR_BYTES)
        offsets = np.concatenate([[0], np.cumsum(large)])[transfers.pair_offsets]
        self.transfers, self.offsets = transfers, offsets
        self.start, self.end = transfers.start_ns[large], transfers.end_ns[large]
        self.pairs_of: dict[int, list[int]] = {}
        for pair in np.flatnonzero(bulk):
            for end in (int(transfers.pair_src[pair]), int(transfers.pair_dst[pair])):
                self.pairs_of.setdefault(end, []).append(int(pair))

    def changes(self, pair: int, before_ns: int, after_ns: int) -> bool:
        """Are both ends of the pair silent between the two times, and does either have other peers afterwards?"""
        ends = (int(self.transfers.pair_src[pair]), int(self.transfers.pair_dst[pair]))
        if not all(self._silent(end, before_ns, after_ns) for end in ends):
            return False
        middle = (before_ns + after_ns) // 2
        return any(self._active(end, middle, False) != self._active(end, middle, True) for end in ends)

    def _rows(self, pair: int) -> slice:
        return slice(int(self.offsets[pair]), int(self.offsets[pair + 1]))

    def _silent(self, end: int, first: int, last: int) -> bool:
        """No pair of this address sends during the inner part of the time (the rest lasts at least MIN_SILENCE_NS)."""
        spare = max(last - first - MIN_SILENCE_NS, 0) // 2
        for pair in self.pairs_of[end]:
            rows = self._rows(pair)
            begin = int(np.searchsorted(self.end[rows], first + spare))
            if begin < self.end[rows].size and self.start[rows][begin] < last - spare:
                return False
        return True

    def _active(self, end: int, when: int, later: bool) -> frozenset[int]:
        """Pairs of the address that send before (or after) a time."""
        found = set()
        for pair in self.pairs_of[end]:
            rows = self._rows(pair)
            if self.start[rows].size and (self.end[rows][-1] > when if later else self.start[rows][0] < when):
                found.add(pair)
        return frozenset(found)


def _cut(transfers: TransferTable, bulk: Bool, at: Int64) -> tuple[TransferTable, Bool]:
    offsets = np.unique(np.concatenate([transfers.pair_offsets, at]))
    origin = np.searchsorted(transfers.pair_offsets, offsets[:-1], side="right") - 1
    table = TransferTable(
        transfers.addresses, transfers.paths, transfers.pair_src[origin], transfers.pair_dst[origin], offsets,
        transfers.pair_gap_ns[origin], transfers.start_ns, transfers.end_ns, transfers.bytes, transfers.active_ns,
        transfers.path, transfers.records,
    )  # fmt: skip
    return table, bulk[origin]
