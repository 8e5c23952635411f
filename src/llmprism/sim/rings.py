"""Who talks to whom in an exchange, and which of it shows on the network.

Members of one server reach each other over NVLink where the cluster has it. Then a reduction over several members per
server runs as one ring over the servers per rail: each member's NIC carries its share (`split` is their number).
Where the servers hold different numbers of members, one ring goes through all members in order and only its hops
between servers show.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from llmprism.sim.collectives import COLLECTIVES
from llmprism.sim.collectives.collective import Collective
from llmprism.sim.collectives.ring import ring_lane
from llmprism.sim.ops import INVISIBLE, OpType, PairTable
from llmprism.sim.simulated_cluster import SimulatedCluster

__all__ = ["Exchange", "Wiring", "in_order"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Exchange:
    """Lanes of pair ids; what a lane holds depends on the type.

    Ring: the pair from position i to i + 1 (the last to the first). Tree: the pair from position i to its parent, then
    from the parent to i. All to all: the pair from i to j at `i * width + j`. Send, storage: one pair.
    `slot_of` maps a cell to its position; `split` is the number of lanes that share a lane's bytes.
    """

    type: OpType
    width: int
    lanes: list[list[int]]
    slot_of: dict[int, int]
    split: int = 1
    flags: int = 0


@dataclass(slots=True)
class Wiring:
    cluster: SimulatedCluster
    pairs: PairTable
    nics_of_cell: dict[int, list[int]]
    job: int
    connections: int
    chunk_bytes: int
    _reductions: dict[tuple[str, tuple[int, ...], int], Exchange] = field(default_factory=dict)

    def pair(self, src: int, dst: int) -> int:
        if src == dst:
            return INVISIBLE
        if self.cluster.spec.nvlink and self.cluster.server_of(src) == self.cluster.server_of(dst):
            return INVISIBLE
        return self.pairs.add(src, dst, self.job, self.connections, self.chunk_bytes)

    def send(self, src: int, dst: int) -> Exchange:
        lanes = [[self.pair(a, b)] for a, b in zip(self.nics_of_cell[src], self.nics_of_cell[dst], strict=True)]
        return Exchange(OpType.SEND, 1, lanes, {src: 0})

    def storage(self, cell: int, read: bool, turn: int = 0) -> Exchange:
        """The first GPU of a cell and a storage node that serves it, the `turn`-th of those that do."""
        nic = self.nics_of_cell[cell][0]
        node = self.cluster.storage[(cell + turn) % len(self.cluster.storage)]
        ends = (node, nic) if read else (nic, node)
        lane = [self.pairs.add(*ends, self.job, 1, 1 << 22)]
        return Exchange(OpType.STORAGE, 1, [lane], {cell: 0})

    def inside_cell(self, cell: int) -> Exchange:
        """A ring over the GPUs of one tensor-parallel group that spans servers."""
        nics = self.nics_of_cell[cell]
        return Exchange(OpType.RING, len(nics), [ring_lane(self.pair, nics)], {cell: 0})

    def snake(self, cells: list[int]) -> Exchange:
        """One ring through all cells in order, per lane."""
        return self._through(cells, COLLECTIVES["ring"])

    def _through(self, cells: list[int], collective: Collective) -> Exchange:
        """One lane over all cells for each of their NICs."""
        lanes = [
            collective.lane(self.pair, [self.nics_of_cell[cell][t] for cell in cells])
            for t in range(self._lanes(cells))
        ]
        return Exchange(collective.type, len(cells), lanes, {cell: i for i, cell in enumerate(cells)})

    def all_to_all(self, cells: list[int]) -> Exchange:
        lanes = []
        for t in range(self._lanes(cells)):
            nics = [self.nics_of_cell[cell][t] for cell in cells]
            lanes.append([self.pair(a, b) for a in nics for b in nics])
        return Exchange(OpType.ALL_TO_ALL, len(cells), lanes, {cell: i for i, cell in enumerate(cells)})

    def reduction(self, cells: list[int], algorithm: str, order: int = 0) -> Exchange:
        """Who sends to whom when these cells add up: `order` 0 goes round as listed, odd ones go the other way."""
        key = (algorithm, tuple(cells), order)
        if key not in self._reductions:
            self._reductions[key] = self._reduction(cells, algorithm, order)
        return self._reductions[key]

    def _reduction(self, cells: list[int], algorithm: str, order: int) -> Exchange:
        collective, by_server = COLLECTIVES[algorithm], self._by_server(cells)
        sizes = {len(group) for group in by_server}
        if len(by_server) < 2 or len(sizes) > 1:
            return self._through(in_order(cells, order), collective)
        by_server = in_order(by_server, order)
        slot_of = {cell: i for i, group in enumerate(by_server) for cell in group}
        rails = len(by_server[0]) if collective.every_rail else 1
        lanes = [
            collective.lane(self.pair, [self.nics_of_cell[group[rail]][t] for group in by_server])
            for rail in range(rails)
            for t in range(self._lanes(cells))
        ]
        return Exchange(collective.type, len(by_server), lanes, slot_of, split=rails)

    def _by_server(self, cells: list[int]) -> list[list[int]]:
        if not self.cluster.spec.nvlink:
            return [[cell] for cell in cells]
        groups: dict[int, list[int]] = {}
        for cell in cells:
            groups.setdefault(self.cluster.server_of(self.nics_of_cell[cell][0]), []).append(cell)
        return list(groups.values())

    def _lanes(self, cells: list[int]) -> int:
        return len(self.nics_of_cell[cells[0]])


def in_order(items: list[T], order: int) -> list[T]:
    """The items as a ring of that number goes through them: as they are, every second first, and both backwards."""
    if order % 4 >= 2:
        items = items[::2] + items[1::2]
    return items[:1] + items[:0:-1] if order % 2 else items
