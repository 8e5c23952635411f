"""What a layout on a mesh of ranks sends where: the pairs of each of its collectives.

Frameworks number ranks along the axes of a mesh, tensors fastest, then contexts, replicas and stages (Megatron,
DeepSpeed and torch device meshes alike), over servers in their order and the GPUs of each in theirs. So a few degrees
say which pairs every collective takes: stages hand on to the next one, contexts and gradients go round rings (in one
order or several, one way or both) or up and down trees, experts send all to all, and tensor groups that span servers
go round their own ranks. Members of a server that exchange nothing over the network use NVLink; gradients then take one
ring over the servers for each rail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.model.layout import PairKind

__all__ = ["Degrees", "GradientRoute", "Part", "RankMesh"]


@dataclass(frozen=True, slots=True)
class Degrees:
    """Sizes of the axes; `replicas` and `contexts` together are the ranks of one tensor place in a stage. `shards` of
    the replicas share parameters that the others copy (1: all do, or none)."""

    tensors: int
    contexts: int
    replicas: int
    stages: int
    experts: int
    shards: int = 1


@dataclass(frozen=True, slots=True)
class GradientRoute:
    """How gradients are added up: over rings or trees, in these orders. An order goes round as listed (0), backwards
    (1), or takes every second member first (2, 3). Orders of one tuple carry the same bytes, those of the next tuple
    others (a ring may reduce one way round and gather fewer bytes the other)."""

    tree: bool
    orders: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One collective of a layout: how often it takes each pair (`pair` is source times ranks plus destination),
    relative to the others. All of its pairs carry the same bytes each time."""

    kind: PairKind
    pair: Int64
    times: Int64


