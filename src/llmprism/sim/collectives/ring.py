"""Rings: over every rail, or over the first NIC of each server alone."""

from __future__ import annotations

from typing import Final

from llmprism.sim.collectives.collective import Collective, PairOf
from llmprism.sim.ops import OpType

__all__ = ["HIERARCHICAL", "RING", "ring_lane"]


def ring_lane(pair: PairOf, nics: list[int]) -> list[int]:
    """From each to the next, from the last to the first."""
    return [pair(a, b) for a, b in zip(nics, nics[1:] + nics[:1], strict=True)]


RING: Final = Collective("ring", OpType.RING, ring_lane)
HIERARCHICAL: Final = Collective("hierarchical", OpType.RING, ring_lane, every_rail=False)
