"""One job's slow messages: which pairs were slow in which steps, and the places that each pair passes.

A cell is one pair in one step. It is *sick* when its local rate lies far below what pairs of its kind reach. This is
all that the search over all jobs (`slow_transfer`) needs to know of a job: it holds no messages.

*How a link is used.* A broken link gives everybody the same low rate. A shared one serves whom it can: each transfer's
rate depends on who else is on it, so rates spread; together its users still move what a healthy line moves; and the
other direction, which nobody crowds, is as fast as ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.diagnose.evidence import JobEvidence
from llmprism.kernel import kernel
from llmprism.model.finding import WhereType
from llmprism.model.flows import Int64, TransferTable
from llmprism.model.timeline import Steps
from llmprism.stats.runs import runs_of

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Place = tuple[WhereType, str | tuple[str, ...]]

__all__ = ["MIN_CELLS", "MIN_STEPS", "ONE_WAY", "LinkUse", "Place", "SlowCells", "judge_transfers"]

MIN_DROP: Final = 0.5
"""Natural logarithm of the drop of the local rate that makes a cell sick: below 61 % of the expected rate."""

SPREADS: Final = 4.0
"""The drop must also exceed this many robust spreads of the rates of the same kind."""

MIN_STEPS: Final = 2
"""Sick steps in a row before a place is accused."""

MIN_CELLS: Final = 6
"""Sick cells of a place before it is accused: three pairs for two steps."""

PATH_SHARE: Final = 0.1
"""Share of a pair's bytes from which a path is one of its own."""

ONE_WAY: Final = "one way"
"""Marks a link in one direction as a place of its own: what goes the other way need not be slow."""

TIMED_BYTES: Final = 500_000
"""Smaller transfers do not tell how a link shares its rate: latency counts more."""


LIKELY_SHARE: Final = 0.3
"""Share of a link's cells that are sick from which it may be the reason: half of them go the other way."""

MAX_LINKS: Final = 16
"""Links of one job looked at: where more are slow, it is a switch."""


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


@dataclass(frozen=True, slots=True)
class SlowCells:
    """Sick cells of one job: pairs x steps, the `places` that each pair passes, and the use of its slow links."""

    job: str
    steps: Steps
    duration_ns: Float64
    counted: Bool
    normal_ns: float
    gpus: int
    rate: Float64
    sick: Bool
    known: Bool
    expected: Float64
    places: dict[int, list[Place]]
    links: dict[Place, LinkUse] = field(default_factory=dict)

    def through(self, place: Place) -> Bool:
        """The pairs that pass a place."""
        through = np.zeros(self.sick.shape[0], dtype=np.bool_)
        for pair, places in self.places.items():
            through[pair] = place in places
        return through


def judge_transfers(evidence: JobEvidence) -> SlowCells:
    """The cells of one job, judged by the rates of its own pairs of the same kind."""
    rate = np.where(evidence.counted[None, :], evidence.rate, np.nan)
    known = np.isfinite(rate) & (rate > 0)
    expected = np.full(rate.shape[0], np.nan)
    sick = np.zeros(rate.shape, dtype=np.bool_)
    for kind in np.unique(evidence.pair_kind):
        rows = np.flatnonzero((evidence.pair_kind == kind) & known.any(axis=1))
        if rows.size < 2:
            continue
        usual = np.nanmedian(rate[rows], axis=1)
        expected[rows] = np.median(usual)
        logs = np.log(np.where(known[rows], rate[rows], 1.0)) - np.log(expected[rows])[:, None]
        spread = 1.4826 * np.median(np.abs(logs[known[rows]] - np.median(logs[known[rows]])))
        drop = np.where(known[rows], -logs, 0.0)
        sick[rows] = drop > max(MIN_DROP, SPREADS * spread)
    sick = _lasting(sick, known)
    places = _places(evidence, known)
    return SlowCells(
        job=evidence.job.id,
        steps=evidence.timeline.steps,
        duration_ns=evidence.duration_ns,
        counted=evidence.counted,
        normal_ns=evidence.normal_ns,
        gpus=len(evidence.job.members),
        rate=rate,
        sick=sick,
        known=known,
        expected=expected,
        places=places,
        links=_links(evidence, sick, known, places),
    )


def _lasting(sick: Bool, known: Bool) -> Bool:
    """Sick cells that have enough others of the same pair beside them."""
    lasting = np.zeros_like(sick)
    for row in np.flatnonzero(sick.any(axis=1)):
        for first, last in runs_of(sick[row] | ~known[row], bridge=1, shortest=MIN_STEPS):
            lasting[row, first:last] = sick[row, first:last]
    return lasting


