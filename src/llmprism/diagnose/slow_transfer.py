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

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from llmprism.diagnose.accused_place import CellSign, accuse
from llmprism.diagnose.bystanders import Bystander
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.diagnose.slow_place_merge import (
    FittingPlace,
    best_fitting,
    comes_and_goes_with,
    findings_of,
    unless_doubtful,
    with_broken_up,
    with_held_back,
    with_lagging,
    with_resent,
    without_rings_that_wait,
)
from llmprism.diagnose.tally import Tally
from llmprism.model.finding import Finding, Where, WhereType

__all__ = ["find_slow_places"]


def find_slow_places(cells: Sequence[SlowCells], rules: FaultRules = RULES) -> list[Finding]:
    """Findings for the places that explain the sick cells of all jobs, the most explaining first: slow messages, then
    pieces that are held back and bytes that were sent again where nothing is slow. Jobs without sick cells speak as
    bystanders. Where several of the inferred signs name a place at one time, the best fitting one is believed."""
    near = [cell.bystander for cell in cells if cell.bystander is not None]
    held = _known(cell.held_back(rules) for cell in cells)
    both = _known(cell.by_both_signs(rules) for cell in cells)
    again = _known(cell.lossy(rules) for cell in cells)
    apart = _known(cell.broken_up(rules) for cell in cells)
    behind = _known(cell.lagging(rules) for cell in cells)
    slow = _places(cells, rules, near)
    queued, cards, broken, lagging = best_fitting(
        _places(held, _behind_a_queue(rules), near, CellSign.QUEUED),
        _places(both, _at_one_card(rules), near),
        without_rings_that_wait(_places(apart, rules, near, CellSign.BROKEN), rules),
        _places(behind, rules, near, CellSign.LAGGING),
    )
    resent = _places(again, _behind_the_exporter(rules), near, CellSign.RESENT)
    findings = findings_of(unless_doubtful(slow, [*queued, *broken, *lagging], rules))
    for waiting in (queued, cards):
        findings = with_held_back(findings, findings_of(waiting), _step_ns(held), rules)
    findings = with_resent(findings, findings_of(resent), again)
    findings = with_broken_up(findings, findings_of(broken), _step_ns(apart))
    return with_lagging(findings, findings_of(lagging), _step_ns(behind))


def _known(cells: Iterable[SlowCells | None]) -> list[SlowCells]:
    return [cell for cell in cells if cell is not None]


def _step_ns(cells: Sequence[SlowCells]) -> float:
    """The longest usual step of these jobs."""
    return max((cell.normal_ns for cell in cells), default=0.0)


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


def _places(
    cells: Sequence[SlowCells],
    rules: FaultRules,
    bystanders: Sequence[Bystander] = (),
    sign: CellSign = CellSign.SLOW,
) -> list[FittingPlace]:
    """Findings for the places that explain these cells."""
    total = {cell.job: int(cell.sick.sum()) for cell in cells}
    tally = Tally([cell for cell in cells if total[cell.job]], rules, bystanders)
    whole = {cell.job: cell for cell in tally.cells}
    findings: list[FittingPlace] = []
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
            accused = accuse(suspect, tally.cells, whole, rules, sign)
            before = [one.finding for one in findings]
            findings += [one for one in accused if not comes_and_goes_with(before, one.finding, about)]
            together.append(concerned)
        tally.take_away(suspect)
    return _one_per_lanes(findings)


def _one_per_lanes(findings: list[FittingPlace]) -> list[FittingPlace]:
    """Groups of one job that are slow at the same time are the lanes of one tensor-parallel group: one finding."""
    kept: list[FittingPlace] = []
    for one in findings:
        same = (k for k, other in enumerate(kept) if _are_lanes(other.finding, one.finding))
        at = next(same, None)
        if at is None:
            kept.append(one)
            continue
        members = tuple(dict.fromkeys((*kept[at].finding.where.id, *one.finding.where.id)))
        whole = replace(kept[at].finding, where=Where(WhereType.GROUP, members))
        kept[at] = FittingPlace(whole, kept[at].fit + one.fit, min(kept[at].healthy, one.healthy))
    return kept


def _are_lanes(one: Finding, other: Finding) -> bool:
    if one.where.type is not WhereType.GROUP or other.where.type is not WhereType.GROUP or one.job != other.job:
        return False
    return one.start_ns == other.start_ns and one.end_ns == other.end_ns
