"""Which pairs carry training traffic.

Five kinds of traffic must not glue jobs together:

* *chatter*: bootstrap, store and heartbeat messages, monitoring meshes: small messages, a vanishing share of what the
  two ends move otherwise;
* *weak links*: a GPU reads its samples from many servers, at a thousandth of what it trains with. A link that does not
  matter to one of its ends says nothing about who belongs together; what trains together shows it by stepping together;
* *nobody's partner*: everyone who trains is the busiest partner of somebody (in a ring, a tree, a chain or an
  all-to-all what one end carries the other does), a server of files of nobody who trains;
* *unbalanced nodes*: a training server sends about as much as it receives (a ring passes on what it gets, an activation
  is answered by a gradient, an all-to-all is symmetric); a server that only reads or only writes does not;
* *hubs and fans*: servers that many nodes talk to which do not talk to each other.

Outsiders are taken away one kind after the other, the surest first, and the others are judged without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from llmprism.arrays import Bool, Float64, Int32, Int64
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.topology import Topology
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.stats.robust import segment_medians

__all__ = ["NodePlaces", "PairEnds", "PairTraffic", "bulk_pairs", "outside_nodes", "pair_traffic", "strong_pairs"]


class PairEnds(Protocol):
    """Directed pairs between addresses: a table of transfers, or pairs alone."""

    @property
    def addresses(self) -> tuple[str, ...]: ...
    @property
    def pair_src(self) -> Int32: ...
    @property
    def pair_dst(self) -> Int32: ...


@dataclass(frozen=True, slots=True)
class PairTraffic:
    """Totals per directed pair. The times bound its messages; heartbeats, where it sends nothing else."""

    bytes: Int64
    largest: Int64
    first_ns: Int64
    last_ns: Int64


def pair_traffic(transfers: TransferTable, rules: RecognitionRules = RULES) -> PairTraffic:
    offsets = transfers.pair_offsets
    if transfers.pair_count == 0:
        none = np.zeros(0, dtype=np.int64)
        return PairTraffic(none, none, none, none)
    starts = offsets[:-1]
    largest = np.maximum.reduceat(transfers.bytes, starts)
    only_chatter = np.repeat(largest < rules.message_bytes, np.diff(offsets))
    counted = only_chatter | (transfers.bytes >= MESSAGE_FLOOR_BYTES)
    return PairTraffic(
        np.add.reduceat(transfers.bytes, starts),
        largest,
        np.minimum.reduceat(np.where(counted, transfers.start_ns, np.iinfo(np.int64).max), starts),
        np.maximum.reduceat(np.where(counted, transfers.end_ns, -1), starts),
    )


def bulk_pairs(pairs: PairEnds, traffic: PairTraffic, rules: RecognitionRules = RULES) -> Bool:
    """Pairs that are not chatter: with messages of some size, or small ones that add up to a good share of what both
    ends move in such messages otherwise."""
    large: Bool = traffic.largest >= rules.message_bytes
    less, _ = _busiest_of_ends(pairs, traffic.bytes)
    fewer, more = _busiest_of_ends(pairs, np.where(large, traffic.bytes, 0))
    small = (traffic.largest >= rules.small_message_bytes) & (fewer > 0)
    many_small: Bool = small & (traffic.bytes >= rules.small_messages_share * more)
    return many_small | (large & (traffic.bytes >= rules.chatter_share * less))


def _busiest_of_ends(pairs: PairEnds, size: Int64) -> tuple[Int64, Int64]:
    """For each pair the bytes of the busiest pair of its less busy end, and of its busier end."""
    busiest = np.zeros(len(pairs.addresses), dtype=np.int64)
    np.maximum.at(busiest, pairs.pair_src, size)
    np.maximum.at(busiest, pairs.pair_dst, size)
    one, other = busiest[pairs.pair_src], busiest[pairs.pair_dst]
    return np.minimum(one, other), np.maximum(one, other)


def strong_pairs(pairs: PairEnds, traffic: PairTraffic, bulk: Bool, rules: RecognitionRules = RULES) -> Bool:
    """Bulk pairs whose link (both directions together) matters to both of its ends."""
    low, high, volume, link_of = _links(pairs, traffic, bulk)
    busiest = np.zeros(len(pairs.addresses))
    np.maximum.at(busiest, low, volume)
    np.maximum.at(busiest, high, volume)
    matters = volume >= rules.weak_link * np.maximum(busiest[low], busiest[high])
    strong = bulk.copy()
    strong[bulk] = matters[link_of]
    return strong


@dataclass(frozen=True, slots=True)
class NodePlaces:
    """What the topology says of each address: the number of the place where its bytes must balance, which is its server
    (a ring may enter by one NIC and leave by another), or itself where that is not known (`placed` is not set); and
    whether it is a NIC `without_gpu`."""

    place: Int64
    placed: Bool
    without_gpu: Bool

    @classmethod
    def of(cls, addresses: tuple[str, ...], topology: Topology | None) -> NodePlaces:
        servers = list(map((topology.server_of() if topology else {}).get, addresses))
        number = {server: index for index, server in enumerate(dict.fromkeys(servers))}
        place = np.fromiter(map(number.__getitem__, servers), dtype=np.int64, count=len(addresses))
        placed = place != number.get(None, -1)
        place[~placed] = len(number) + np.flatnonzero(~placed)
        return cls(place, placed, _without_gpu(addresses, topology))


def outside_nodes(
    pairs: PairEnds, traffic: PairTraffic, bulk: Bool, places: NodePlaces, rules: RecognitionRules = RULES
) -> Bool:
    """Nodes that take no part in training: declared so by the topology (a NIC without a GPU), unbalanced, fans or hubs.

    `bulk` marks the pairs to judge by.
    """
    outside, place, placed = places.without_gpu, places.place, places.placed

    def inside() -> Bool:
        inner: Bool = bulk & ~outside[pairs.pair_src] & ~outside[pairs.pair_dst]
        return inner

    outside = outside | _partners_of_nobody(pairs, traffic, inside(), placed, rules)
    for level in rules.balance_levels[:-1]:
        for strangers in (~placed, np.ones_like(placed)):  # who only writes to a stranger is judged without it
            outside = outside | (_lopsided(pairs, traffic, inside(), place, placed, level, rules) & strangers)
    outside = outside | _hubs(pairs, inside(), rules) | _fans(pairs, traffic, inside(), rules)
    return outside | _lopsided(pairs, traffic, inside(), place, placed, rules.balance_levels[-1], rules)


def _partners_of_nobody(
    pairs: PairEnds, traffic: PairTraffic, inside: Bool, placed: Bool, rules: RecognitionRules
) -> Bool:
    """Nodes that matter far less to each of their peers than somebody else does, and that are either not known to sit
    on a server of GPUs or have many peers. A stage whose replicas share its server may have none but its neighbours in
    the pipeline, and those far busier ones."""
    low, high, volume, _ = _links(pairs, traffic, inside)
    nodes = placed.size
    busiest, importance = np.zeros(nodes), np.zeros(nodes)
    np.maximum.at(busiest, low, volume)
    np.maximum.at(busiest, high, volume)
    np.maximum.at(importance, low, volume / busiest[high])
    np.maximum.at(importance, high, volume / busiest[low])
    peers = np.bincount(low, minlength=nodes) + np.bincount(high, minlength=nodes)
    stranger = ~placed & bool(placed.any())
    return (peers > 0) & (importance < rules.main_partner) & (stranger | (peers >= rules.star_peers))


def _links(pairs: PairEnds, traffic: PairTraffic, chosen: Bool) -> tuple[Int64, Int64, Float64, Int64]:
    """The links of the chosen pairs: their two ends, the bytes of both directions, and the link of each pair."""
    nodes = max(len(pairs.addresses), 1)
    src, dst = pairs.pair_src[chosen].astype(np.int64), pairs.pair_dst[chosen].astype(np.int64)
    key, link_of = np.unique(np.minimum(src, dst) * nodes + np.maximum(src, dst), return_inverse=True)
    volume = np.bincount(link_of, traffic.bytes[chosen], minlength=key.size).astype(np.float64)
    return key // nodes, key % nodes, volume, link_of


def _lopsided(
    pairs: PairEnds, traffic: PairTraffic, inside: Bool, place: Int64, placed: Bool, level: float,
    rules: RecognitionRules,
) -> Bool:  # fmt: skip
    """Nodes of a place that mostly sends or mostly receives.

    Where servers are not known, a ring may enter a server by one address and leave by another, and nobody is balanced:
    there a node is outside only if it serves balanced ones, or many.
    """
    src, dst, size = pairs.pair_src[inside], pairs.pair_dst[inside], traffic.bytes[inside].astype(np.float64)
    count = int(place.max(initial=0)) + 1
    sent, received = np.bincount(place[src], size, minlength=count), np.bincount(place[dst], size, minlength=count)
    greater = np.maximum(sent, received)
    lopsided = ((greater > 0) & (np.minimum(sent, received) < level * greater))[place]
    nodes = place.size
    total = np.bincount(src, size, minlength=nodes) + np.bincount(dst, size, minlength=nodes)
    served = np.bincount(src, size * ~lopsided[dst], minlength=nodes)
    served += np.bincount(dst, size * ~lopsided[src], minlength=nodes)
    peers = np.bincount(src, minlength=nodes) + np.bincount(dst, minlength=nodes)
    return lopsided & (placed | (2.0 * served >= total) | (peers >= rules.fan_peers))


def _hubs(pairs: PairEnds, inside: Bool, rules: RecognitionRules) -> Bool:
    """Nodes with many more peers than their peers have: storage and parameter servers, not members of a clique."""
    nodes = len(pairs.addresses)
    src, dst = pairs.pair_src[inside].astype(np.int64), pairs.pair_dst[inside].astype(np.int64)
    key = np.unique(np.minimum(src, dst) * nodes + np.maximum(src, dst))
    ends = np.concatenate([key // nodes, key % nodes])
    peers = np.concatenate([key % nodes, key // nodes])
    degree = np.bincount(ends, minlength=nodes)
    offsets = np.concatenate([[0], np.cumsum(degree)])
    usual = segment_medians(degree[peers[np.argsort(ends, kind="stable")]], offsets)
    return (degree >= rules.hub_peers) & (degree >= rules.hub_factor * usual)


def _fans(pairs: PairEnds, traffic: PairTraffic, inside: Bool, rules: RecognitionRules) -> Bool:
    """Nodes whose traffic is mostly with many, over links that carry nothing back: a ring has one of each."""
    nodes = len(pairs.addresses)
    key, piece = np.unique(
        pairs.pair_src[inside].astype(np.int64) * nodes + pairs.pair_dst[inside], return_inverse=True
    )
    size = np.bincount(piece, traffic.bytes[inside], minlength=key.size).astype(np.float64)  # pairs may be in pieces
    src, dst = key // nodes, key % nodes
    reverse = dst * nodes + src
    at = np.minimum(np.searchsorted(key, reverse), max(key.size - 1, 0))
    back = np.where(key[at] == reverse, size[at], 0) if key.size else np.zeros(0)
    one_way = back < rules.one_way * size
    total = np.bincount(src, size, minlength=nodes) + np.bincount(dst, size, minlength=nodes)
    most, beyond = np.zeros(nodes, dtype=np.int64), np.zeros(nodes)
    for ends in (src[one_way], dst[one_way]):
        largest = np.zeros(nodes)
        np.maximum.at(largest, ends, size[one_way])
        most = np.maximum(most, np.bincount(ends, minlength=nodes))
        beyond += np.bincount(ends, size[one_way], minlength=nodes) - largest
    return (most >= rules.fan_peers) & (beyond >= rules.fan_share * total)


def _without_gpu(addresses: tuple[str, ...], topology: Topology | None) -> Bool:
    if topology is None:
        return np.zeros(len(addresses), dtype=np.bool_)
    nics = [nic for server in topology.servers for nic in server.nics]
    if not any(nic.gpu is not None for nic in nics):
        return np.zeros(len(addresses), dtype=np.bool_)
    bare = {nic.address for nic in nics if nic.gpu is None}
    return np.fromiter((address in bare for address in addresses), dtype=np.bool_, count=len(addresses))
