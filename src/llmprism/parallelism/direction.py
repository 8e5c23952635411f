"""Which end of a pipeline is the first stage?

Follow the balance of a pipeline: bytes sent one way along it minus bytes sent the other way. Taken the right way round
it counts the activations that are *outstanding*, not yet answered by a gradient. It is lowest between steps, when
gradients are synchronised, the optimizer runs and the first activation is computed: one long rest. When the pipeline is
full it is highest, but never rests there for longer than one computation. So the end from which the balance has its
longest rest low is the first stage.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Int64, TransferTable, ranges

Float64 = NDArray[np.float64]

__all__ = ["in_stage_order"]

BAND = 0.2
"""Share of the balance's range (over one step) that counts as resting at its lowest or highest."""


def in_stage_order(
    transfers: TransferTable,
    paths: tuple[tuple[int, ...], ...],
    side_of: dict[int, str],
    boundary_ns: Int64,
    *,
    ring: bool = False,
) -> tuple[tuple[int, ...], ...]:
    """The paths with their first stage first. In a ring the last stage hands on to the first.

    `side_of` names the side that an end belongs to (its servers, its group): paths between the same two sides run the
    same way, so they decide together.
    """
    pair_of = {
        ends: pair
        for pair, ends in enumerate(zip(transfers.pair_src.tolist(), transfers.pair_dst.tolist(), strict=True))
    }
    votes: dict[tuple[str, str], float] = {}
    turned = [_turned(path, side_of) for path in paths]
    for path in turned:
        low, high = _path_rests(transfers, path, pair_of, boundary_ns, ring=ring)
        sides = _sides(path, side_of)
        votes[sides] = votes.get(sides, 0.0) + (low - high) / max(low + high, 1e-12)
    return tuple(sorted(path if votes[_sides(path, side_of)] >= 0 else path[::-1] for path in turned))


def _sides(path: tuple[int, ...], side_of: dict[int, str]) -> tuple[str, str]:
    return side_of.get(path[0], str(path[0])), side_of.get(path[-1], str(path[-1]))


def _turned(path: tuple[int, ...], side_of: dict[int, str]) -> tuple[int, ...]:
    """The path with its sides in a fixed order, so that all paths between two sides point the same way."""
    first, last = _sides(path, side_of)
    return path if first <= last else path[::-1]


def _path_rests(
    transfers: TransferTable,
    path: tuple[int, ...],
    pair_of: dict[tuple[int, int], int],
    boundary_ns: Int64,
    *,
    ring: bool,
) -> tuple[float, float]:
    links = list(pairwise((*path, path[0]) if ring else path))
    along = [pair_of[link] for link in links if link in pair_of]
    against = [pair_of[late, early] for early, late in links if (late, early) in pair_of]
    return _rests(transfers, along, against, boundary_ns)


def _rests(transfers: TransferTable, along: list[int], against: list[int], boundary_ns: Int64) -> tuple[float, float]:
    """Longest time in a step that the balance rests at its lowest and at its highest; medians over the steps."""
    rows_along, rows_against = _rows(transfers, along), _rows(transfers, against)
    rows = np.concatenate([rows_along, rows_against])
    signed = np.concatenate([transfers.bytes[rows_along], -transfers.bytes[rows_against]])
    order = np.argsort(transfers.end_ns[rows], kind="stable")
    when, balance = transfers.end_ns[rows][order], np.cumsum(signed[order]).astype(np.float64)
    step = np.searchsorted(boundary_ns, when, side="right") - 1
    inside = (step >= 0) & (step < boundary_ns.size - 1)
    when, balance, step = when[inside], balance[inside], step[inside]
    if when.size < 2:
        return 0.0, 0.0
    stay = np.diff(when, append=when[-1]).astype(np.float64)
    first = np.flatnonzero(np.diff(step, prepend=-1))
    lowest = np.repeat(np.minimum.reduceat(balance, first), np.diff(first, append=step.size))
    highest = np.repeat(np.maximum.reduceat(balance, first), np.diff(first, append=step.size))
    level = (balance - lowest) / np.maximum(highest - lowest, 1.0)
    longest_low = np.maximum.reduceat(np.where(level <= BAND, stay, 0.0), first)
    longest_high = np.maximum.reduceat(np.where(level >= 1.0 - BAND, stay, 0.0), first)
    return float(np.median(longest_low)), float(np.median(longest_high))


def _rows(transfers: TransferTable, pairs: list[int]) -> Int64:
    index = np.array(pairs, dtype=np.int64)
    rows = ranges(transfers.pair_offsets[index], transfers.pair_offsets[index + 1])
    return rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
