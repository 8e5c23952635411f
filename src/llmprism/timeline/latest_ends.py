"""The latest end of some transfers, for each member and step."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.kernel import kernel

__all__ = ["latest_ends"]


def _latest_by_arrays(
    offsets: Int64, start: Int64, end: Int64, counted: Bool, ends: Int64, members: int, begin: Int64, until: Int64
) -> Int64:
    """The kernel below without a loop."""
    latest = np.zeros((members, begin.size), dtype=np.int64)
    rows = np.flatnonzero(counted & np.repeat((ends >= 0).any(axis=0), np.diff(offsets)))
    step = np.searchsorted(until, start[rows], side="right")
    inside = start[rows] >= np.append(begin, np.iinfo(np.int64).max)[step]
    rows, step = rows[inside], step[inside]
    pair = np.searchsorted(offsets, rows, side="right") - 1
    for member in ends:
        known = member[pair] >= 0
        np.maximum.at(latest, (member[pair[known]], step[known]), end[rows[known]])
    return latest


@kernel(by_arrays=_latest_by_arrays)
def latest_ends(
    offsets: Int64, start: Int64, end: Int64, counted: Bool, ends: Int64, members: int, begin: Int64, until: Int64
) -> Int64:
    """The latest end of the counted rows that start in each step (from `begin` on, before `until`), for both ends of
    their pairs; 0 where there is none. `ends` holds the two members of each pair as rows of the result, -1 for those
    that are not wanted."""
    latest = np.zeros((members, begin.size), dtype=np.int64)
    for pair in range(offsets.size - 1):
        if ends[0, pair] < 0 and ends[1, pair] < 0:
            continue
        step = 0
        for row in range(offsets[pair], offsets[pair + 1]):
            while step < begin.size and until[step] <= start[row]:
                step += 1
            if step >= begin.size:
                break
            if not counted[row] or start[row] < begin[step]:
                continue
            for side in range(2):
                member = ends[side, pair]
                if member >= 0:
                    latest[member, step] = max(latest[member, step], end[row])
    return latest