def _places(evidence: JobEvidence, known: Bool) -> dict[int, list[Place]]:
    """The places that each pair with known rates passes: NICs, links both ways and one way, switches, its group."""
    transfers = evidence.job.transfers
    used, path = _main_paths(transfers.pair_offsets, transfers.path, transfers.bytes, len(transfers.paths), PATH_SHARE)
    order = np.lexsort((path, used))
    first = np.searchsorted(used[order], np.arange(transfers.pair_count + 1)).tolist()
    paths = path[order].tolist()
    groups: list[Place] = [
        (WhereType.GROUP, tuple(transfers.addresses[member] for member in group.members))
        for group in evidence.layout.groups
    ]
    group_of = evidence.group_of_pair.tolist()
    ends = zip(transfers.pair_src.tolist(), transfers.pair_dst.tolist(), strict=True)
    on_the_way: dict[tuple[int, ...], list[Place]] = {}
    places: dict[int, list[Place]] = {}
    for pair, (src, dst) in enumerate(ends):
        way = tuple(paths[first[pair] : first[pair + 1]])
        if way not in on_the_way:
            on_the_way[way] = _on_the_way([transfers.paths[one] for one in way])
        nics: list[Place] = [(WhereType.NIC, transfers.addresses[src]), (WhereType.NIC, transfers.addresses[dst])]
        group = groups[group_of[pair] : group_of[pair] + 1] if group_of[pair] >= 0 else []
        places[pair] = nics + on_the_way[way] + group
    return {pair: places[pair] for pair in np.flatnonzero(known.any(axis=1)).tolist()}


def _on_the_way(paths: list[tuple[str, ...]]) -> list[Place]:
    """Links both ways, links one way and switches of some paths."""
    links = dict.fromkeys((min(a, b), max(a, b)) for path in paths for a, b in pairwise(path))
    places: list[Place] = [(WhereType.LINK, link) for link in links]
    places += [(WhereType.LINK, (*hop, ONE_WAY)) for hop in dict.fromkeys(h for path in paths for h in pairwise(path))]
    places += [(WhereType.SWITCH, switch) for switch in dict.fromkeys(switch for path in paths for switch in path)]
    return places


@kernel
def _main_paths(offsets: Int64, path: NDArray[np.int32], size: Int64, paths: int, share: float) -> tuple[Int64, Int64]:
    """Pairs and the paths that carry this share of the pair's bytes: its connections may be spread over several."""
    carried = np.zeros(paths)
    touched = np.empty(paths, dtype=np.int64)
    room = (offsets.size - 1) * (int(1.0 / share) + 1)
    out_pair, out_path = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    count = 0
    for pair in range(offsets.size - 1):
        found, total = 0, 0.0
        for row in range(offsets[pair], offsets[pair + 1]):
            one = path[row]
            if one < 0:
                continue
            if carried[one] == 0.0:
                touched[found] = one
                found += 1
            carried[one] += size[row]
            total += size[row]
        for place in range(found):
            one = touched[place]
            if carried[one] >= share * total:
                out_pair[count], out_path[count] = pair, one
                count += 1
            carried[one] = 0.0
    return out_pair[:count], out_path[:count]


def _links(evidence: JobEvidence, sick: Bool, known: Bool, places: dict[int, list[Place]]) -> dict[Place, LinkUse]:
    """The use of the links that may explain the sick cells: most of their cells are sick, in one direction at least."""
    bad: dict[Place, int] = {}
    good: dict[Place, int] = {}
    slow = sick.any(axis=0)
    bad_of, known_of = sick.sum(axis=1), known[:, slow].sum(axis=1)
    for pair, passed in places.items() if slow.any() else ():
        for place in passed:
            if place[0] is WhereType.LINK and place[1][-1] != ONE_WAY:
                bad[place] = bad.get(place, 0) + int(bad_of[pair])
                good[place] = good.get(place, 0) + int(known_of[pair] - bad_of[pair])
    likely = [p for p, count in bad.items() if count >= max(MIN_CELLS, LIKELY_SHARE * (count + good[p]))]
    likely = sorted(likely, key=lambda place: -bad[place])[:MAX_LINKS]
    if not likely:
        return {}
    rows = _RowsByHop(evidence.job.transfers)
    return {p: _link_use(evidence, p[1], sick, known, rows) for p in likely if not isinstance(p[1], str)}


def _link_use(evidence: JobEvidence, link: tuple[str, ...], sick: Bool, known: Bool, by_hop: _RowsByHop) -> LinkUse:
    transfers, steps = evidence.job.transfers, evidence.timeline.steps
    up, down = (by_hop.rows(*ends) for ends in (link, link[::-1]))
    pairs_up, pairs_down = (np.unique(by_hop.pair_of_row[rows]) for rows in (up, down))
    slow: Bool = np.asarray(sick[np.union1d(pairs_up, pairs_down)].any(axis=0))
    shares = tuple(_share(sick[pairs][:, slow], known[pairs][:, slow]) for pairs in (pairs_up, pairs_down))
    rows = up if np.nan_to_num(shares[0]) >= np.nan_to_num(shares[1]) else down
    rows = rows[(transfers.bytes[rows] >= TIMED_BYTES) & (transfers.end_ns[rows] > transfers.start_ns[rows])]
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
        self._path = transfers.path
        self._paths = len(transfers.paths)
        self._with_hop: dict[tuple[str, str], list[int]] = {}
        used = np.unique(transfers.path)
        for path in used[used >= 0].tolist():
            for hop in pairwise(transfers.paths[path]):
                self._with_hop.setdefault(hop, []).append(path)

    def rows(self, first: str, second: str) -> Int64:
        passes = np.zeros(self._paths + 1, dtype=np.bool_)  # the last: paths that are not known
        passes[self._with_hop.get((first, second), [])] = True
        return np.flatnonzero(passes[self._path])


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
    order = np.argsort(start, kind="stable")
    start, horizon = start[order], np.maximum.accumulate(end[order])
    idle = np.maximum(start[1:] - horizon[:-1], 0).sum()
    return int(horizon[-1] - start[0] - idle)