@dataclass(frozen=True, slots=True)
class RankMesh:
    """`server` numbers the server of each rank; `hidden`: what members of one server send each other does not show.
    `carries` marks the pairs that carry something (source times ranks plus destination), `taken` is the share of the
    pairs of a collective that must; collectives of which less do are None."""

    server: Int64
    hidden: bool
    carries: Bool | None = None
    taken: float = 0.0
    _ways: dict[tuple[int, int, int, bool, int], tuple[Int64, int]] = field(default_factory=dict, repr=False)
    _known: dict[tuple[int, int, int, bool, tuple[int, ...]], Part | None] = field(default_factory=dict, repr=False)

    @property
    def ranks(self) -> int:
        return int(self.server.size)

    def part(self, kind: PairKind, src: Int64, dst: Int64) -> Part | None:
        """The pairs of a collective; None where too few of them carry anything."""
        return self._part_of(kind, [self._way(src, dst)])

    def _way(self, src: Int64, dst: Int64) -> tuple[Int64, int]:
        """The pairs that show, and how many of them carry something."""
        seen = src != dst
        if self.hidden:
            seen &= self.server[src] != self.server[dst]
        pair = src[seen] * self.ranks + dst[seen]
        return pair, pair.size if self.carries is None else int(np.count_nonzero(self.carries[pair]))

    def _part_of(self, kind: PairKind, ways: list[tuple[Int64, int]]) -> Part | None:
        size, carrying = sum(pair.size for pair, _ in ways), sum(count for _, count in ways)
        if size and carrying / size < self.taken:
            return None
        pair, times = np.unique(np.concatenate([pair for pair, _ in ways]), return_counts=True)
        return Part(kind, pair, times // np.gcd.reduce(times) if times.size else times)

    def grid(self, degrees: Degrees) -> Int64:
        """Ranks by stage, replica, context and tensor place."""
        return np.arange(self.ranks).reshape(degrees.stages, degrees.replicas, degrees.contexts, degrees.tensors)

    def sends(self, stages: int) -> Part | None:
        """Activations to the next stage, and their gradients back."""
        ranks = np.arange(self.ranks).reshape(stages, -1)
        return self._both_ways(PairKind.PP, ranks[:-1].ravel(), ranks[1:].ravel())

    def closing(self, stages: int) -> Part | None:
        """Between the last stage and the first: interleaved stages, or the gradients of an embedding they share."""
        ranks = np.arange(self.ranks).reshape(stages, -1)
        return self._both_ways(PairKind.OTHER, ranks[0], ranks[-1])

    def _both_ways(self, kind: PairKind, one: Int64, other: Int64) -> Part | None:
        return self.part(kind, np.concatenate([one, other]), np.concatenate([other, one]))

    def gradients(self, stages: int, tensors: int, route: GradientRoute, shards: int = 1) -> Iterator[Part | None]:
        """The rings or trees over all ranks of a stage that hold the same weights; with `shards` over every rank that
        holds the same part of them."""
        for orders in route.orders:
            key = stages, tensors, shards, route.tree, orders
            if key not in self._known:
                ways = (self._gradient_way(stages, tensors, shards, route.tree, order) for order in orders)
                self._known[key] = self._gradient_part(ways, len(orders) * self.ranks * (1 + route.tree))
            yield self._known[key]

    def _gradient_part(self, ways: Iterable[tuple[Int64, int]], most: int) -> Part | None:
        """The collective of these ways, which have at most so many pairs; the rest of them is not looked at when too
        few pairs can carry anything."""
        known, missing = [], 0
        for pair, carrying in ways:
            known.append((pair, carrying))
            missing += pair.size - carrying
            if missing > (1.0 - self.taken) * most + 1.0:  # one more than rounding could be
                return None
        return self._part_of(PairKind.DP, known)

    def _gradient_way(self, stages: int, tensors: int, shards: int, tree: bool, order: int) -> tuple[Int64, int]:
        """The pairs of the rings or trees in one order. Many routes have it in common, so it is kept."""
        key = stages, tensors, shards, tree, order
        if key not in self._ways:
            cells = np.arange(self.ranks).reshape(stages, -1, shards, tensors).swapaxes(1, 2)
            lanes = self._lanes(cells.reshape(stages * shards, -1, tensors), tree)
            listed = lanes[:, _in_order(lanes.shape[1], order)]
            if tree:
                child = np.arange(1, listed.shape[1])
                up, down = listed[:, child].ravel(), listed[:, (child - 1) // 2].ravel()
                self._ways[key] = self._way(np.concatenate([up, down]), np.concatenate([down, up]))
            else:
                self._ways[key] = self._way(listed.ravel(), np.roll(listed, -1, axis=1).ravel())
        return self._ways[key]

    def _lanes(self, cells: Int64, tree: bool) -> Int64:
        """The ranks (by stage, place in the lane, lane) that gradients go through. With NVLink a server with several
        ranks of a group has one place, and each of them a lane; a tree takes the first of them."""
        stages, places, tensors = cells.shape
        if self.hidden:
            server = self.server[cells[:, :, 0]]
            first = np.concatenate([np.ones((stages, 1), dtype=np.bool_), np.diff(server, axis=1) != 0], axis=1)
            count = first.sum(axis=1)
            per_server = places // int(count[0])
            even = int(count[0]) > 1 and (first == (np.arange(places) % per_server == 0)).all()
            if even and per_server > 1 and per_server * int(count[0]) == places:
                by_server = cells.reshape(stages, -1, per_server, tensors)
                chosen = by_server[:, :, :1] if tree else by_server
                return chosen.reshape(stages, int(count[0]), -1)
        return cells

    def shards(self, tensors: int, shards: int, *, both_ways: bool) -> Iterator[Part | None]:
        """The rings of those that share parameters, one way round or (gathers and scatters of other bytes) both."""
        lanes = self._lanes(np.arange(self.ranks).reshape(-1, shards, tensors), tree=False)
        yield self.part(PairKind.DP, lanes.ravel(), np.roll(lanes, -1, axis=1).ravel())
        if both_ways:
            yield self.part(PairKind.DP, np.roll(lanes, -1, axis=1).ravel(), lanes.ravel())

    def contexts(self, degrees: Degrees) -> Part | None:
        ring = self.grid(degrees)
        return self.part(PairKind.CP, ring.ravel(), np.roll(ring, -1, axis=2).ravel())

    def experts(self, degrees: Degrees) -> Part | None:
        """All to all among neighbouring ranks of one stage and tensor place."""
        cells = np.arange(self.ranks).reshape(degrees.stages, -1, degrees.experts, degrees.tensors)
        src = np.repeat(cells[:, :, :, None, :], degrees.experts, axis=3)
        return self.part(PairKind.EP, src.ravel(), src.swapaxes(2, 3).ravel())

    def expert_gradients(self, degrees: Degrees) -> Part | None:
        """Rings of the ranks that hold the same experts: one of each all-to-all."""
        cells = np.arange(self.ranks).reshape(degrees.stages, -1, degrees.experts, degrees.tensors)
        return self.part(PairKind.DP, cells.ravel(), np.roll(cells, -1, axis=1).ravel())

    def tensors(self, tensors: int) -> Part | None:
        ring = np.arange(self.ranks).reshape(-1, tensors)
        return self.part(PairKind.TP, ring.ravel(), np.roll(ring, -1, axis=1).ravel())


def _in_order(places: int, order: int) -> Int64:
    listed = np.arange(places)
    if order >= 2:
        listed = np.concatenate([listed[::2], listed[1::2]])
    return np.concatenate([listed[:1], listed[:0:-1]]) if order % 2 else listed
