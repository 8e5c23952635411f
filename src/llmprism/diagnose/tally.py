"""Which place explains the sick cells of all jobs best, when it was sick, and what is left without it.

A cell is a pair in a step, and is sick, healthy or cannot tell. If a place is sick, most cells through it are; if it is
not, few are, by chance. The logarithm of the ratio of the two likelihoods, summed over the cells of a step, says how
much the step speaks for the place; the stretches of steps where that adds up are when it was sick. A place that is
larger, or explains by a special case (one direction only), must explain more. Jobs in which nothing that passes the
place is sick then speak against it by their healthy cells (`bystanders`).

To take a place away changes what the jobs that pass it say; that of the others is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.bystanders import Bystander
from llmprism.diagnose.passes import INTO, ONE_WAY, OUT_OF, Place, both_ways
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.model.finding import WhereType
from llmprism.stats.segments import best_stretches
from llmprism.stats.stretches import stretches_of

__all__ = ["SickPlace", "Tally", "without"]


@dataclass(frozen=True, slots=True)
class SickPlace:
    """A place, its sick cells, and per job that has them the steps in which it is sick.

    `score` is the logarithm of the odds for it, `rival` the place that would explain most without it, of another name,
    and `rival_score` its odds. `in_series` are links and switches that explain as much because the very same transfers
    pass them, one after the other: no record can tell them apart, so they are no rivals. `well` are the healthy cells
    of jobs in which nothing that passes the place is sick.
    """

    place: Place
    cells: int
    steps: dict[str, Bool]
    score: float = 0.0
    rival: Place | None = None
    rival_score: float = 0.0
    in_series: tuple[Place, ...] = ()
    well: int = 0


ROUNDING: Final = 1e-9
"""Relative slack for the rounding of sums in another order."""


_ON_THE_WAY: Final = (WhereType.LINK, WhereType.SWITCH)
"""Places between the two ends of a path."""


@dataclass(frozen=True, slots=True)
class _Says:
    """What one job says about each of its places: score, sick cells and steps."""

    score: Float64
    cells: Int64
    steps: dict[int, Bool]


class Tally:
    """The cells of some jobs, and how well each place explains them."""

    def __init__(
        self, cells: Sequence[SlowCells], rules: FaultRules = RULES, bystanders: Sequence[Bystander] = ()
    ) -> None:
        self._rules = rules
        self._bystanders = bystanders
        number: dict[Place, int] = {}
        self.cells = list(cells)
        self._numbers = [
            np.array([number.setdefault(place, len(number)) for place in cell.passes.number], dtype=np.int64)
            for cell in cells
        ]
        self._places = tuple(number)
        self._cost = np.array([_cost(place, rules) for place in self._places])
        tried = sum(len(cell.passes.number) * cell.sick.shape[1] for cell in cells)
        self._least = rules.places.sure + log(max(tried, 1))
        self._against = log((1.0 - rules.places.sick_by_chance) / (1.0 - rules.places.sick_while))
        self._chance = [_by_chance(cell, rules) for cell in cells]
        self._says = [_says(cell, chance, rules) for cell, chance in zip(cells, self._chance, strict=True)]

    def best(self) -> SickPlace | None:
        """The place that explains most; None where none is sure."""
        if not self._places:
            return None
        score, cells = np.zeros(len(self._places)), np.zeros(len(self._places), dtype=np.int64)
        for numbers, says in zip(self._numbers, self._says, strict=True):
            score[numbers] += says.score
            cells[numbers] += says.cells
        gain = np.where(cells > 0, score - self._cost, -np.inf)
        well = dict.fromkeys(np.flatnonzero(gain >= self._least).tolist(), 0)
        for number in well:
            well[number] = self._well(self._places[number])
            gain[number] -= self._against * well[number]
        if gain.max() < self._least:
            return None
        same = self._rules.places.same_score
        alike = np.flatnonzero(gain >= gain.max() - same).tolist()
        best = max(alike, key=lambda number: str(self._places[number][1]))
        place = self._places[best]
        steps = {
            cell.job: says.steps[cell.passes.number[place]]
            for cell, says in zip(self.cells, self._says, strict=True)
            if place in cell.passes.number and cell.passes.number[place] in says.steps
        }
        explain = np.flatnonzero((cells > 0) & (np.abs(score - score[best]) <= same)).tolist()
        series = tuple(self._places[other] for other in explain if self._in_series(place, self._places[other]))
        own = {_name(place), *(_name(other) for other in series)}
        others = np.array([_name(other) not in own for other in self._places])
        rival = int(np.argmax(np.where(others, gain, -np.inf)))
        known = bool(others.any()) and np.isfinite(gain[rival])
        return SickPlace(
            place,
            int(cells[best]),
            steps,
            float(gain[best]),
            self._places[rival] if known else None,
            max(float(gain[rival]), 0.0) if known else 0.0,
            series,
            well.get(best, 0),
        )

    def _well(self, place: Place) -> int:
        """Healthy cells of other jobs through a link or switch while it is sick."""
        if place[0] not in _ON_THE_WAY or not self._bystanders:
            return 0
        times: dict[str, list[tuple[int, int]]] = {}
        for cell, says in zip(self.cells, self._says, strict=True):
            sick = says.steps.get(cell.passes.number.get(place, -1))
            for first, after in stretches_of(sick, bridge=0) if sick is not None else ():
                span = int(cell.steps.start_ns[first]), int(cell.steps.end_ns[after - 1])
                times.setdefault(cell.job, []).append(span)
        spans = [span for own in times.values() for span in own]
        return sum(one.healthy_cells(place, spans) for one in self._bystanders if one.job not in times)

    def _in_series(self, place: Place, other: Place) -> bool:
        """Do the same pairs of all jobs pass these two? The first is a link, the other one a link or a switch."""
        if place[0] is not WhereType.LINK or other[0] not in _ON_THE_WAY or _name(place) == _name(other):
            return False
        one, two = both_ways(place), both_ways(other)
        return all(np.array_equal(cell.through(one), cell.through(two)) for cell in self.cells)

    def take_away(self, suspect: SickPlace) -> None:
        """What passes the place while it is sick no longer tells anything."""
        for job, cell in enumerate(self.cells):
            if cell.job in suspect.steps:
                self.cells[job] = without(cell, suspect.place, suspect.steps[cell.job], self._rules)
                self._says[job] = _says(self.cells[job], self._chance[job], self._rules)


def _by_chance(cell: SlowCells, rules: FaultRules) -> float:
    """Share of the cells that are sick while their pair is not in the step before nor in the step after."""
    sick = cell.sick
    adjacent = np.zeros_like(sick)
    adjacent[:, 1:] |= sick[:, :-1]
    adjacent[:, :-1] |= sick[:, 1:]
    alone = int((sick & ~adjacent).sum())
    return min(max(rules.places.sick_by_chance, alone / max(int(cell.known.sum()), 1)), 0.5)


def _says(cell: SlowCells, chance: float, rules: FaultRules) -> _Says:
    pairs, offsets = cell.passes.pairs, cell.passes.offsets[:-1]
    score, cells = np.zeros(offsets.size), np.zeros(offsets.size, dtype=np.int64)
    steps: dict[int, Bool] = {}
    busy = np.flatnonzero(cell.sick.any(axis=0))
    if not pairs.size or not busy.size:
        return _Says(score, cells, steps)
    sick, known = np.where(cell.sick, cell.weight, 0.0), np.where(cell.known, cell.weight, 0.0)
    bad = np.add.reduceat(sick[pairs][:, busy], offsets, axis=0)
    against = _against(cell, known[:, busy], sick[:, busy], chance, rules)
    says = _weighed(cell, sick, known, against, chance, rules)
    speaks = np.add.reduceat(says[pairs], offsets, axis=0)
    speaks += _queued(cell, known - sick, against, chance, rules)
    lasts = cell.weight.max(axis=0)
    few = _few_hops(cell, rules)
    worth = np.maximum(speaks, 0.0).sum(axis=1) > (1.0 - ROUNDING) * rules.places.price  # no stretches add up to more
    for place in np.flatnonzero(worth & ~few).tolist():
        whole = speaks[place]
        for first, after, points in best_stretches(whole, rules.places.price):
            if lasts[first:after].sum() < rules.places.sick_steps:
                continue  # a dip of one step is nobody's fault
            score[place] += points - rules.places.price
            steps.setdefault(place, np.zeros(whole.size, dtype=np.bool_))[first:after] = True
        if place in steps:
            cells[place] = int(bad[place][steps[place][busy]].sum())
    for place in _rather_cards(cell, score):
        score[place], cells[place] = 0.0, 0
        steps.pop(place, None)
    return _Says(score, cells, steps)


def _weighed(
    cell: SlowCells, sick: Float64, known: Float64, against: Float64, chance: float, rules: FaultRules
) -> Float64:
    """What each cell says for the places that its pair passes: by the odds of its pair's own past, where these are
    known, else as sick cells do, or healthy ones. A pair that speaks less against a place does so by its own odds,
    too."""
    rule = rules.places
    says: Float64 = log(rule.sick_while / chance) * sick + against[:, None] * (known - sick)
    if cell.odds is None:
        return says
    full = log((1.0 - rule.sick_while) / (1.0 - chance))
    own = np.where(cell.odds < 0.0, cell.odds * (against / full)[:, None], cell.odds)
    return np.where(np.isfinite(own) & (known > 0.0), own * known, says)


def _rather_cards(cell: SlowCells, score: Float64) -> list[int]:
    """Groups of tensor-parallel ranks, by number, that explain no more than one card of each of their lanes: then the
    ranks of one server are slow, and not the group."""
    number, found = cell.passes.number, []
    for together, lanes in cell.passes.lanes.items():
        if together not in number:
            continue
        cards = [
            max((float(score[number[WhereType.NIC, name]]) for name in names if (WhereType.NIC, name) in number),
                default=0.0)
            for _, names in lanes
        ]  # fmt: skip
        if sum(cards) >= score[number[together]]:
            found.append(number[together])
    return found


def _against(cell: SlowCells, known: Float64, sick: Float64, chance: float, rules: FaultRules) -> Float64:
    """What a healthy cell of each pair speaks against the places that it passes, given the cells of the steps in which
    anything is sick. Whether a throttle lets the small messages of a pair pass depends on how much it saves, and that
    is the same in every step: if none of them is ever slow, all of them together are hardly more than one witness."""
    rule = rules.places
    against: Float64 = np.log((1.0 - cell.shows) / (1.0 - chance))
    never = (cell.shows < rule.sick_while) & (sick.sum(axis=1) == 0.0)
    each = -rule.small_witness / np.maximum(known.sum(axis=1), 1.0)
    return np.where(never, np.maximum(against, each), against)


def _queued(cell: SlowCells, healthy: Float64, against: Float64, chance: float, rules: FaultRules) -> Float64:
    """What healthy cells of small messages speak less against places that only receive, per place and step: such
    messages wait in the queue before it, where no record shows it."""
    pairs, offsets, rule = cell.passes.pairs, cell.passes.offsets[:-1], rules.places
    small = cell.shows < rule.sick_while
    each = log((1.0 - rule.queued_sick_while) / (1.0 - chance))
    less = np.where(small, np.maximum(each - against, -rule.queued_witness * against), 0.0)
    receives = np.array([isinstance(name, tuple) and name[-1] == INTO for _, name in cell.passes.number])
    if not small.any() or not receives.any():
        return np.zeros((offsets.size, healthy.shape[1]))
    more = np.add.reduceat((np.maximum(less, 0.0)[:, None] * healthy)[pairs], offsets, axis=0)
    return np.where(receives[:, None], more, 0.0)


def _few_hops(cell: SlowCells, rules: FaultRules) -> Bool:
    """Groups of which so few pairs are sick that it is rather one of their ends."""
    few = np.zeros(len(cell.passes.number), dtype=np.bool_)
    sick: Bool = np.asarray(cell.sick.any(axis=1))
    for (where, _), number in cell.passes.number.items():
        if where is WhereType.GROUP:
            ring = cell.passes.pairs[cell.passes.offsets[number] : cell.passes.offsets[number + 1]]
            few[number] = sick[ring].sum() < max(2.0, rules.places.group_pairs * ring.size)
    return few


def _name(place: Place) -> tuple[WhereType, str | frozenset[str]]:
    """The same for all directions of a place."""
    where, name = place
    if isinstance(name, str):
        return where, name
    ends = frozenset(name) - {ONE_WAY, OUT_OF, INTO}
    return where, next(iter(ends)) if where is WhereType.NIC else ends


def _cost(place: Place, rules: FaultRules) -> float:
    """Smaller for a likelier place: of two that explain the same the likelier one is named."""
    where, name = place
    way = name[-1] if isinstance(name, tuple) else ""
    rule = rules.places
    costs = {
        WhereType.NIC: rule.nic_cost,
        WhereType.LINK: rule.link_cost,
        WhereType.SWITCH: rule.switch_cost,
        WhereType.GROUP: rule.group_cost,
    }
    one_way = {ONE_WAY: rule.one_way_cost, OUT_OF: rule.sends_cost, INTO: rule.receives_cost}
    return costs[where] + one_way.get(way, 0.0)


def without(cell: SlowCells, place: Place, steps: Bool, rules: FaultRules) -> SlowCells:
    """The cells that do not pass the place then, do not wait in a ring with one that does, and are not so much faster
    that they explain less than what is worth a finding."""
    through = cell.through(place)
    gone = through[:, None] & steps[None, :]
    sick = gone & cell.sick
    for where, name in cell.passes.number:
        if where is not WhereType.GROUP or (where, name) in cell.passes.lanes:
            continue
        ring = cell.passes.through((where, name))
        pace = np.where(sick[ring], cell.rate[ring], np.inf).min(axis=0)
        gone[ring] |= cell.sick[ring] & (cell.rate[ring] >= rules.places.waits * pace[None, :])
    slowest = np.where(sick, cell.rate, np.inf).min(axis=0)
    gone |= cell.sick & (rules.places.loss * cell.rate >= slowest[None, :])  # that explains next to nothing of the loss
    return replace(cell, sick=cell.sick & ~gone, known=cell.known & ~gone)
