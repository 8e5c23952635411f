"""The collectives that gradients may be added up by.

To add one: a function here that says who sends to whom among the NICs of one lane, and an entry in `COLLECTIVES`. Its
name is then accepted in scenarios (`collective = "..."`), and `rings.Wiring` lays it over servers and rails. How the
members of a lane take turns is the operation's (`ops.OpType`, run by `engine`); rings and trees are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llmprism.sim.ops import INVISIBLE, OpType

__all__ = ["COLLECTIVES", "Collective", "ring_lane", "tree_lane"]

PairOf = Callable[[int, int], int]
"""The number of the pair from one NIC to another."""


@dataclass(frozen=True, slots=True)
class Collective:
    """`lane` makes the pairs of one lane, in the order that the operation expects. `every_rail`: all members of a
    server carry their part on a ring of their own; otherwise the first of them carries everything. `halves`: it can
    also reduce-scatter or gather alone; others use rings for that, as NCCL does."""

    name: str
    type: OpType
    lane: Callable[[PairOf, list[int]], list[int]]
    every_rail: bool = True
    halves: bool = True


def ring_lane(pair: PairOf, nics: list[int]) -> list[int]:
    """From each to the next, from the last to the first."""
    return [pair(a, b) for a, b in zip(nics, nics[1:] + nics[:1], strict=True)]


def tree_lane(pair: PairOf, nics: list[int]) -> list[int]:
    """A binary heap: the parent of position i is (i - 1) // 2; the root has none. First all ways up, then down."""
    up = [pair(nic, nics[(i - 1) // 2]) if i else INVISIBLE for i, nic in enumerate(nics)]
    down = [pair(nics[(i - 1) // 2], nic) if i else INVISIBLE for i, nic in enumerate(nics)]
    return up + down


COLLECTIVES: Final = {
    one.name: one
    for one in (
        Collective("ring", OpType.RING, ring_lane),
        Collective("tree", OpType.TREE, tree_lane, halves=False),
        Collective("hierarchical", OpType.RING, ring_lane, every_rail=False),
    )
}
