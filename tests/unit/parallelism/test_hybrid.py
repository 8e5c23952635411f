"""Shard groups and replica groups come apart by their bytes where they cross, and nothing else does."""

import numpy as np
import pytest

from llmprism.model import PairKind, StepClock
from llmprism.model.job import Job
from llmprism.parallelism.features import links_of, pair_features
from llmprism.parallelism.hybrid import shard_grid
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.rules import RULES
from unit.builders import MS, Flow, transfer_table

STEPS = 8


def ring(members, size, at=5):
    """Both directions of every neighbouring pair, once a step."""
    return [
        Flow(a, b, step * 100 * MS + at * MS, step * 100 * MS + (at + 4) * MS, size)
        for step in range(STEPS)
        for i, src in enumerate(members)
        for a, b in [(src, members[(i + 1) % len(members)])]
    ]


def seen(flows, place=None):
    transfers = transfer_table(flows)
    links = links_of(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    count = links.low.size
    kinds = LinkKinds(np.full(count, PairKind.DP, dtype=np.int8), np.ones(count), *2 * [np.ones(count, dtype=np.bool_)])
    clock = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 100 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
    members = tuple(range(len(transfers.addresses)))
    places = tuple(place(name) for name in transfers.addresses) if place else ()
    job = Job("job", members, (), 1.0, transfers, places=places)
    return transfers, links, shard_grid(job, links, kinds, pair_features(transfers, clock))


def found(flows):
    transfers, links, result = seen(flows)
    if result is None:
        return None
    name = transfers.addresses
    ends = zip(links.low[result.shards], links.high[result.shards], strict=True)
    return {frozenset((name[a], name[b])) for a, b in ends}


def grid(rows, columns, row_bytes, column_bytes, columns_at=5):
    cell = [[f"{r}.{c}" for c in range(columns)] for r in range(rows)]
    flows = [flow for row in cell for flow in ring(row, row_bytes)]
    return flows + [flow for column in zip(*cell, strict=True) for flow in ring(list(column), column_bytes, columns_at)]


@pytest.mark.parametrize(("rows", "columns"), [(2, 4), (3, 3), (4, 8)])
def test_heavy_rows_and_light_columns_are_shards_and_replicas(rows, columns):
    links = found(grid(rows, columns, 24_000_000, 3_000_000))
    assert links is not None
    assert all(len({end.split(".")[0] for end in link}) == 1 for link in links)
    assert len({end for link in links for end in link}) == rows * columns


@pytest.mark.parametrize(("row_bytes", "repeated"), [(9_000_000, False), (8_000_000, False), (36_000_000, True)])
def test_the_prediction_may_be_met_more_than_once_a_step(row_bytes, repeated):
    *_, result = seen(grid(2, 4, row_bytes, 1_500_000))
    assert result is not None
    assert (result.predicted, result.repeated) == (True, repeated)


def test_rings_of_one_weight_do_not_come_apart():
    assert found(grid(3, 4, 8_000_000, 8_000_000)) is None


def test_one_slow_link_in_a_ring_makes_no_shards():
    flows = [flow if flow.src != "a" else flow._replace(bytes=flow.bytes * 3) for flow in ring("abcdef", 6_000_000)]
    assert found(flows) is None


def sent(shards, replicas, rails=1):
    """Bytes of a hop in a shard group of which `rails` share a server, and of one between replicas: 12 equal layers."""
    whole = 24_000_000
    inside = 3 * (shards - 1) / shards * whole * 35 / 36 / rails
    return int(inside), int(2 * (replicas - 1) / replicas * whole / shards)


@pytest.mark.parametrize(("replicas", "shards"), [(3, 3), (4, 8), (8, 3), (16, 3)])
def test_bytes_of_hybrid_sharding_are_predicted(replicas, shards):
    result = seen(grid(replicas, shards, *sent(shards, replicas)))[2]
    assert result.predicted
    inside, across = sent(shards, replicas)
    less = seen(grid(replicas, shards, inside, 4 * across))[2]
    assert less is None or not less.predicted


@pytest.mark.parametrize("passes", [2, 4, 16])
def test_accumulation_gathers_for_every_micro_batch_and_reduces_over_the_replicas_once(passes):
    inside, across = sent(2, 2)
    pairs = {frozenset((f"{r}.0", f"{r}.1")) for r in range(2)}
    flows = [flow for r in range(2) for flow in ring([f"{r}.0", f"{r}.1"], (2 * passes + 1) * inside // 3)]
    flows += [flow for c in range(2) for flow in ring([f"0.{c}", f"1.{c}"], across)]
    assert found(flows) == pairs
    assert seen(flows)[2].predicted


def test_replicas_are_never_in_one_shard_group():
    """Two servers of two GPUs: the two shard groups could be rails of one, but then its members would be replicas."""
    inside, across = sent(2, 2)
    flows = [flow for r in range(2) for flow in ring([f"{r}.0", f"{r}.1"], int(1.3 * inside))]
    flows += [flow for c in range(2) for flow in ring([f"0.{c}", f"1.{c}"], across)]
    assert not seen(flows, place=lambda name: name[-1])[2].rails


def test_shards_of_two_carry_little_more_than_replicas_do():
    pairs = [flow for r in range(16) for flow in ring([f"{r}.0", f"{r}.1"], sent(2, 16)[0])]
    columns = [flow for c in range(2) for flow in ring([f"{r}.{c}" for r in range(16)], sent(2, 16)[1])]
    assert sent(2, 16)[0] < RULES.sharding.shards_over_replicas * sent(2, 16)[1] * 1.07
    links = found(pairs + columns)
    assert links == {frozenset((f"{r}.0", f"{r}.1")) for r in range(16)}


@pytest.mark.parametrize("rails", [1, 2])
def test_rails_of_one_shard_group_carry_their_part_and_groups_of_tensor_ranks_all(rails):
    """Shards over four servers of two GPUs each, whose hops inside a server do not show, against two tensor ranks."""
    inside, across = sent(4 * rails, 3, rails)
    flows = []
    for lane in "ab":
        cell = [[f"{lane}{r}.{c}" for c in range(4)] for r in range(3)]
        flows += [flow for row in cell for flow in ring(row, inside)]
        flows += [flow for column in zip(*cell, strict=True) for flow in ring(list(column), across)]
    result = seen(flows, place=lambda name: name[1:])[2]
    assert result.predicted
    assert result.rails is (rails == 2)


@pytest.mark.parametrize("members", [6, 8, 48])
def test_a_ring_whose_hops_carry_now_more_and_now_less_is_no_grid(members):
    names = [f"m{i:02d}" for i in range(members)]
    hops = ring(names, 3_000_000)
    assert found([hop._replace(bytes=24_000_000) if int(hop.src[1:]) % 2 == 0 else hop for hop in hops]) is None


def test_what_flows_while_nobody_gathers_is_not_of_replicas():
    assert found(grid(3, 3, 24_000_000, 3_000_000, columns_at=50)) is None


def test_rails_are_of_one_shard_group_only_where_hops_inside_servers_do_not_show():
    """Two servers of two GPUs to a shard group: its ring takes hops inside the servers as well."""
    flows = grid(4, 4, 24_000_000, 3_000_000)

    def inside(name):
        return f"server{int(name.split('.')[0])}-{int(name.split('.')[1]) // 2}"

    def alone(name):
        return f"server{name}"

    assert seen(flows, alone)[2] is not None
    assert seen(flows, inside)[2] is not None
    assert not seen(flows, inside)[2].rails
