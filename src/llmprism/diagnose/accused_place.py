"""What is said against one place: job by job, stretch by stretch, with how sure it is.

A place that explains sick cells (`tally`) is accused only where it makes steps slower, or is so slow for so long that
it needs mending anyway. Its finding is as sure as all signs together make it (`place_signs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import exp

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.cost import long_enough_ns, lost_gpu_seconds, share_lost
from llmprism.diagnose.link_use import LinkUse
from llmprism.diagnose.passes import ONE_WAY, Place, both_ways
from llmprism.diagnose.place_signs import CellSign, PlaceSigns, chance_of
from llmprism.diagnose.rules import FaultRules
from llmprism.diagnose.sick_times import sick_stretches, slows, while_worse
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.diagnose.slow_place_merge import SuspectedPlace
from llmprism.diagnose.slow_place_words import (
    broken_up_summary,
    in_series_words,
    lagging_summary,
    odds_evidence,
    queued_summary,
    resent_summary,
    summary_of,
)
from llmprism.diagnose.tally import SickPlace
from llmprism.model.finding import Alternative, Evidence, Finding, FindingKind, Where, WhereType

__all__ = ["accuse"]


@dataclass(slots=True)
class _PlaceEvidence:
    """What is said against one place, job by job."""

    rules: FaultRules
    place: Place
    suspect: SickPlace
    jobs: list[str] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    rates: list[Float64] = field(default_factory=list)
    expected: list[Float64] = field(default_factory=list)
    links: list[LinkUse] = field(default_factory=list)
    lost: float = 0.0
    severity: float = 0.0
    pairs: set[tuple[str, int]] = field(default_factory=set)
    cables: dict[str, int] = field(default_factory=dict)
    inside: dict[str, int] = field(default_factory=dict)
    open_end: bool = False
    broken: bool = False
    trust: float = 1.0
    clock: float = 1.0
    sign: CellSign = CellSign.SLOW
    sick: int = 0
    known: int = 0
    elsewhere: int = 0
    others: int = 0
    slower: int = 0
    slower_elsewhere: int = 0
    one_member: float = 0.0
    computing: float = 0.0

    @property
    def signs(self) -> PlaceSigns:
        return PlaceSigns(
            sign=self.sign,
            lead=min(_lead(self.suspect, self.rules), self.trust),
            of_cells=self.sick / max(self.known + self.suspect.well, 1),
            of_sick=self.sick / max(self.sick + self.others, 1),
            of_slower=max(self.slower, 1) / max(self.slower + self.slower_elsewhere, 1),
            alone=not self.elsewhere,
            clock=self.clock,
            one_member=self.one_member,
            computing=self.computing,
        )

    def _is_broken(self, cell: SlowCells, through: Bool, affected: Bool) -> bool:
        """Is the place so slow for so long that it needs mending even where the jobs hardly notice?"""
        rule = self.rules.places
        sick, known = cell.sick[through][:, affected], cell.known[through][:, affected]
        long = affected.sum() >= rule.broken_long_steps and cell.duration_ns[affected].sum() >= rule.broken_ns
        if not (long or affected.sum() >= rule.broken_steps) or sick.sum() < rule.broken_share * known.sum():
            return False
        drop = cell.rate[through][:, affected] / cell.expected[through][:, None]
        return bool(np.median(drop[sick]) <= rule.broken_drop)

    def add(self, cell: SlowCells, unexplained: SlowCells, affected: Bool) -> None:
        """The steps of one job in which the place is sick, if these are slower steps. `unexplained` are its cells that
        no likely place explains."""
        through = cell.through(self.place)
        broken = self._is_broken(cell, through, affected)
        affected = affected if broken else while_worse(cell, through, affected, self.rules)
        lasts = cell.steps.end_ns[affected][-1] - cell.steps.start_ns[affected][0]
        if lasts < long_enough_ns(self.rules.places.slow_ns, cell.steps, self.rules):
            return
        if not (broken or slows(cell, affected, self.rules)):
            return
        self.broken |= broken
        if (cell.counted & ~affected).sum() < self.rules.places.sick_steps:
            self.trust = min(self.trust, cell.trust)  # nothing but its peers to compare it with
        self.clock = min(self.clock, cell.clock)
        slower = _as_slow(cell, affected, self.rules)
        self.slower += int((slower & affected).sum())
        self.slower_elsewhere += int((slower & ~affected).sum())
        self.computing = max(self.computing, cell.computing.chance)
        where, name = both_ways(self.place)
        if where is WhereType.GROUP:
            self.one_member = max(self.one_member, cell.computing.share_in(name))
        self.sick += int(cell.sick[through][:, affected].sum())
        self.known += int(cell.known[through][:, affected].sum())
        self.elsewhere += int(cell.known[~through][:, affected].sum())
        self.others += int((unexplained.sick & ~through[:, None])[:, affected].sum())
        self.jobs.append(cell.job)
        self.start.append(int(cell.steps.start_ns[affected][0]))
        self.end.append(int(cell.steps.end_ns[affected][-1]))
        self.open_end |= bool(affected[-1])
        self.lost += lost_gpu_seconds(cell, affected)
        self.severity = max(self.severity, share_lost(cell, affected))
        self.rates.append(cell.rate[through][cell.sick[through] & affected[None, :]])
        self.expected.append(cell.expected[through])
        self.pairs.update((cell.job, pair) for pair in np.flatnonzero(through).tolist())
        if both_ways(self.place) in cell.links:
            self.links.append(cell.links[both_ways(self.place)])
        for switch in name if where is WhereType.LINK else ():
            within = cell.through((WhereType.SWITCH, switch)) & ~cell.through((where, name))
            healthy = (cell.known & ~cell.sick)[within][:, affected]
            self.inside[switch] = self.inside.get(switch, 0) + int(healthy.sum())


def accuse(
    suspect: SickPlace,
    cells: Sequence[SlowCells],
    whole: dict[str, SlowCells],
    unexplained: dict[str, SlowCells],
    rules: FaultRules,
    sign: CellSign,
) -> list[SuspectedPlace]:
    """One finding for each stretch of time: stretches of several jobs that overlap, or lie close, are one. `whole` are
    all cells of the jobs, `unexplained` those that no place explains that is likely to be sick."""
    findings = []
    ends = set().union(*(_ends_of_links(cell) for cell in cells))
    cables = Counter(switch for switch, _ in ends)
    for steps in sick_stretches(suspect, cells, rules):
        case = _PlaceEvidence(rules, suspect.place, suspect, cables=cables, sign=sign)
        for cell in cells:
            if cell.job in steps:
                case.add(replace(cell, links=whole[cell.job].links), unexplained[cell.job], steps[cell.job])
        if case.jobs and case.trust >= rules.trust.likely and (case.broken or case.severity >= rules.places.loss):
            healthy = max(case.elsewhere - case.others, 0)
            findings.append(SuspectedPlace(_finding(case), case.signs, frozenset(case.pairs), healthy))
    return findings


def _as_slow(cell: SlowCells, affected: Bool, rules: FaultRules) -> Bool:
    """The steps that take about as long as the affected ones do on average, or longer."""
    longer = cell.duration_ns - cell.normal_ns
    least = rules.named_place.as_slow * float(longer[affected].mean())
    return np.asarray(cell.counted & (longer >= least)) if least > 0.0 else affected


def _ends_of_links(cell: SlowCells) -> set[tuple[str, str]]:
    """(switch, link) for both ends of every link of a job."""
    links = (name for where, name in cell.passes.number if where is WhereType.LINK and name[-1] != ONE_WAY)
    return {(switch, " - ".join(name)) for name in links for switch in name}


_KIND = {
    WhereType.NIC: FindingKind.SLOW_NIC,
    WhereType.LINK: FindingKind.SLOW_LINK,
    WhereType.SWITCH: FindingKind.SLOW_SWITCH,
    WhereType.GROUP: FindingKind.SLOW_GROUP,
}


def _finding(case: _PlaceEvidence) -> Finding:
    where, name = both_ways(case.place)
    rate, usual = float(np.median(np.concatenate(case.rates))), float(np.nanmedian(np.concatenate(case.expected)))
    shared = where is WhereType.LINK and _is_shared(case, usual)
    (where, name), other = _named(case, shared=shared)
    confidence = chance_of(case.signs, case.rules)
    return Finding(
        kind=FindingKind.CONGESTION if shared else _KIND[where],
        job=case.jobs[0] if len(case.jobs) == 1 else None,
        where=Where(where, name),
        start_ns=min(case.start),
        end_ns=None if case.open_end else max(case.end),
        severity=round(case.severity, 3),
        confidence=confidence,
        lost_gpu_seconds=round(case.lost, 3),
        summary=_summary(case, (where, name), rate, usual, case.links if shared else ())
        + in_series_words(case.suspect),
        evidence=(
            _measured(case.sign, rate, usual),
            Evidence("pairs of training traffic through this place", len(case.pairs)),
            odds_evidence(case.suspect),
            *(_shares(case) if shared else ()),
        ),
        alternatives=_alternatives(case, (where, name), other, confidence),
    )


def _summary(case: _PlaceEvidence, named: Place, rate: float, usual: float, crowded: Sequence[LinkUse]) -> str:
    if case.sign is CellSign.RESENT:
        return resent_summary(named, rate - usual, case.jobs)
    if case.sign is CellSign.QUEUED:
        return queued_summary(named, usual - rate, case.jobs)
    if case.sign is CellSign.LAGGING:
        return lagging_summary(named, rate, case.jobs)
    if case.sign is CellSign.BROKEN:
        return broken_up_summary(named, rate, case.jobs)
    return summary_of(case.place, named, rate, usual, case.jobs, crowded)


def _measured(sign: CellSign, rate: float, usual: float) -> Evidence:
    if sign is CellSign.RESENT:
        return Evidence("share of the bytes through this place that are sent again", round(rate - usual, 4), 0.0)
    if sign is CellSign.QUEUED:
        return Evidence("share of what steps take longer that one hop through this place waits", round(1.0 - rate, 3))
    if sign is CellSign.LAGGING:
        return Evidence("rate of 128 KB through this place, in shares of the usual one", round(rate, 3), 1.0)
    if sign is CellSign.BROKEN:
        return Evidence(
            "rate of pieces of messages through this place, pauses inside them included, in shares of the usual one",
            round(rate, 3),
            1.0,
        )
    return Evidence("median rate of 128 KB through this place, Gb/s", round(rate, 3), round(usual, 3))


def _alternatives(
    case: _PlaceEvidence, named: Place, other: Place | None, confidence: float
) -> tuple[Alternative, ...]:
    """The place by its other names, and the rival with the doubt that is left for it."""
    suspect = case.suspect
    names = dict.fromkeys(name for name in (other, *map(both_ways, suspect.in_series)) if name not in (None, named))
    found = [
        Alternative(_KIND[name[0]], Where(*name), confidence, same_place=True) for name in names if name is not None
    ]
    if suspect.rival is not None and suspect.rival_score > 0.0:
        rival = both_ways(suspect.rival)
        if rival not in (named, other):
            doubt = 1.0 - _lead(suspect, case.rules)
            found.append(Alternative(_KIND[rival[0]], Where(*rival), round(min(doubt, confidence), 3)))
    return tuple(found)


def _named(case: _PlaceEvidence, *, shared: bool) -> tuple[Place, Place | None]:
    """The place as it is named, and by its other name where it has one.

    A switch with one cable to all others is as sick, seen from them, as that cable. What stays inside the switch and
    is healthy says that it is the cable; where nothing does, the switch is named, which has the cable.
    """
    link = both_ways(case.place)
    where, name = link
    if where is WhereType.LINK and not shared:
        only = [switch for switch in name if case.cables.get(switch) == 1]
        if len(only) == 1:
            switch = (WhereType.SWITCH, only[0])
            return (link, switch) if case.inside.get(only[0], 0) >= case.rules.places.healthy_inside else (switch, link)
    return link, None


def _lead(suspect: SickPlace, rules: FaultRules) -> float:
    """That it is this place and not its rival: as likely as not where both explain the same."""
    return round(
        min(rules.trust.most_sure, 1.0 - 0.5 * exp(-(suspect.score - suspect.rival_score) / rules.places.lead)), 3
    )


def _is_shared(case: _PlaceEvidence, usual: float) -> bool:
    """Is the link crowded by several jobs rather than broken? See `slow_cells` for the signs of either."""
    rule = case.rules.places
    if len(case.jobs) < 2 or len(case.links) < 2:
        return False
    spreads = all(use.spread >= max(rule.shared_spread, rule.shared_growth * use.usual_spread) for use in case.links)
    one_way = all(min(use.sick_share) <= rule.other_way for use in case.links)
    together = sum(use.throughput_gbps for use in case.links)
    return together >= rule.line_share * usual and (spreads or one_way)


def _shares(case: _PlaceEvidence) -> list[Evidence]:
    total = max(sum(use.bytes for use in case.links), 1)
    return [
        Evidence(f"share of the link's slow traffic that is {job}'s", round(use.bytes / total, 3))
        for job, use in zip(case.jobs, case.links, strict=False)
    ]
