"""Slow NIC, slow link, slow switch, congestion: messages that take long, and what they have in common.

The place that explains the sick cells of all jobs (`slow_cells`) is the one through which most of them and few healthy
ones pass: candidates are NICs, links between switches, switches and groups, taken greedily until what is left explains
nothing. A link that several jobs crowd is distinguished from a broken one by how it serves them.

Catches: a throttled or degraded NIC, cable or switch, from two steps on, also when a third of the pairs are sick; two
jobs that hash onto one uplink. Must not shout at: peers that wait for a slow NIC, late senders, the ordinary spread of
rates (its robust spread widens the cut), short dips, set-up steps. Tested with the slow_nic capture against all healthy
ones, and with the degraded-link against the ecmp-collision scenario.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from math import exp, inf

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.cost import long_enough_ns, lost_gpu_seconds, share_lost
from llmprism.diagnose.link_use import LinkUse
from llmprism.diagnose.passes import ONE_WAY, Place, both_ways
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.sick_times import sick_stretches, slows, while_worse
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.diagnose.slow_place_merge import (
    comes_and_goes_with,
    with_broken_up,
    with_held_back,
    with_lagging,
    with_resent,
)
from llmprism.diagnose.slow_place_words import (
    broken_up_summary,
    in_series_words,
    lagging_summary,
    odds_evidence,
    queued_summary,
    resent_summary,
    summary_of,
)
from llmprism.diagnose.tally import SickPlace, Tally
from llmprism.diagnose.trust import calibrated
from llmprism.model.finding import Alternative, Evidence, Finding, FindingKind, Where, WhereType

__all__ = ["find_slow_places"]


class _CellSign(Enum):
    """By what cells are sick: their rate, bytes that are sent again, pieces that are held back, messages that are
    broken up, or a lag behind."""

    SLOW = auto()
    RESENT = auto()
    QUEUED = auto()
    BROKEN = auto()
    LAGGING = auto()


def find_slow_places(cells: Sequence[SlowCells], rules: FaultRules = RULES) -> list[Finding]:
    """Findings for the places that explain the sick cells of all jobs, the most explaining first: slow messages, then
    pieces that are held back and bytes that were sent again where nothing is slow."""
    findings = _places(cells, rules)
    held = [queued for cell in cells if (queued := cell.held_back(rules)) is not None]
    step = max((cell.normal_ns for cell in held), default=0.0)
    findings = with_held_back(findings, _places(held, _behind_a_queue(rules), _CellSign.QUEUED), step, rules)
    both = [either for cell in cells if (either := cell.by_both_signs(rules)) is not None]
    findings = with_held_back(findings, _places(both, _at_one_card(rules)), step, rules)
    again = [lossy for cell in cells if (lossy := cell.lossy(rules)) is not None]
    findings = with_resent(findings, _places(again, _behind_the_exporter(rules), _CellSign.RESENT), again)
    apart = [broken for cell in cells if (broken := cell.broken_up(rules)) is not None]
    step = max((cell.normal_ns for cell in apart), default=0.0)
    findings = with_broken_up(findings, _places(apart, rules, _CellSign.BROKEN), step)
    behind = [lagging for cell in cells if (lagging := cell.lagging(rules)) is not None]
    step = max((cell.normal_ns for cell in behind), default=0.0)
    return with_lagging(findings, _places(behind, rules, _CellSign.LAGGING), step)


def _behind_the_exporter(rules: FaultRules) -> FaultRules:
    """What is lost before the exporter has counted it is counted once: bytes that are sent again were lost behind it,
    on the receiver's side."""
    rule = rules.places
    behind = replace(rule, sends_cost=rule.resent_sends_cost, receives_cost=rule.resent_receives_cost)
    return replace(rules, places=behind)


def _behind_a_queue(rules: FaultRules) -> FaultRules:
    """What a card sends slowly reaches the exporter slowly: pieces that left at full rate wait for another one. The
    members of a group have no queue in common."""
    cost = rules.places.queued_nic_cost
    queues = replace(rules.places, nic_cost=cost, sends_cost=0.0, receives_cost=-cost, group_cost=inf)
    return replace(rules, places=queues)


