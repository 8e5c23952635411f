"""Two rings over the same hops: contexts inside a gradient group, which differ by nothing but their bytes.

All hops of a ring carry the same bytes. Ranks that share a context hold the same weights, so their ring lies inside the
ring of their gradients and takes some of its hops. Such a component has three levels of bytes: `x` on hops of one ring
alone, `y` on hops of the other alone, and `x + y` on hops that both take. That is much to happen by chance, and it is
checked whole: the hops of `x` and `x + y` have to be one ring through all members, those of `y` and `x + y` smaller
rings of equal size that cover the same members. Neither the clock nor the moment of anything matters, so it also holds
where gradients overlap the passes or fill the step. Pairs inside a ring that goes both ways leave two levels only,
which an all-reduce by halving and doubling has as well: these are left to other signs (`in_step`).

The larger ring carries the gradients. Its hops are busy together, so a transfer on a shared hop is a gradient when hops
that carry nothing else are busy at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.flows import TransferTable, ranges
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["SuperposedRings", "superposed_rings", "while_busy"]


@dataclass(frozen=True, slots=True)
class SuperposedRings:
    """Per pair: is a hop of a small ring, of a large ring (gradients). Per row of the table: is not what a small ring
    carries."""

    small: Bool
    large: Bool
    gradient_row: Bool


def superposed_rings(
    transfers: TransferTable, candidates: Int64, amount: Float64, rules: LayoutRules = RULES
) -> SuperposedRings | None:
    """The rings that these pairs make with `amount` bytes per pair; None unless most of their components are made of
    two rings in the same manner."""
    count = len(transfers.addresses)
    src, dst = transfers.pair_src[candidates].astype(np.int64), transfers.pair_dst[candidates].astype(np.int64)
    label = component_labels(count, src, dst)[src]
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1) if order.size else []
    few = parts[:: max(len(parts) // rules.exchanges.rings_sampled, 1)]
    if not any(_two_rings(src[part], dst[part], amount[candidates[part]], rules) for part in few):
        return None
    small, large = (np.zeros(transfers.pair_count, dtype=np.bool_) for _ in range(2))
    gradient_row = np.ones(transfers.start_ns.size, dtype=np.bool_)
    members, shapes = 0, set()
    for part in parts:
        found = _two_rings(src[part], dst[part], amount[candidates[part]], rules)
        if found is None:
            continue
        inner, outer = found
        small[candidates[part[inner]]] = large[candidates[part[outer]]] = True
        members += np.union1d(src[part], dst[part]).size
        shapes.add(_sizes(src[part[inner]], dst[part[inner]]))
        gradient_row[_rows(transfers, candidates[part[inner & ~outer]])] = False
        shared = _rows(transfers, candidates[part[inner & outer]])
        gradient_row[shared] = while_busy(transfers, shared, _rows(transfers, candidates[part[outer & ~inner]]))
    if members < rules.exchanges.superposed_members * np.union1d(src, dst).size or len(shapes) != 1:
        return None
    return SuperposedRings(small, large, gradient_row)


def _two_rings(src: Int64, dst: Int64, amount: Float64, rules: LayoutRules) -> tuple[Bool, Bool] | None:
    """Of the pairs of one component those of the small rings and those of the large one."""
    if src.size > rules.exchanges.most_hops:
        return None
    for x, y, both in _levels(amount, rules):
        for inner, outer in ((y | both, x | both), (x | both, y | both)):
            small, large = _sizes(src[inner], dst[inner]), _sizes(src[outer], dst[outer])
            if 2 <= small < large and large == np.union1d(src, dst).size == np.union1d(src[inner], dst[inner]).size:
                return inner, outer
    return None


def _levels(amount: Float64, rules: LayoutRules) -> Iterator[tuple[Bool, Bool, Bool]]:
    """The ways to see the amounts as x, y and x + y, with the lower of x and y as the unit that levels are told apart
    by; what is far below it are strays."""
    for unit in _means(amount, np.log(np.maximum(amount, 1.0)), rules.exchanges.same_hop):
        known = amount >= 0.5 * unit
        centres = _means(amount[known], amount[known], 0.5 * unit)
        if centres.size == 3 and abs(centres[2] - centres[1] - centres[0]) <= rules.exchanges.sum_of_rings * unit:
            level = np.where(known, np.argmin(np.abs(amount[:, None] - centres), axis=1), -1)
            yield level == 0, level == 1, level == 2


def _means(amount: Float64, place: Float64, gap: float) -> Float64:
    """Mean amounts of the clusters that gaps of more than `gap` between places divide."""
    order = np.argsort(place, kind="stable")
    first = np.concatenate([[0], np.flatnonzero(np.diff(place[order]) > gap) + 1])
    size = np.diff(np.append(first, order.size))
    means: Float64 = np.add.reduceat(amount[order], first) / size
    return means


def _sizes(src: Int64, dst: Int64) -> int:
    """Members of each of the rings that these hops make: all of one size, with as many hops to as from every member;
    0 where they make no rings."""
    members, ends = np.unique(np.concatenate([src, dst]), return_inverse=True)
    if not members.size:
        return 0
    sent, received = np.bincount(ends[: src.size]), np.bincount(ends[src.size :])
    if sent.size != members.size or np.ptp(sent) or not np.array_equal(sent, received):
        return 0
    size = np.bincount(component_labels(members.size, ends[: src.size], ends[src.size :]))
    return 0 if np.ptp(size) else int(size[0])


def _rows(transfers: TransferTable, pairs: Int64) -> Int64:
    return ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])


def while_busy(transfers: TransferTable, rows: Int64, others: Int64) -> Bool:
    """Whether any of the others is under way, or about to be, in the middle of each row; a pause of the others that is
    no longer than their usual transfer does not count."""
    order = others[np.argsort(transfers.start_ns[others], kind="stable")]
    start, end = transfers.start_ns[order], np.maximum.accumulate(transfers.end_ns[order])
    usual = int(np.median(transfers.end_ns[order] - transfers.start_ns[order]))
    first = np.concatenate([[True], start[1:] > end[:-1] + usual])
    begin, over = start[first], end[np.append(np.flatnonzero(first)[1:] - 1, order.size - 1)]
    middle = (transfers.start_ns[rows] + transfers.end_ns[rows]) // 2
    which = np.searchsorted(begin, middle, side="right") - 1
    busy: Bool = (which >= 0) & (middle <= over[np.maximum(which, 0)])
    return busy
