"""Collectives that share a link with the activations of a pipeline.

Tied embeddings are reduced between the first and the last stage at the end of every step. With two stages that is the
link of the activations too: a step of it is then a number of equal messages, one per micro-batch, and one large
message. In byte-space the equal messages leave a silence at every multiple of their size, and the large one an arc
without silences. The rows in that arc are the collective's, and must not be counted as activations.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.micro_batches import MAX_MICRO_BATCHES, interior_silences
from llmprism.stats.quantum import equal_parts

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]

__all__ = ["collective_rows"]

MOST_LINKS: Final = 256
"""Links that are looked at one by one; larger jobs have more stages."""

PROBES: Final = 16
"""Links, spread over all, that are looked at first: where the two stages of a pipeline reduce their embeddings, all of
its links do. None of these, none at all."""

MESSAGES_EXPLAIN: Final = 0.6
"""Share of the silence that must lie between equal messages."""

LEAST_VISITED: Final = 0.0
"""No silence is asked of any place: the arc has none."""

VISITED: Final = 0.2
"""Silence at a place relative to the longest one, from which a message ended there."""

ARC: Final = 0.3
"""Share of a step's bytes that the large message takes at least."""

LEAST_PARTS: Final = 6
"""Messages of the activations' size that a step of the link would hold at least; fewer make an arc by chance."""

SAME_SIZE: Final = 0.1
"""Share of a step's bytes by which the large messages of the two directions may differ."""

SAME_TIME: Final = 0.05
"""Share of the step by which their mean moments may differ."""


def collective_rows(transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock) -> Bool:
    """The rows of these links, given as their two pairs, that belong to a large message of every step.

    Both directions must show it, of one size and at the same time, as the two directions of a collective do.
    """
    result = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    if len(links) > MOST_LINKS or clock.steps < 3:
        return result
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    probed = [links[i] for i in np.unique(np.linspace(0, len(links) - 1, min(PROBES, len(links))).astype(int))]
    for link in probed:
        found[link] = _arcs(transfers, link, clock)
    if not any(len(arcs) == 2 for arcs in found.values()):
        return result
    for there, back in links:
        known = found.get((there, back))
        arcs = known if known is not None else _arcs(transfers, (there, back), clock)
        if len(arcs) < 2 or abs((arcs[0][1] - arcs[0][0]) - (arcs[1][1] - arcs[1][0])) > SAME_SIZE:
            continue
        rows = [slice(int(transfers.pair_offsets[p]), int(transfers.pair_offsets[p + 1])) for p in (there, back)]
        inside = [_inside(transfers, own, clock, *arc) for own, arc in zip(rows, arcs, strict=True)]
        when = [_mean_start(transfers, own, mask, clock) for own, mask in zip(rows, inside, strict=True)]
        apart = np.abs(when[0] - when[1])
        if np.isfinite(apart).sum() >= 3 and float(np.nanmedian(apart)) <= SAME_TIME * clock.period_ns:
            for own, mask in zip(rows, inside, strict=True):
                result[own] = mask
    return result


def _arcs(transfers: TransferTable, link: tuple[int, int], clock: StepClock) -> list[tuple[float, float]]:
    """The arcs of both directions; fewer where one has none."""
    return [arc for pair in link if (arc := _arc(transfers, pair, clock)) is not None]


def _mean_start(transfers: TransferTable, rows: slice, mask: Bool, clock: StepClock) -> Float64:
    """Mean start of the masked rows of each step, by bytes; NaN where a step has none."""
    start, size = transfers.start_ns[rows][mask], transfers.bytes[rows][mask].astype(np.float64)
    step = clock.step_at(start)
    start, size, step = start[step >= 0], size[step >= 0], step[step >= 0]
    steps = clock.boundary_ns.size - 1
    total = np.bincount(step, size, minlength=steps)
    moment = np.bincount(step, size * (start - clock.boundary_ns[0]), minlength=steps)
    return np.where(total > 0, moment / np.maximum(total, 1.0), np.nan)


def _arc(transfers: TransferTable, pair: int, clock: StepClock) -> tuple[float, float] | None:
    """Where the large message begins and ends, as shares of the step's bytes (the end may lie beyond 1)."""
    silences = interior_silences(transfers, np.array([pair], dtype=np.int64), clock)
    parts = equal_parts(silences.place, silences.length, MAX_MICRO_BATCHES, MESSAGES_EXPLAIN, LEAST_VISITED)
    if parts is None or parts < LEAST_PARTS:
        return None
    nearest = np.rint(silences.place * parts).astype(np.int64)
    hit = np.abs(silences.place * parts - nearest) <= 0.2
    weight = np.bincount(nearest[hit] % parts, silences.length[hit], minlength=parts)
    visited = np.flatnonzero(weight[1:] >= VISITED * weight[1:].max(initial=0.0)) + 1
    if visited.size < 2:
        return None
    gaps = np.diff(np.append(visited, visited[0] + parts))
    widest = int(np.argmax(gaps))
    size = int(gaps[widest]) - 1  # the last message of the gap is an activation again
    if size < ARC * parts or visited.size < 0.7 * (parts - size):
        return None
    begin = int(visited[widest])
    return begin / parts, (begin + size) / parts


def _inside(transfers: TransferTable, rows: slice, clock: StepClock, begin: float, end: float) -> Bool:
    size, step = transfers.bytes[rows], clock.step_at(transfers.start_ns[rows])
    known = step >= 0
    total = np.bincount(step[known], size[known], minlength=clock.boundary_ns.size - 1)
    before = np.cumsum(size) - size
    first = np.full(clock.boundary_ns.size - 1, np.iinfo(np.int64).max)
    np.minimum.at(first, step[known], before[known])
    index = np.maximum(step, 0)
    place = (before - first[index] + 0.5 * size) / np.maximum(total[index], 1.0)
    inside: Bool = known & (((place > begin) & (place < end)) | (place + 1.0 < end))
    return inside
