from itertools import combinations

import numpy as np
import pytest

from llmprism.model import Nic, Server, Topology
from llmprism.recognize.bulk import NodePlaces, bulk_pairs, outside_nodes, pair_traffic, strong_pairs
from llmprism.recognize.rules import RULES
from unit.builders import MS, Flow, transfer_table

GB = 1_000_000_000


def judged(flows, topology=None):
    """(bulk pairs, outside nodes) by name."""
    transfers = transfer_table(flows)
    traffic = pair_traffic(transfers)
    bulk = bulk_pairs(transfers, traffic)
    outside = outside_nodes(transfers, traffic, bulk, NodePlaces.of(transfers.addresses, topology))
    names = transfers.addresses
    pairs = {
        names[s] + names[d] for s, d, b in zip(transfers.pair_src, transfers.pair_dst, bulk.tolist(), strict=True) if b
    }
    return pairs, {names[i] for i in np.flatnonzero(outside)}


def flow(pair, size, at=0):
    return Flow(pair[0], pair[1], at * MS, at * MS + MS, size)


def test_totals_per_pair():
    transfers = transfer_table([flow("ab", 5, 0), flow("ab", 9, 50), flow("ab", 7, 90), flow("ba", 1, 3)])
    traffic = pair_traffic(transfers)
    assert traffic.bytes.tolist() == [21, 1]
    assert traffic.largest.tolist() == [9, 1]
    assert traffic.first_ns.tolist() == [0, 3 * MS]
    assert traffic.last_ns.tolist() == [91 * MS, 4 * MS]
    nothing = pair_traffic(transfer_table([]))
    assert nothing.bytes.size == nothing.last_ns.size == 0


def test_addresses_of_one_server_are_one_place_and_strangers_each_one_of_their_own():
    servers = (Server("s", (Nic("a", 0), Nic("c", None))), Server("t", (Nic("d", 0),)))
    places = NodePlaces.of(("a", "b", "c", "d", "e"), Topology(servers, ()))
    assert places.placed.tolist() == [True, False, True, True, False]
    assert places.place[0] == places.place[2]
    assert len(set(places.place.tolist())) == 4
    assert places.without_gpu.tolist() == [False, False, True, False, False]
    unknown = NodePlaces.of(("a", "b"), None)
    assert not unknown.placed.any()
    assert len(set(unknown.place.tolist())) == 2


def test_small_messages_are_chatter_however_many():
    few_large = [flow("ab", RULES.message_bytes), flow("ba", RULES.message_bytes)]
    many_small = [flow("ac", RULES.message_bytes - 1, 10 * at) for at in range(200)]
    assert judged(few_large + many_small)[0] == {"ab", "ba"}


def test_small_messages_that_move_a_good_share_of_what_both_ends_move_are_no_chatter():
    large = [flow(pair, 1_000_000) for pair in ("ab", "ba", "cd", "dc")]
    replicas = [flow("ac", RULES.message_bytes - 1, 10 * at) for at in range(5)]
    assert judged(large + replicas)[0] == {"ab", "ba", "cd", "dc", "ac"}
    rarely = [flow("ac", RULES.small_message_bytes)]
    busy = [flow(pair, 100_000_000) for pair in ("ab", "ba", "cd", "dc")]
    assert judged(busy + rarely)[0] == {"ab", "ba", "cd", "dc"}
    probes = [flow("ac", RULES.small_message_bytes - 1, 10 * at) for at in range(100)]
    assert judged(large + probes)[0] == {"ab", "ba", "cd", "dc"}


def test_a_vanishing_share_of_what_both_ends_move_is_chatter():
    busy = [flow("ab", GB), flow("ba", GB), flow("cd", GB), flow("dc", GB)]
    assert judged([*busy, flow("ac", 90_000)])[0] == {"ab", "ba", "cd", "dc"}
    assert "ac" in judged([*busy, flow("ac", 110_000)])[0]


def test_a_quiet_node_is_measured_by_its_own_traffic():
    """The same 90 KB are all that c ever moves: that is its traffic, not chatter."""
    assert "ac" in judged([flow("ab", GB), flow("ba", GB), flow("ac", 90_000), flow("ca", 90_000)])[0]


def test_a_storage_server_is_outside_and_its_readers_are_not():
    ring = [flow(pair, GB) for pair in ("ab", "ba", "cd", "dc")]
    reads = [flow(f"s{reader}", 3 * GB, 20) for reader in "abcd"]
    assert judged(ring + reads)[1] == {"s"}


def test_a_checkpoint_server_is_outside_too():
    ring = [flow(pair, GB) for pair in ("ab", "ba")]
    assert judged([*ring, *(flow(f"{writer}s", 2 * GB, 20) for writer in "ab")])[1] == {"s"}


def test_a_ring_is_inside_although_each_pair_is_one_way():
    assert judged([flow(pair, GB) for pair in ("ab", "bc", "ca")])[1] == set()


def test_a_nic_without_a_gpu_is_outside_where_the_topology_says_so():
    flows = [flow(pair, GB) for pair in ("ab", "ba", "ax", "xa")]
    gpus = Server("one", (Nic("a", 0), Nic("b", 1)))
    assert judged(flows, Topology((gpus, Server("two", (Nic("x"),)))))[1] == {"x"}
    bare = Topology((Server("one", (Nic("a"), Nic("b"))), Server("two", (Nic("x"),))))
    assert judged(flows, bare)[1] == set(), "a topology that tells no GPU at all says nothing"


def both_ways(pairs, size=GB):
    return [flow(pair[::way], size, 10 * (way + 1)) for pair in pairs for way in (1, -1)]


