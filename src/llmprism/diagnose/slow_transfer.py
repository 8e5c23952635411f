"""Slow NIC, slow link, slow switch: messages that take long, and what they have in common.

A cell is one pair in one step. It is *sick* when its local rate lies far below what pairs of its kind reach. The place
that explains the sick cells is the one through which most of them and few healthy ones pass: candidates are NICs, links
between switches and switches, over all jobs at once, taken greedily until what is left explains nothing.

Catches: a throttled or degraded NIC, cable or switch, from two steps on, also when a third of the pairs are sick.
Must not shout at: peers that wait for a slow NIC, late senders, the ordinary spread of rates (its robust spread widens
the cut), short dips, set-up steps. Tested with the slow_nic capture against all healthy ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.diagnose.cost import lost_gpu_seconds, share_lost
from llmprism.diagnose.evidence import JobEvidence
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.flows import TransferTable
from llmprism.stats.runs import runs_of

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]

__all__ = ["find_slow_transfers"]

MIN_DROP: Final = 0.5
"""Natural logarithm of the drop of the local rate that makes a cell sick: below 61 % of the expected rate."""

SPREADS: Final = 4.0
"""The drop must also exceed this many robust spreads of the rates of the same kind."""

MIN_STEPS: Final = 2
"""Sick steps in a row before a place is accused."""

SICK_SHARE: Final = 0.6
"""Share of a place's cells that are sick while it is."""

MIN_COVER: Final = 0.02
"""A further place must explain at least this share of all sick cells: several faults of different size may coincide."""

MIN_CELLS: Final = 6
"""And this many: three pairs for two steps."""

FAIR_SHARE: Final = 0.12
"""A link that gives each of k jobs one k-th of the usual rate, within this, is shared and not broken."""

PATH_SHARE: Final = 0.1
"""Share of a pair's bytes from which a path is one of its own."""

MIN_LOSS: Final = 0.05
"""Share of the speed that the jobs concerned must lose: what slows nobody is not worth a night call."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """Sick cells of one job: pairs x steps, and the `places` that each pair passes."""

    evidence: JobEvidence
    sick: Bool
    known: Bool
    expected: Float64
    places: dict[int, list[Place]]


Place = tuple[WhereType, str | tuple[str, ...]]


def find_slow_transfers(jobs: Sequence[JobEvidence]) -> list[Finding]:
    """Findings for the places that explain slow messages, the most explaining first."""
    cells = [_judge(evidence) for evidence in jobs if evidence.steps]
    total = sum(int(cell.sick.sum()) for cell in cells)
    findings: list[Finding] = []
    if not total:
        return findings
    cells = [replace(cell, places=_places(cell)) for cell in cells]
    while True:
        place, gain = _best_place(cells)
        if place is None or gain < max(MIN_CELLS, MIN_COVER * total):
            return findings
        findings += _accuse(place, cells)
        cells = [_without(cell, place) for cell in cells]


def _judge(evidence: JobEvidence) -> _Cells:
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
    lasting = np.zeros_like(sick)
    for row in np.flatnonzero(sick.any(axis=1)):
        for first, last in runs_of(sick[row] | ~known[row], bridge=1, shortest=MIN_STEPS):
            lasting[row, first:last] = sick[row, first:last]
    return _Cells(evidence, lasting, known, expected, {})


def _places(cell: _Cells) -> dict[int, list[Place]]:
    return {int(pair): _places_of_pair(cell.evidence, int(pair)) for pair in np.flatnonzero(cell.known.any(axis=1))}


def _places_of_pair(evidence: JobEvidence, pair: int) -> list[Place]:
    transfers = evidence.job.transfers
    src = transfers.addresses[transfers.pair_src[pair]]
    dst = transfers.addresses[transfers.pair_dst[pair]]
    places: list[Place] = [(WhereType.NIC, src), (WhereType.NIC, dst)]
    paths = _paths(transfers, pair)
    links = dict.fromkeys((min(a, b), max(a, b)) for path in paths for a, b in pairwise(path))
    places += [(WhereType.LINK, link) for link in links]
    places += [(WhereType.SWITCH, switch) for switch in dict.fromkeys(switch for path in paths for switch in path)]
    group = evidence.group_of_pair[pair]
    if group >= 0:
        members = evidence.layout.groups[group].members
        places.append((WhereType.GROUP, tuple(transfers.addresses[member] for member in members)))
    return places


def _paths(transfers: TransferTable, pair: int) -> list[tuple[str, ...]]:
    """The paths that carry a good share of the pair's bytes: its connections may be spread over several."""
    rows = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
    known = transfers.path[rows] >= 0
    if not known.any():
        return []
    carried = np.bincount(transfers.path[rows][known], transfers.bytes[rows][known])
    return [transfers.paths[path] for path in np.flatnonzero(carried >= PATH_SHARE * carried.sum())]


