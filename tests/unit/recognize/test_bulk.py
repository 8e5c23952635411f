import numpy as np

from llmprism.model import Nic, Server, Topology
from llmprism.recognize.bulk import MIN_MESSAGE_BYTES, bulk_pairs, outside_nodes, pair_traffic
from unit.builders import MS, Flow, transfer_table

GB = 1_000_000_000


def judged(flows, topology=None):
    """(bulk pairs, outside nodes) by name."""
    transfers = transfer_table(flows)
    traffic = pair_traffic(transfers)
    bulk = bulk_pairs(transfers, traffic)
    outside = outside_nodes(transfers, traffic, bulk, topology)
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


def test_small_messages_are_chatter_however_many():
    few_large = [flow("ab", MIN_MESSAGE_BYTES), flow("ba", MIN_MESSAGE_BYTES)]
    many_small = [flow("ac", MIN_MESSAGE_BYTES - 1, 10 * at) for at in range(200)]
    assert judged(few_large + many_small)[0] == {"ab", "ba"}


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
