"""Which pairs the collectives of a layout take."""

import numpy as np
import pytest

from llmprism.parallelism.rank_mesh import Degrees, GradientRoute, RankMesh
from llmprism.parallelism.rules import RULES

ONE_PER_SERVER = RankMesh(np.arange(8), hidden=True)
TWO_PER_SERVER = RankMesh(np.arange(8) // 2, hidden=True)


def pairs(part, ranks=8):
    return {
        (int(pair) // ranks, int(pair) % ranks): int(times) for pair, times in zip(part.pair, part.times, strict=True)
    }


def test_stages_send_to_the_next_one_and_back():
    assert set(pairs(ONE_PER_SERVER.sends(4))) == {
        (a, b) for s in (0, 2, 4) for r in (0, 1) for a, b in ((s + r, s + r + 2), (s + r + 2, s + r))
    }
    assert set(pairs(ONE_PER_SERVER.closing(4))) == {(0, 6), (6, 0), (1, 7), (7, 1)}


def test_gradients_go_round_the_ranks_of_a_stage():
    (ring,) = ONE_PER_SERVER.gradients(2, 1, GradientRoute(tree=False, orders=((0,),)))
    assert set(pairs(ring)) == {(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4)}


def test_several_orders_of_one_collective_add_up_and_the_two_ways_of_a_ring_may_carry_other_bytes():
    (both,) = ONE_PER_SERVER.gradients(2, 1, GradientRoute(tree=False, orders=((0, 2),)))
    assert pairs(both)[3, 0] == 2  # the last hop of both orders
    assert pairs(both)[0, 1] == 1
    there, back = ONE_PER_SERVER.gradients(1, 1, GradientRoute(tree=False, orders=((0,), (1,))))
    assert set(pairs(back)) == {(b, a) for a, b in pairs(there)}


def test_a_tree_goes_up_and_down():
    (tree,) = ONE_PER_SERVER.gradients(2, 1, GradientRoute(tree=True, orders=((0,),)))
    assert {(1, 0), (0, 1), (2, 0), (0, 2), (3, 1), (1, 3)} == {pair for pair in pairs(tree) if max(pair) < 4}


def test_with_nvlink_each_gpu_of_a_server_has_a_rail_and_nothing_inside_shows():
    (rails,) = TWO_PER_SERVER.gradients(1, 1, GradientRoute(tree=False, orders=((0,),)))
    assert set(pairs(rails)) == {(r, (r + 2) % 8) for r in range(8)}
    (tree,) = TWO_PER_SERVER.gradients(1, 1, GradientRoute(tree=True, orders=((0,),)))
    assert {rank for pair in pairs(tree) for rank in pair} == {0, 2, 4, 6}


def test_contexts_experts_and_wide_tensor_groups():
    degrees = Degrees(tensors=1, contexts=2, replicas=4, stages=1, experts=4)
    assert set(pairs(ONE_PER_SERVER.contexts(degrees))) == {(r, r ^ 1) for r in range(8)}
    assert set(pairs(ONE_PER_SERVER.experts(degrees))) == {
        (a, b) for a in range(8) for b in range(8) if a != b and a // 4 == b // 4
    }
    assert set(pairs(ONE_PER_SERVER.expert_gradients(degrees))) == {(r, (r + 4) % 8) for r in range(8)}
    assert set(pairs(TWO_PER_SERVER.tensors(4))) == {(1, 2), (3, 0), (5, 6), (7, 4)}


@pytest.mark.parametrize("both_ways", [False, True])
def test_shards_and_their_replicas(both_ways):
    inner = list(ONE_PER_SERVER.shards(1, 4, both_ways=both_ways))
    assert len(inner) == 1 + both_ways
    assert set(pairs(inner[0])) == {(r, r // 4 * 4 + (r + 1) % 4) for r in range(8)}
    (outer,) = ONE_PER_SERVER.gradients(1, 1, GradientRoute(tree=False, orders=((0,),)), shards=4)
    assert set(pairs(outer)) == {(r, (r + 4) % 8) for r in range(8)}


@pytest.mark.parametrize("taken", [0.0, 0.4, 0.9])
def test_a_mesh_that_is_used_again_says_what_a_new_one_says(taken):
    """What routes have in common is kept; whether enough of a route carries something is judged for each anew."""
    rng = np.random.default_rng(int(10 * taken))
    carries = rng.random(16 * 16) < 0.5
    used = RankMesh(np.arange(16) // 2, hidden=True, carries=carries, taken=taken)
    for stages, tensors, shards in ((1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 2, 1), (1, 1, 4)):
        for route in RULES.composition.routes:
            new = RankMesh(np.arange(16) // 2, hidden=True, carries=carries, taken=taken)
            again, first = (list(mesh.gradients(stages, tensors, route, shards)) for mesh in (used, new))
            for one, other in zip(again, first, strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    assert np.array_equal(one.pair, other.pair)
                    assert np.array_equal(one.times, other.times)
                    assert carries[np.repeat(one.pair, one.times)].mean() >= taken


@pytest.mark.parametrize("taken", [0.3, 0.75, 0.97])
@pytest.mark.parametrize("hidden", [False, True])
def test_routes_are_left_out_exactly_where_too_few_of_their_pairs_carry_anything(taken, hidden):
    rng = np.random.default_rng(7)
    left_out = 0
    for share in (0.1, 0.5, taken, 0.9, 0.99):
        carries = rng.random(16 * 16) < share
        mesh = RankMesh(np.arange(16) // 2, hidden=hidden, carries=carries, taken=taken)
        every = RankMesh(np.arange(16) // 2, hidden=hidden)
        for stages, tensors, shards in ((1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 2, 1), (1, 1, 4)):
            for route in RULES.composition.routes:
                seen, whole = (list(one.gradients(stages, tensors, route, shards)) for one in (mesh, every))
                for one, other in zip(seen, whole, strict=True):
                    enough = not other.pair.size or carries[np.repeat(other.pair, other.times)].mean() >= taken
                    assert (one is not None) == enough
                    left_out += not enough
    assert left_out