def linked(*chains):
    """Both ways along chains of names of one letter."""
    return both_ways([chain[i : i + 2] for chain in chains for i in range(len(chain) - 1)])


@pytest.mark.parametrize(("peers", "outside"), [("abcdef", {"s"}), ("abcde", set())])
def test_a_server_that_many_pairs_talk_to_and_that_answers_is_a_hub(peers, outside):
    """Balanced to the byte: only the number of its peers gives it away."""
    assert (len(peers) >= RULES.hub_peers) is bool(outside)
    pairs = [f"{peer}{peer.upper()}" for peer in peers]
    assert judged(linked(*pairs) + both_ways([f"s{peer}" for peer in peers]))[1] == outside


@pytest.mark.parametrize("size", [RULES.hub_peers + 1, 12])
def test_members_of_an_all_to_all_are_no_hubs(size):
    """Everybody has many peers there."""
    assert judged(both_ways(combinations("abcdefghijkl"[:size], 2)))[1] == set()


def test_a_hub_of_a_mesh_of_its_own_size_is_not_one_until_it_has_twice_the_peers():
    """Two meshes of four and a member of both: seven peers or so against four."""
    meshes = [*combinations("abcds", 2), *combinations("efghs", 2)]
    assert judged(both_ways(meshes))[1] == {"s"}
    assert judged(both_ways([*combinations("abcdes", 2), *combinations("efghas", 2)]))[1] == set()


@pytest.mark.parametrize(("peers", "outside"), [("abcd", {"s"}), ("abc", set())])
@pytest.mark.parametrize("back", [0.0, 0.04])
def test_a_node_that_sends_one_way_to_many_is_no_member_of_rings(peers, outside, back):
    """What it gets in return over other links keeps it in balance."""
    assert (len(peers) >= RULES.fan_peers) is bool(outside)
    fan = [flow(f"s{peer}", GB) for peer in peers]
    answers = [flow(f"{peer}s", int(back * GB)) for peer in peers] if back else []
    feed = both_ways(["sz"], len(peers) * GB)
    rest = linked(*(f"{peer}{peer.upper()}" for peer in peers))
    assert judged(fan + answers + feed + rest)[1] == outside


def test_a_node_that_receives_one_way_from_many_is_none_either():
    fan = [flow(f"{peer}s", GB) for peer in "abcd"]
    assert judged(fan + both_ways(["sz"], 4 * GB) + linked("aA", "bB", "cC", "dD"))[1] == {"s"}
    answered = [flow(f"s{peer}", GB // 10) for peer in "abcd"]
    assert judged(fan + answered + both_ways(["sz"], 4 * GB) + linked("aA", "bB", "cC", "dD"))[1] == set()


def test_bytes_balance_by_server_where_servers_are_known():
    """A ring over three servers of two NICs that enters each by one NIC and leaves by the other."""
    ring = [flow(pair, GB) for pair in ("bc", "de", "fa")]
    servers = tuple(Server(f"server {pair}", tuple(Nic(name, i) for i, name in enumerate(pair)))
                    for pair in ("ab", "cd", "ef"))  # fmt: skip
    assert judged(ring, Topology(servers))[1] == set()
    assert judged(ring)[1] == set(), "without servers: each address only sends or only receives, and serves nobody"


def test_a_server_that_only_receives_is_outside_with_all_its_nics():
    ring = both_ways(["ab", "bc"])
    writes = [flow("as", 3 * GB, 40), flow("bt", 3 * GB, 40)]
    servers = (*(Server(name, (Nic(name, 0),)) for name in "abc"), Server("files", (Nic("s", 0), Nic("t", 1))))
    assert judged(ring + writes, Topology(servers))[1] == {"s", "t"}


def test_a_member_that_reads_from_many_storage_servers_is_inside():
    """Four one-way links into every GPU, each a tenth of what its ring carries."""
    ring = [flow(pair, GB) for pair in ("ab", "bc", "cd", "da")]
    reads = [flow(f"{server}{reader}", GB // 10, 20) for server in "stuv" for reader in "abcd"]
    assert judged(ring + reads)[1] == set("stuv")


@pytest.mark.parametrize(("share", "strong"), [(0.5, True), (1.5, True), (0.001, False)])
def test_a_link_is_strong_where_it_matters_to_both_ends(share, strong):
    """A reader matters to the storage server only, its samples not to the reader."""
    transfers = transfer_table([flow("ab", GB), flow("ba", GB), flow("sa", int(share * GB))])
    traffic = pair_traffic(transfers)
    bulk = bulk_pairs(transfers, traffic)
    assert bulk.all()
    of_storage = [name == "s" for name in np.array(transfers.addresses)[transfers.pair_src]]
    assert bool(strong_pairs(transfers, traffic, bulk)[of_storage].all()) is strong


@pytest.mark.parametrize("known", [True, False])
def test_a_server_of_files_that_reads_and_writes_in_balance_is_nobody_s_partner(known):
    """It answers every byte, and has no more peers than they have; but each of them has busier ones."""
    ring = [flow(pair, GB) for pair in ("ab", "bc", "cd", "da")]
    files = both_ways([f"s{peer}" for peer in "abcd"], GB // 20)
    topology = Topology(tuple(Server(name, (Nic(name, 0),)) for name in "abcd")) if known else None
    assert judged(ring + files, topology)[1] == {"s"}


def test_a_stage_without_replicas_of_its_own_is_inside():
    """Its neighbours in the pipeline synchronise gradients with others, it does not."""
    pipeline, gradients = both_ways(["ab", "bc"], GB // 20), both_ways(["ax", "cy"])
    assert judged(pipeline + gradients)[1] == set()
