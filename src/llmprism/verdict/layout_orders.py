"""What the layout of a job says about the order of its ranks.

Frameworks number ranks along the axes of a mesh: the stage of a rank, and its place among its replicas, is a digit of
its number. Rings lead from each rank to the next (gloo, and NCCL from host to host), one way or the other. So an order
of launchers in which stages, groups or rings would be irregular is unlikely. Where hosts are in no order, as pods of
Kubernetes are, stages and rings alone name a few orders. Which rank a ring begins with they do not say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from llmprism.model.layout import JobLayout

__all__ = ["NO_SIGNS", "MeshSigns", "mesh_signs"]


@dataclass(frozen=True, slots=True)
class MeshSigns:
    """`pipelines` are addresses in the order of stages, `groups` those of each group, `rings` of those whose order is
    known. `sure` is how sure it is who belongs where."""

    pipelines: tuple[tuple[str, ...], ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    rings: tuple[tuple[str, ...], ...] = ()
    sure: float = 0.0

    def support(self, order: Sequence[str], irregular: float) -> float:
        """How much likelier these stages, groups and rings are if ranks sit in this order than if in any.

        What is regular in it counts for as much as it would seldom be so by chance, 1 / `irregular` at most; what is
        not, `irregular` or how unsure the layout is.
        """
        place = {address: number for number, address in enumerate(order)}
        stage = {address: at for pipeline in self.pipelines for at, address in enumerate(pipeline)}
        known = all(address in place for group in self.groups for address in group)
        if not known or (stage and set(stage) != set(place)):
            return 1.0
        signs: list[tuple[bool, float]] = []
        depth = len(self.pipelines[0]) if stage else 1
        if depth > 1:
            regular = _is_digit([stage[address] for address in order], depth)
            signs.append((regular, _ways(len(order), [len(self.pipelines)] * depth)))
        if self.groups:
            regular = _evenly_apart([sorted(place[address] for address in group) for group in self.groups])
            sizes = [len(group) for group in self.groups]
            signs.append((regular, 0.0 if stage else _ways(len(order), sizes) - math.lgamma(len(sizes) + 1)))
        if self.rings:
            regular = all(_goes_round([place[address] for address in ring]) for ring in self.rings)
            signs.append((regular, math.lgamma(max(map(len, self.rings))) - math.log(2)))
        floor, most = max(irregular, 1.0 - self.sure), -math.log(irregular)
        return math.prod(math.exp(min(max(ways, 0.0), most)) if good else floor for good, ways in signs)

    def orders(self, first: Sequence[str], most: int) -> list[tuple[str, list[str]]]:
        """Orders that stages and rings name by themselves (name, addresses by rank); where they leave open which of
        several replicas comes first, it is taken as in the order `first`. None where they name more than `most`."""
        members, found = set(first), []
        if 4 * max(map(len, self.rings), default=0) > most:
            return []
        if self.pipelines and {one for pipeline in self.pipelines for one in pipeline} == members:
            for replicas in self._ordered_pipelines(first):
                by_stage = [pipeline[at] for at in range(len(replicas[0])) for pipeline in replicas]
                found.append(("of the stages", by_stage))
                found.append(("of the stages within each replica", [one for pipeline in replicas for one in pipeline]))
        elif len(self.rings) == 1 and set(self.rings[0]) == members:
            found = [("of the ring", list(turned)) for turned in _turns(self.rings[0])]
        return found

    def _ordered_pipelines(self, first: Sequence[str]) -> Iterator[list[tuple[str, ...]]]:
        """The pipelines in every order that the ring of their first stages may have."""
        begins = {pipeline[0]: pipeline for pipeline in self.pipelines}
        ring = next((ring for ring in self.rings if set(ring) == set(begins)), None)
        for turned in _turns(ring) if ring else [tuple(one for one in first if one in begins)]:
            yield [begins[address] for address in turned]


NO_SIGNS: Final = MeshSigns()
"""Of a job whose layout is not known."""


def mesh_signs(layout: JobLayout, addresses: Sequence[str]) -> MeshSigns:
    """The signs of a layout; `addresses` are the names of all address ids. Pipelines of different lengths are none."""

    def named(members: Sequence[int]) -> tuple[str, ...]:
        return tuple(addresses[member] for member in members)

    even = len({len(pipeline) for pipeline in layout.pipelines}) == 1
    once = len({member for pipeline in layout.pipelines for member in pipeline}) == sum(map(len, layout.pipelines))
    pipelines = tuple(named(pipeline) for pipeline in layout.pipelines) if even and once else ()
    groups = tuple(named(group.members) for group in layout.groups)
    rings = tuple(named(group.members) for group in layout.groups if group.ring)
    return MeshSigns(pipelines, groups, rings, layout.peers_confidence)


def _turns(ring: Sequence[str]) -> list[tuple[str, ...]]:
    """The ring from each of its members on, both ways."""
    ways = (tuple(ring), tuple(reversed(ring)))
    return [way[at:] + way[:at] for way in ways for at in range(len(ring))]


def _ways(count: int, sizes: Sequence[int]) -> float:
    """The logarithm of in how many ways so many members can be dealt out to parts of these sizes."""
    left = max(count - sum(sizes), 0)
    return math.lgamma(count + 1) - sum(math.lgamma(size + 1) for size in (*sizes, left))


def _is_digit(values: Sequence[int], base: int) -> bool:
    """Whether values[i] = (i // stride) % base for one stride."""
    strides = (stride for stride in range(1, len(values) // base + 1) if len(values) % (stride * base) == 0)
    return any(all(value == i // stride % base for i, value in enumerate(values)) for stride in strides)


def _evenly_apart(places: Sequence[Sequence[int]]) -> bool:
    """Whether each group's places are the same distance apart, the same in groups of one size."""
    by_size: dict[int, set[int]] = {}
    for group in places:
        by_size.setdefault(len(group), set()).update(after - before for before, after in pairwise(group))
    return all(len(distances) <= 1 for distances in by_size.values())


def _goes_round(ring: Sequence[int]) -> bool:
    """Whether the places rise, or fall, all the way round but once."""
    rises = sum(after > before for before, after in zip(ring, [*ring[1:], ring[0]], strict=True))
    return rises in (1, len(ring) - 1)
