"""What the bytes of all pairs say about a layout that was found: how near the next one is that says the same of them.

A composition (`composition`) has several readings: layouts that take the same pairs for every collective, or nearly the
same. Moments decided between them, and moments are sometimes wrong where bytes are not. So each reading near the best
one counts against the layout, the less the more bits it is behind and the rarer what it claims is. A layout that is no
reading of any composition, or a job whose bytes no composition explains, says that something is overlooked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.model.flows import TransferTable
from llmprism.model.layout import JobLayout
from llmprism.parallelism.composed import near_best, own_bits, price_of
from llmprism.parallelism.composition import Explanations, Reading
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["OtherReadings", "other_readings"]

_Degrees = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class OtherReadings:
    """`explained` is the share of the pairs whose bytes the best composition predicts (0: there is none; 1 as well
    where the layout explains them so well that others were not tried), `behind` the bits by which the best one is ahead
    of any of which the layout is a reading, and of what the passes said. `share` is what is left for the layout among
    all readings near the best (None: they were not looked for), `others` are those by their degrees (tensors, stages,
    replicas, experts, contexts) with their shares."""

    explained: float = 0.0
    behind: float = 0.0
    share: float | None = None
    others: tuple[tuple[_Degrees, float], ...] = ()


def other_readings(
    explained: Explanations, transfers: TransferTable, said: JobLayout, rules: LayoutRules = RULES
) -> OtherReadings:
    """The readings that compete with this layout."""
    near = near_best(explained, rules)
    if not near:
        return OtherReadings(float(explained.said_bits > 0.0))
    best, layout = near[0][0], said.layout
    own = max(own_bits(explained, transfers, said, rules), explained.said_bits)
    stated = layout.tp, layout.pp, layout.dp, layout.ep or 1, layout.cp or 1
    worth: dict[_Degrees, float] = {}
    for one, reading in near:
        degrees = _degrees_of(reading)
        worth[degrees] = max(worth.get(degrees, -np.inf), one.bits - price_of(reading, layout, rules))
    others = {degrees: bits for degrees, bits in worth.items() if degrees != stated}
    level = max(own, *(bits for bits in worth.values()))
    scale = rules.confidence.reading_bits
    odds = {degrees: float(np.exp((bits - level) / scale)) for degrees, bits in others.items()}
    stands = float(np.exp((own - level) / scale))
    total = stands + sum(odds.values())
    listed = sorted(((degrees, one / total) for degrees, one in odds.items()), key=lambda it: -it[1])
    return OtherReadings(best.fitted, max(best.bits - own, 0.0), stands / total, tuple(listed))


def _degrees_of(reading: Reading) -> _Degrees:
    degrees = reading.degrees
    return degrees.tensors, degrees.stages, degrees.replicas, degrees.experts, degrees.contexts