def _at_one_card(rules: FaultRules) -> FaultRules:
    """Nothing but a card has both an end where records are made and one behind a queue."""
    return replace(rules, places=replace(rules.places, link_cost=inf, switch_cost=inf, group_cost=inf))


def _places(cells: Sequence[SlowCells], rules: FaultRules, sign: _CellSign = _CellSign.SLOW) -> list[Finding]:
    """Findings for the places that explain these cells."""
    total = {cell.job: int(cell.sick.sum()) for cell in cells}
    tally = Tally([cell for cell in cells if total[cell.job]], rules)
    whole = {cell.job: cell for cell in tally.cells}
    findings: list[Finding] = []
    together: list[set[str]] = []
    for _ in range(rules.places.most_places):
        suspect = tally.best()
        if suspect is None:
            break
        concerned = set(suspect.steps)
        concurrent = concerned.union(*(jobs for jobs in together if jobs & concerned))
        share = suspect.cells / sum(total[job] for job in concurrent)
        if suspect.cells >= rules.places.sick_cells and share >= rules.places.cover:
            about = [cell for cell in tally.cells if cell.job in concerned]
            accused = _accuse(suspect, tally.cells, whole, rules, sign)
            findings += [finding for finding in accused if not comes_and_goes_with(findings, finding, about)]
            together.append(concerned)
        tally.take_away(suspect)
    return _one_per_lanes(findings)


def _one_per_lanes(findings: list[Finding]) -> list[Finding]:
    """Groups of one job that are slow at the same time are the lanes of one tensor-parallel group: one finding."""
    kept: list[Finding] = []
    for finding in findings:
        same = (k for k, other in enumerate(kept) if _are_lanes(other, finding))
        at = next(same, None)
        if at is None:
            kept.append(finding)
            continue
        members = tuple(dict.fromkeys((*kept[at].where.id, *finding.where.id)))
        kept[at] = replace(kept[at], where=Where(WhereType.GROUP, members))
    return kept


def _are_lanes(one: Finding, other: Finding) -> bool:
    if one.where.type is not WhereType.GROUP or other.where.type is not WhereType.GROUP or one.job != other.job:
        return False
    return one.start_ns == other.start_ns and one.end_ns == other.end_ns


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
    pairs: int = 0
    cables: dict[str, int] = field(default_factory=dict)
    inside: dict[str, int] = field(default_factory=dict)
    open_end: bool = False
    broken: bool = False
    trust: float = 1.0
    peers: float = 0.0
    sign: _CellSign = _CellSign.SLOW
    sick: int = 0
    known: int = 0
    elsewhere: int = 0

    def _is_broken(self, cell: SlowCells, through: Bool, affected: Bool) -> bool:
        """Is the place so slow for so long that it needs mending even where the jobs hardly notice?"""
        rule = self.rules.places
        sick, known = cell.sick[through][:, affected], cell.known[through][:, affected]
        long = affected.sum() >= rule.broken_long_steps and cell.duration_ns[affected].sum() >= rule.broken_ns
        if not (long or affected.sum() >= rule.broken_steps) or sick.sum() < rule.broken_share * known.sum():
            return False
        drop = cell.rate[through][:, affected] / cell.expected[through][:, None]
        return bool(np.median(drop[sick]) <= rule.broken_drop)

    def add(self, cell: SlowCells, affected: Bool) -> None:
        """The steps of one job in which the place is sick, if these are slower steps."""
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
        self.peers = max(self.peers, cell.trust)
        self.sick += int(cell.sick[through][:, affected].sum())
        self.known += int(cell.known[through][:, affected].sum())
        self.elsewhere += int(cell.known[~through][:, affected].sum())
        self.jobs.append(cell.job)
        self.start.append(int(cell.steps.start_ns[affected][0]))
        self.end.append(int(cell.steps.end_ns[affected][-1]))
        self.open_end |= bool(affected[-1])
        self.lost += lost_gpu_seconds(cell, affected)
        self.severity = max(self.severity, share_lost(cell, affected))
        self.rates.append(cell.rate[through][cell.sick[through] & affected[None, :]])
        self.expected.append(cell.expected[through])
        self.pairs += int(through.sum())
        if both_ways(self.place) in cell.links:
            self.links.append(cell.links[both_ways(self.place)])
        where, name = both_ways(self.place)
        for switch in name if where is WhereType.LINK else ():
            within = cell.through((WhereType.SWITCH, switch)) & ~cell.through((where, name))
            healthy = (cell.known & ~cell.sick)[within][:, affected]
            self.inside[switch] = self.inside.get(switch, 0) + int(healthy.sum())


