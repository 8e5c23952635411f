"""How one job fares on the links that may explain its slow messages: broken or shared.

A broken link gives everybody the same low rate. A shared one serves whom it can: each transfer's
rate depends on who else is on it, so rates spread; together its users still move what a healthy line moves; and the
other direction, which nobody crowds, is as fast as ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.passes import Passes, Place
from llmprism.diagnose.rules import FaultRules
from llmprism.model.finding import WhereType
from llmprism.model.flows import TransferTable
from llmprism.stats.integer_order import stable_order

__all__ = ["LinkUse", "links_of"]


@dataclass(frozen=True, slots=True)
class LinkUse:
    """How one job fares on one link while its transfers over it are slow.

    Of each direction's cells the share that is sick (NaN: not used); how far the rates of the slow direction spread
    (logarithm of the ninth decile over the first) then and otherwise; Gb/s that the job moves over it in all while it
    uses it; its bytes.
    """

    sick_share: tuple[float, float]
    spread: float
    usual_spread: float
    throughput_gbps: float
    bytes: int


def links_of(evidence: JobEvidence, sick: Bool, known: Bool, passes: Passes, rules: FaultRules) -> dict[Place, LinkUse]:
    """The use of the links that may explain the sick cells: most of their cells are sick, in one direction at least."""
    if not passes.number:
        return {}
    each = np.add.reduceat(sick[passes.pairs], passes.offsets[:-1], axis=0, dtype=np.int64)
    seen = np.add.reduceat(known[passes.pairs], passes.offsets[:-1], axis=0, dtype=np.int64)
    bad, judged = each.sum(axis=1), np.where(each > 0, seen, 0).sum(axis=1)
    enough = bad >= np.maximum(rules.places.sick_cells, rules.places.likely_share * judged)
    most: dict[Place, float] = {}
    for (where, name), number in passes.number.items():
        if enough[number] and where is WhereType.LINK and not isinstance(name, str):
            link = (where, (min(name[:2]), max(name[:2])))
            most[link] = max(most.get(link, 0.0), float(bad[number]))
    likely = sorted(most, key=lambda place: -most[place])[: rules.places.most_links]
    if not likely:
        return {}
    rows = _RowsByHop(evidence.job.transfers)
    return {p: _link_use(evidence, p[1], sick, known, rows, rules) for p in likely if not isinstance(p[1], str)}


def _link_use(
    evidence: JobEvidence, link: tuple[str, ...], sick: Bool, known: Bool, by_hop: _RowsByHop, rules: FaultRules
) -> LinkUse:
    transfers, steps = evidence.job.transfers, evidence.timeline.steps
    up, down = (by_hop.rows(*ends) for ends in (link, link[::-1]))
    pairs_up, pairs_down = (np.unique(by_hop.pair_of_row[rows]) for rows in (up, down))
    slow: Bool = np.asarray(sick[np.union1d(pairs_up, pairs_down)].any(axis=0))
    shares = tuple(_share(sick[pairs][:, slow], known[pairs][:, slow]) for pairs in (pairs_up, pairs_down))
    rows = up if np.nan_to_num(shares[0]) >= np.nan_to_num(shares[1]) else down
    rows = rows[
        (transfers.bytes[rows] >= rules.places.timed_bytes) & (transfers.end_ns[rows] > transfers.start_ns[rows])
    ]
    step = steps.at(transfers.start_ns[rows])
    then = (step >= 0) & slow[step]
    usual = (step >= 0) & ~slow[step] & evidence.counted[step]
    rate = 8.0 * transfers.bytes[rows] / (transfers.end_ns[rows] - transfers.start_ns[rows])
    busy = _union_ns(transfers.start_ns[rows[then]], transfers.end_ns[rows[then]])
    size = int(transfers.bytes[rows[then]].sum())
    return LinkUse((shares[0], shares[1]), _spread(rate[then]), _spread(rate[usual]), 8.0 * size / max(busy, 1), size)


class _RowsByHop:
    """The rows of a job whose path goes from one switch straight to another."""

    def __init__(self, transfers: TransferTable) -> None:
        self.pair_of_row = transfers.pair_of_row
        self._rows = stable_order(transfers.path)
        taken = transfers.paths_taken()
        first, last = (np.searchsorted(transfers.path[self._rows], taken, side=side) for side in ("left", "right"))
        self._with_hop: dict[tuple[str, str], list[Int64]] = {}
        for path, begin, end in zip(taken.tolist(), first.tolist(), last.tolist(), strict=True):
            for hop in pairwise(transfers.paths[path]):
                self._with_hop.setdefault(hop, []).append(self._rows[begin:end])

    def rows(self, first: str, second: str) -> Int64:
        """Ascending."""
        return np.unique(np.concatenate([self._rows[:0], *self._with_hop.get((first, second), [])]))


def _share(sick: Bool, known: Bool) -> float:
    return float(sick.sum() / known.sum()) if known.any() else float("nan")


def _spread(rate: Float64) -> float:
    if not rate.size:
        return float("nan")
    low, high = np.quantile(np.log(rate), [0.1, 0.9])
    return float(high - low)


def _union_ns(start: Int64, end: Int64) -> int:
    """Time during which at least one of the intervals runs."""
    if not start.size:
        return 0
    order = stable_order(start)
    start, horizon = start[order], np.maximum.accumulate(end[order])
    idle = np.maximum(start[1:] - horizon[:-1], 0).sum()
    return int(horizon[-1] - start[0] - idle)