def _best_place(cells: list[_Cells]) -> tuple[Place | None, int]:
    """The place that explains most: sick cells through it minus healthy ones while it is sick. Ties: the smallest."""
    sick: dict[Place, int] = {}
    healthy: dict[Place, int] = {}
    for cell in cells:
        busy_steps = cell.sick.any(axis=0)
        for pair, places in cell.places.items():
            bad = int(cell.sick[pair].sum())
            good = int((cell.known[pair] & ~cell.sick[pair] & busy_steps).sum())
            for place in places:
                sick[place] = sick.get(place, 0) + bad
                healthy[place] = healthy.get(place, 0) + good
    order = {WhereType.NIC: 0, WhereType.LINK: 1, WhereType.GROUP: 2, WhereType.SWITCH: 3}
    fit = {place: bad - healthy[place] for place, bad in sick.items() if bad >= SICK_SHARE * (bad + healthy[place])}
    if not fit:
        return None, 0
    best = max(fit, key=lambda place: (fit[place], -order[place[0]], str(place[1])))
    return best, sick[best]


def _through(cell: _Cells, place: Place) -> Bool:
    through = np.zeros(cell.sick.shape[0], dtype=np.bool_)
    for pair, places in cell.places.items():
        through[pair] = place in places
    return through


def _without(cell: _Cells, place: Place) -> _Cells:
    sick = cell.sick.copy()
    sick[_through(cell, place)] = False
    return replace(cell, sick=sick)


def _accuse(place: Place, cells: list[_Cells]) -> list[Finding]:
    start, end, lost, severity, open_end = [], [], 0.0, 0.0, False
    rates, expected, jobs, count = [], [], [], 0
    for cell in cells:
        through = _through(cell, place)
        known = cell.known[through].sum(axis=0)
        share = cell.sick[through].sum(axis=0) / np.maximum(known, 1)
        ranges = runs_of(share >= 0.5, bridge=2, shortest=1)
        if not ranges:
            continue
        affected = np.zeros(cell.evidence.steps, dtype=np.bool_)
        affected[ranges[0][0] : ranges[-1][1]] = True
        affected &= share >= 0.5
        if not _slows(cell.evidence, affected):
            continue
        steps = cell.evidence.timeline.steps
        start.append(int(steps.start_ns[affected][0]))
        end.append(int(steps.end_ns[affected][-1]))
        open_end |= bool(affected[-1])
        lost += lost_gpu_seconds(cell.evidence, affected)
        severity = max(severity, share_lost(cell.evidence, affected))
        chosen = cell.sick[through] & affected[None, :]
        rates.append(cell.evidence.rate[through][chosen])
        expected.append(cell.expected[through])
        jobs.append(cell.evidence.job.id)
        count += int(through.sum())
    if not start or severity < MIN_LOSS:
        return []
    measured, usual = float(np.median(np.concatenate(rates))), float(np.nanmedian(np.concatenate(expected)))
    return [_finding(place, jobs, min(start), None if open_end else max(end), severity, lost, measured, usual, count)]


def _slows(evidence: JobEvidence, affected: Bool) -> bool:
    """Do the affected steps take longer than the job's others, where there are enough others?"""
    others = evidence.counted & ~affected
    if others.sum() < MIN_STEPS:
        return True
    return float(np.median(evidence.duration_ns[affected])) >= (1.0 + MIN_LOSS) * float(
        np.median(evidence.duration_ns[others])
    )


_KIND = {
    WhereType.NIC: FindingKind.SLOW_NIC,
    WhereType.LINK: FindingKind.SLOW_LINK,
    WhereType.SWITCH: FindingKind.SLOW_SWITCH,
    WhereType.GROUP: FindingKind.SLOW_GROUP,
}


def _shown(where: WhereType, names: tuple[str, ...]) -> str:
    if where is WhereType.LINK:
        return " - ".join(names)
    return f"of {len(names)} members from {names[0]} on"


def _finding(
    place: Place, jobs: list[str], start: int, end: int | None, severity: float, lost: float,
    rate: float, usual: float, pairs: int,
) -> Finding:  # fmt: skip
    where, name = place
    shown = name if isinstance(name, str) else _shown(where, name)
    action = {
        WhereType.NIC: "check its cable, port counters and PCIe link; move the rank off this server",
        WhereType.LINK: "check the cable and the error counters at both ends; drain the link",
        WhereType.SWITCH: "check its error and pause counters; drain it",
        WhereType.GROUP: "look for what its members have in common that others have not: a rail, a firmware, a quota",
    }[where]
    title = "NIC" if where is WhereType.NIC else where.value.capitalize()
    waiting = "all of its peers wait" if where is WhereType.NIC else "the jobs through it wait"
    kind = _KIND[where]
    if where is WhereType.LINK and len(jobs) > 1 and abs(rate / usual - 1.0 / len(jobs)) <= FAIR_SHARE:
        kind = FindingKind.CONGESTION
        waiting = f"{len(jobs)} jobs ({', '.join(jobs)}) share it"
        action = "their connections hash onto the same uplink; move one job or spread its connections"
    return Finding(
        kind=kind,
        job=jobs[0] if len(jobs) == 1 else None,
        where=Where(where, name),
        start_ns=start,
        end_ns=end,
        severity=round(severity, 3),
        confidence=round(min(0.99, 1.0 - 0.5 * rate / usual), 3),
        lost_gpu_seconds=round(lost, 3),
        summary=f"{title} {shown} moves data at {rate:.1f} Gb/s where {usual:.1f} is usual, and {waiting}: {action}.",
        evidence=(
            Evidence("median rate of one megabyte through this place, Gb/s", round(rate, 3), round(usual, 3)),
            Evidence("pairs of training traffic through this place", pairs),
        ),
    )
