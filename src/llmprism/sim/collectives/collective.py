"""What a collective for gradients is: who sends to whom among the NICs of one lane, and how much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmprism.sim.ops import OpType

__all__ = ["Collective", "PairOf", "ring_volume"]

PairOf = Callable[[int, int], int]
"""The number of the pair from one NIC to another."""


def ring_volume(size: float, members: int, half: bool) -> float:
    """What each member of a ring sends of gradients of this size: once round to add up, once more to hand out."""
    return size * (members - 1) / members * (1 if half else 2)


@dataclass(frozen=True, slots=True)
class Collective:
    """`lane` makes the pairs of one lane, in the order that the operation expects. `volume` says how many
    bytes each member sends: of gradients of a size, among so many members, where only one half (to reduce and scatter,
    or to gather) is done or both.
    `every_rail`: all members of a server carry their part on a ring of their own; otherwise the first of them carries
    everything. `halves`: it can also reduce-scatter or gather alone; others use rings for that, as NCCL does."""

    name: str
    type: OpType
    lane: Callable[[PairOf, list[int]], list[int]]
    volume: Callable[[float, int, bool], float] = ring_volume
    every_rail: bool = True
    halves: bool = True
