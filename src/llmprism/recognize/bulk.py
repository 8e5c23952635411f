"""Which pairs carry training traffic.

Three kinds of traffic must not glue jobs together:

* *chatter*: bootstrap, store and heartbeat messages, monitoring meshes: small messages, a vanishing share of what the
  two ends move otherwise;
* *hubs*: storage and other servers that many nodes talk to which do not talk to each other;
* *unbalanced nodes*: a training server sends about as much as it receives (a ring passes on what it gets, an activation
  is answered by a gradient, an all-to-all is symmetric); a server that only reads or only writes does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Int32, TransferTable
from llmprism.model.topology import Topology
from llmprism.stats.robust import segment_medians

Bool = NDArray[np.bool_]
Int64 = NDArray[np.int64]

__all__ = ["PairEnds", "PairTraffic", "bulk_pairs", "outside_nodes", "pair_traffic"]

MIN_MESSAGE_BYTES: Final = 32_768
"""A pair whose largest transfer is smaller carries control messages: the smallest activation or bucket worth sending
over a network is several times larger, bootstrap and store messages are at most 16 KB in real captures."""

MIN_SHARE: Final = 1e-4
"""Of the busiest pair of the less busy end. Pipeline traffic is 3-30 % of gradient traffic in real captures."""

BALANCE_STEPS: Final = (0.05, 0.25)
"""Smallest ratio of the lesser to the greater of bytes in and out of a training NIC. The strict cut goes first, so that
a NIC that reads much from storage is judged without that storage."""

HUB_PEERS: Final = 6
"""Peers from which a node may be a hub: rings, trees and pipelines give a training NIC two to five."""

FAN_PEERS: Final = 4
"""One-way links in one direction from which a node is no member of rings, of which a NIC has one or two."""

ONE_WAY: Final = 0.05
"""Share of a link's bytes that flow back at most where it is one-way; acknowledgements and credits are below it."""

HUB_FACTOR: Final = 2.0
"""And this many times the peers that its peers usually have: in an all-to-all everybody has as many."""


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


def pair_traffic(transfers: TransferTable) -> PairTraffic:
    offsets = transfers.pair_offsets
    if transfers.pair_count == 0:
        none = np.zeros(0, dtype=np.int64)
        return PairTraffic(none, none, none, none)
    starts = offsets[:-1]
    largest = np.maximum.reduceat(transfers.bytes, starts)
    only_chatter = np.repeat(largest < MIN_MESSAGE_BYTES, np.diff(offsets))
    counted = only_chatter | (transfers.bytes >= MESSAGE_FLOOR_BYTES)
    return PairTraffic(
        np.add.reduceat(transfers.bytes, starts),
        largest,
        np.minimum.reduceat(np.where(counted, transfers.start_ns, np.iinfo(np.int64).max), starts),
        np.maximum.reduceat(np.where(counted, transfers.end_ns, -1), starts),
    )


def bulk_pairs(transfers: PairEnds, traffic: PairTraffic) -> Bool:
    """Pairs that are not chatter."""
    nodes = len(transfers.addresses)
    busiest = np.zeros(nodes, dtype=np.int64)
    np.maximum.at(busiest, transfers.pair_src, traffic.bytes)
    np.maximum.at(busiest, transfers.pair_dst, traffic.bytes)
    reference = np.minimum(busiest[transfers.pair_src], busiest[transfers.pair_dst])
    return (traffic.largest >= MIN_MESSAGE_BYTES) & (traffic.bytes >= MIN_SHARE * reference)


def outside_nodes(transfers: PairEnds, traffic: PairTraffic, bulk: Bool, topology: Topology | None) -> Bool:
    """Nodes that take no part in training: declared so by the topology (a NIC without a GPU), hubs, or unbalanced."""
    known = topology.server_of() if topology else {}
    outside = _without_gpu(transfers.addresses, topology)
    inside = bulk & ~outside[transfers.pair_src] & ~outside[transfers.pair_dst]
    outside = outside | _hubs(transfers, inside) | _fans(transfers, traffic, inside)
    place = _places(transfers.addresses, known)
    src, dst, size = transfers.pair_src, transfers.pair_dst, traffic.bytes.astype(np.float64)
    for smallest in BALANCE_STEPS:
        inside = bulk & ~outside[src] & ~outside[dst]
        sent = np.bincount(place[src[inside]], size[inside], minlength=place.max(initial=0) + 1)
        received = np.bincount(place[dst[inside]], size[inside], minlength=place.max(initial=0) + 1)
        greater = np.maximum(sent, received)
        lopsided = (greater > 0) & (np.minimum(sent, received) < smallest * greater)
        outside = outside | lopsided[place]
    return outside


def _places(addresses: tuple[str, ...], server_of: dict[str, str]) -> Int64:
    """Where bytes must balance: the server of an address (a ring may enter by one NIC and leave by another), or the
    address itself where the server is not known."""
    names = [server_of.get(address, f"address {address}") for address in addresses]
    index: dict[str, int] = {}
    return np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int64)


def _hubs(transfers: PairEnds, inside: Bool) -> Bool:
    """Nodes with many more peers than their peers have: storage and parameter servers, not members of a clique."""
    nodes = len(transfers.addresses)
    src, dst = transfers.pair_src[inside].astype(np.int64), transfers.pair_dst[inside].astype(np.int64)
    key = np.unique(np.minimum(src, dst) * nodes + np.maximum(src, dst))
    ends = np.concatenate([key // nodes, key % nodes])
    peers = np.concatenate([key % nodes, key // nodes])
    degree = np.bincount(ends, minlength=nodes)
    offsets = np.concatenate([[0], np.cumsum(degree)])
    usual = segment_medians(degree[peers[np.argsort(ends, kind="stable")]], offsets)
    return (degree >= HUB_PEERS) & (degree >= HUB_FACTOR * usual)


def _fans(transfers: PairEnds, traffic: PairTraffic, inside: Bool) -> Bool:
    """Nodes that send to many or receive from many over links that carry nothing back: a ring has one of each."""
    nodes = len(transfers.addresses)
    src, dst = transfers.pair_src[inside].astype(np.int64), transfers.pair_dst[inside].astype(np.int64)
    size = traffic.bytes[inside]
    key, reverse = src * nodes + dst, dst * nodes + src
    order = np.argsort(key)
    at = np.minimum(np.searchsorted(key[order], reverse), max(key.size - 1, 0))
    back = np.where(key[order][at] == reverse, size[order][at], 0) if key.size else np.zeros(0)
    one_way = back < ONE_WAY * size
    out = np.bincount(src[one_way], minlength=nodes)
    into = np.bincount(dst[one_way], minlength=nodes)
    return np.maximum(out, into) >= FAN_PEERS


def _without_gpu(addresses: tuple[str, ...], topology: Topology | None) -> Bool:
    if topology is None:
        return np.zeros(len(addresses), dtype=np.bool_)
    nics = [nic for server in topology.servers for nic in server.nics]
    if not any(nic.gpu is not None for nic in nics):
        return np.zeros(len(addresses), dtype=np.bool_)
    bare = {nic.address for nic in nics if nic.gpu is None}
    return np.fromiter((address in bare for address in addresses), dtype=np.bool_, count=len(addresses))