def _accuse(
    suspect: SickPlace, cells: Sequence[SlowCells], whole: dict[str, SlowCells], rules: FaultRules, sign: _CellSign
) -> list[Finding]:
    """One finding for each stretch of time: stretches of several jobs that overlap, or lie close, are one."""
    findings = []
    ends = set().union(*(_ends_of_links(cell) for cell in cells))
    cables = Counter(switch for switch, _ in ends)
    for steps in sick_stretches(suspect, cells, rules):
        case = _PlaceEvidence(rules, suspect.place, suspect, cables=cables, sign=sign)
        for cell in cells:
            if cell.job in steps:
                case.add(replace(cell, links=whole[cell.job].links), steps[cell.job])
        if case.jobs and case.trust >= rules.trust.likely and (case.broken or case.severity >= rules.places.loss):
            findings.append(_finding(case))
    return [finding for finding in findings if finding.confidence >= rules.trust.worth_a_look]


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
    own = min(_confidence(case.suspect, case.rules), case.trust)
    own = min(own, _most_sure(case))
    confidence = calibrated(own, case.peers, case.rules)
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
            Evidence("pairs of training traffic through this place", case.pairs),
            odds_evidence(case.suspect),
            *(_shares(case) if shared else ()),
        ),
        alternatives=_alternatives(case, (where, name), other, confidence),
    )


def _summary(case: _PlaceEvidence, named: Place, rate: float, usual: float, crowded: Sequence[LinkUse]) -> str:
    if case.sign is _CellSign.RESENT:
        return resent_summary(named, rate - usual, case.jobs)
    if case.sign is _CellSign.QUEUED:
        return queued_summary(named, usual - rate, case.jobs)
    if case.sign is _CellSign.LAGGING:
        return lagging_summary(named, rate, case.jobs)
    if case.sign is _CellSign.BROKEN:
        return broken_up_summary(named, rate, case.jobs)
    return summary_of(case.place, named, rate, usual, case.jobs, crowded)


def _measured(sign: _CellSign, rate: float, usual: float) -> Evidence:
    if sign is _CellSign.RESENT:
        return Evidence("share of the bytes through this place that are sent again", round(rate - usual, 4), 0.0)
    if sign is _CellSign.QUEUED:
        return Evidence("share of what steps take longer that one hop through this place waits", round(1.0 - rate, 3))
    if sign is _CellSign.LAGGING:
        return Evidence("rate of 128 KB through this place, in shares of the usual one", round(rate, 3), 1.0)
    if sign is _CellSign.BROKEN:
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
            doubt = 1.0 - _confidence(suspect, case.rules)
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


def _confidence(suspect: SickPlace, rules: FaultRules) -> float:
    """That it is this place and not its rival: as likely as not where both explain the same."""
    return round(
        min(rules.trust.most_sure, 1.0 - 0.5 * exp(-(suspect.score - suspect.rival_score) / rules.places.lead)), 3
    )


def _most_sure(case: _PlaceEvidence) -> float:
    """How sure a place can be by the sign that it is found by, whatever its rivals are."""
    rule = case.rules.places
    if case.sign is _CellSign.QUEUED:
        return rule.queued_sure
    if case.sign is _CellSign.BROKEN:
        return min(rule.scale_sure, _fits(case))
    return min(rule.backlog_sure, _fits(case)) if case.sign is _CellSign.LAGGING else _fits(case)


def _fits(case: _PlaceEvidence) -> float:
    """How sure a place can be by itself, whatever its rivals are: fewer sick cells than a sick place has fit it less,
    and where nothing passes elsewhere nobody shows that the job does not wait for something else."""
    rule, most = case.rules.places, case.rules.trust.most_sure
    if case.sign is _CellSign.RESENT:
        return most
    share = case.sick / max(case.known, 1)
    fits = max(most * min(1.0, share / rule.sick_while), rule.sure_of_few)
    return min(fits, most if case.elsewhere else rule.sure_of_all)


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
