"""Sick and healthy cells of every place over all jobs: the place that explains most, and what is left without it.

To take a place away changes the counts of the jobs that pass it only; those of the others are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from llmprism.diagnose.passes import ONE_WAY, Place
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.model.finding import WhereType
from llmprism.model.flows import Int64

__all__ = ["Tally"]

SICK_SHARE: Final = 0.6
"""Share of a place's cells that are sick while it is."""

WHILE_SICK: Final = 0.25
"""Share of a place's cells of one step from which the place may be sick then: below it one of its pairs has another
reason."""

_SIZE: Final = {WhereType.NIC: 0, WhereType.LINK: 1, WhereType.GROUP: 3, WhereType.SWITCH: 4}


class Tally:
    """The cells of some jobs, and per place how many are sick and how many healthy while it is."""

    def __init__(self, cells: Sequence[SlowCells]) -> None:
        number: dict[Place, int] = {}
        self.cells = list(cells)
        self._numbers = [
            np.array([number.setdefault(place, len(number)) for place in cell.passes.number], dtype=np.int64)
            for cell in cells
        ]
        self._places = tuple(number)
        self._counts = [_counts(cell) for cell in cells]
        self._sick, self._healthy = (np.zeros(len(number), dtype=np.int64) for _ in range(2))
        for job in range(len(self.cells)):
            self._add(job, 1)

    def best(self) -> tuple[Place, int, set[str]] | None:
        """The place that explains most, its sick cells, and the jobs that have them there. Ties: the smallest place.

        What counts are sick cells through it minus healthy ones while it is sick.
        """
        fits = (self._sick > 0) & (self._sick >= SICK_SHARE * (self._sick + self._healthy))
        if not fits.any():
            return None
        gain = self._sick - self._healthy
        first = np.flatnonzero(fits & (gain == gain[fits].max())).tolist()
        best = max(first, key=lambda number: _smallest(self._places[number]))
        place = self._places[best]
        passing = ((cell, sick) for cell, (sick, _) in zip(self.cells, self._counts, strict=True))
        jobs = {c.job for c, sick in passing if place in c.passes.number and sick[c.passes.number[place]]}
        return place, int(self._sick[best]), jobs

    def take_away(self, place: Place) -> None:
        """What passes the place is no longer sick."""
        for job, cell in enumerate(self.cells):
            if place in cell.passes.number:
                self._add(job, -1)
                self.cells[job] = _without(cell, place)
                self._counts[job] = _counts(self.cells[job])
                self._add(job, 1)

    def _add(self, job: int, times: int) -> None:
        sick, healthy = self._counts[job]
        self._sick[self._numbers[job]] += times * sick
        self._healthy[self._numbers[job]] += times * healthy


def _counts(cell: SlowCells) -> tuple[Int64, Int64]:
    """Per place of a job its sick and its healthy cells, over the steps in which a good share of its pairs is sick."""
    pairs, offsets = cell.passes.pairs, cell.passes.offsets[:-1]
    if not pairs.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    busy = cell.sick.any(axis=0)
    bad = np.add.reduceat(cell.sick[pairs][:, busy], offsets, axis=0, dtype=np.int64)
    known = np.add.reduceat(cell.known[pairs][:, busy], offsets, axis=0, dtype=np.int64)
    while_sick = bad >= np.maximum(WHILE_SICK * known, 1)
    return (bad * while_sick).sum(axis=1), ((known - bad) * while_sick).sum(axis=1)


def _smallest(place: Place) -> tuple[int, str]:
    """Largest for the smallest place: of two that explain the same, the smaller one is named."""
    where, name = place
    size = _SIZE[where] + int(where is WhereType.LINK and name[-1] == ONE_WAY)
    return -size, str(name)


def _without(cell: SlowCells, place: Place) -> SlowCells:
    sick = cell.sick.copy()
    sick[cell.through(place)] = False
    return replace(cell, sick=sick)
