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

from llmprism.diagnose.accused_place import accuse
from llmprism.diagnose.bystanders import Bystander
from llmprism.diagnose.place_signs import CellSign
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.diagnose.slow_place_merge import (
    SuspectedPlace,
    as_second,
    comes_and_goes_with,
    one_per_cause,
    one_per_lanes,
    without_rings_that_wait,
)
from llmprism.diagnose.tally import Tally, without
from llmprism.model.finding import Finding, WhereType

__all__ = ["find_slow_places", "suspected_places"]


def find_slow_places(cells: Sequence[SlowCells], rules: FaultRules = RULES) -> list[Finding]:
    """Findings for the places that explain the sick cells of all jobs, by any sign: messages that are slow, held back,
    broken up or lag behind, and bytes that were sent again. Jobs without sick cells speak as bystanders."""
    suspects = suspected_places(cells, rules)
    return one_per_cause(suspects, _last_ns(cells), rules)


def suspected_places(cells: Sequence[SlowCells], rules: FaultRules = RULES) -> list[SuspectedPlace]:
    """The places that each sign alone speaks for, measured ones first.

    Next to a slow GPU all messages of one card come late and at once: a card is no place that lags behind. Nor is a
    group one where bytes are sent again: its members have no cable in common."""
    near = [cell.bystander for cell in cells if cell.bystander is not None]
    held = _known(cell.held_back(rules) for cell in cells)
    both = _known(cell.by_both_signs(rules) for cell in cells)
    again = _known(cell.lossy(rules) for cell in cells)
    apart = _known(cell.broken_up(rules) for cell in cells)
    behind = _known(cell.lagging(rules) for cell in cells)
    return [
        *_places(cells, rules, near),
        *_places(again, _behind_the_exporter(rules), near, CellSign.RESENT),
        *_places(held, _behind_a_queue(rules), near, CellSign.QUEUED),
        *_places(both, _at_one_card(rules), near, CellSign.BOTH),
        *without_rings_that_wait(_places(apart, rules, near, CellSign.BROKEN), rules),
        *(one for one in _places(behind, rules, near, CellSign.LAGGING) if one.finding.where.type is not WhereType.NIC),
    ]


def _known(cells: Iterable[SlowCells | None]) -> list[SlowCells]:
    return [cell for cell in cells if cell is not None]


def _behind_the_exporter(rules: FaultRules) -> FaultRules:
    """What is lost before the exporter has counted it is counted once: bytes that are sent again were lost behind it,
    on the receiver's side."""
    rule = rules.places
    sends, receives = rule.resent_sends_cost, rule.resent_receives_cost
    behind = replace(rule, sends_cost=sends, receives_cost=receives, group_cost=inf)
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
) -> list[SuspectedPlace]:
    """Findings for the places that explain these cells, the most explaining first. What a likely one explains does not
    speak against the next ones."""
    tally = Tally([cell for cell in cells if cell.sick.any()], rules, bystanders)
    whole = {cell.job: cell for cell in tally.cells}
    unexplained, end = dict(whole), _last_ns(cells)
    findings: list[SuspectedPlace] = []
    likely: list[SuspectedPlace] = []
    for _ in range(rules.places.most_places):
        suspect = tally.best()
        if suspect is None:
            break
        if suspect.cells >= rules.places.sick_cells:
            about = [cell for cell in tally.cells if cell.job in suspect.steps]
            accused = accuse(suspect, tally.cells, whole, unexplained, rules, sign)
            accused = [as_second(one, likely, end, rules) for one in accused]
            before = [one.finding for one in findings if one.finding.confidence >= rules.trust.worth_a_look]
            findings += [one for one in accused if not comes_and_goes_with(before, one.finding, about)]
            now = [one for one in accused if one.finding.confidence >= rules.trust.likely]
            likely += now
            for job, steps in suspect.steps.items() if now else ():
                unexplained[job] = without(unexplained[job], suspect.place, steps, rules)
        tally.take_away(suspect)
    whole_groups = one_per_lanes(findings, rules)
    return [one for one in whole_groups if one.finding.confidence >= rules.trust.worth_a_look]


def _last_ns(cells: Sequence[SlowCells]) -> int:
    """When the last step ends."""
    return max((int(cell.steps.end_ns[-1]) for cell in cells if cell.steps.count), default=0)
