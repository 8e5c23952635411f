"""Layouts that the bytes of all pairs explain, and those that they leave open."""

import numpy as np
import pytest

from llmprism.model import Job
from llmprism.model.layout import Group, JobLayout, Layout, PairKind, PairRoles, Schedule, Sharding
from llmprism.parallelism.composition import _saved, compositions_of, is_mesh, nested
from llmprism.parallelism.rank_mesh import Degrees, RankMesh
from llmprism.parallelism.rules import RULES
from unit.builders import MS, Flow, transfer_table

ROUTES = RULES.composition.routes
STAGES = Degrees(tensors=1, contexts=1, replicas=4, stages=4, experts=1)


def job_of(degrees, amounts, route=0, gpus_per_server=1, noise=0.0, seed=0, uneven=0.0):
    """A job whose pairs carry these bytes in all: of gradients, sends, contexts and experts (these `uneven`)."""
    ranks = degrees.tensors * degrees.contexts * degrees.replicas * degrees.stages
    mesh = RankMesh(np.arange(ranks) // gpus_per_server, hidden=gpus_per_server > 1)
    parts = [(amounts["dp"], part) for part in mesh.gradients(degrees.stages, degrees.tensors, ROUTES[route])]
    parts += [(amounts["pp"], mesh.sends(degrees.stages))] if degrees.stages > 1 else []
    parts += [(amounts["cp"], mesh.contexts(degrees))] if degrees.contexts > 1 else []
    parts += [(amounts["ep"], mesh.experts(degrees))] if degrees.experts > 1 else []
    total = np.zeros(ranks * ranks)
    random = np.random.default_rng(seed)
    for amount, part in parts:
        tokens = 1.0 + uneven * random.standard_normal(part.pair.size) if part.kind is PairKind.EP else 1.0
        total[part.pair] += amount * part.times * tokens
    total *= 1.0 + noise * random.standard_normal(total.size)
    names = [f"s{rank // gpus_per_server:02d}.{rank % gpus_per_server}" for rank in range(ranks)]
    flows = [Flow(names[p // ranks], names[p % ranks], 0, MS, int(total[p])) for p in np.flatnonzero(total)]
    transfers = transfer_table(flows)
    places = tuple(name.split(".")[0] for name in transfers.addresses)
    return Job("job", tuple(range(ranks)), (), 1.0, transfers, places=places)


def found_in(job):
    return compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),)).compositions


AMOUNTS = {"dp": 9e8, "pp": 2e8, "cp": 3e7, "ep": 5e7}


@pytest.mark.parametrize("route", range(len(ROUTES)))
@pytest.mark.parametrize("noise", [0.0, 0.005])
@pytest.mark.parametrize(
    "degrees",
    [
        Degrees(1, 1, 8, 2, 1),
        Degrees(1, 4, 3, 1, 1),
        Degrees(1, 4, 4, 2, 1),
        Degrees(1, 1, 8, 2, 4),
        Degrees(1, 4, 4, 1, 8),
        Degrees(1, 1, 6, 4, 1),
    ],
    ids=str,
)
def test_the_layout_that_made_the_bytes_is_among_the_best(degrees, route, noise):
    found = found_in(job_of(degrees, AMOUNTS, route, noise=noise))
    assert degrees in [reading.degrees for reading in found[0].readings]
    assert found[0].fitted == 1.0
    assert all(one.bits < found[0].bits for one in found[1:])


@pytest.mark.parametrize("route", [route for route, one in enumerate(ROUTES) if one.tree or len(one.orders[0]) > 2])
def test_contexts_of_one_replica_show_where_gradients_take_other_ways_too(route):
    degrees = Degrees(1, 4, 1, 4, 1)
    (best, *others) = found_in(job_of(degrees, AMOUNTS, route))
    assert degrees in [reading.degrees for reading in best.readings]
    assert best.fitted == 1.0
    assert all(one.bits < best.bits for one in others)


@pytest.mark.parametrize(
    ("experts", "lie"), [(((0, 1), (2, 3)), True), (((0, 1, 2, 3),), True), (((0, 2), (1, 3)), False)]
)
def test_contexts_and_experts_lie_within_each_other(experts, lie):
    contexts = tuple(Group(PairKind.CP, members) for members in ((0, 1), (2, 3), (4, 5)))
    assert nested((*contexts, *(Group(PairKind.EP, members) for members in experts))) is lie
    assert nested(contexts)


def test_tokens_that_are_routed_unevenly_are_explained_as_such():
    degrees = Degrees(1, 1, 8, 2, 4)
    (best, *_) = found_in(job_of(degrees, AMOUNTS, uneven=0.1))
    assert degrees in [reading.degrees for reading in best.readings]
    assert best.fitted > 0.95


def test_one_pair_of_which_no_record_came_does_not_outweigh_all_others():
    degrees = Degrees(1, 4, 12, 2, 1)
    job = job_of(degrees, AMOUNTS)
    lost = (job.transfers.pair_src == 3) & (job.transfers.pair_dst == 4)
    (best, *_) = compositions_of(job, (np.where(lost, 0.0, job.transfers.pair_bytes),)).compositions
    assert degrees in [reading.degrees for reading in best.readings]
    assert best.bits > 100.0
    assert best.fitted > 0.95


def test_what_each_collective_carries_adds_up_to_the_bytes_of_the_pair():
    job = job_of(Degrees(1, 4, 4, 2, 1), AMOUNTS)
    best = found_in(job)[0]
    reading = next(one for one in best.readings if one.degrees == Degrees(1, 4, 4, 2, 1))
    assert best.carried.sum(axis=0) == pytest.approx(job.transfers.pair_bytes.astype(float), rel=1e-3)
    rings = best.carried[[kinds == (PairKind.CP,) for kinds in reading.kinds]]
    assert rings.max() == pytest.approx(AMOUNTS["cp"], rel=1e-3)
    assert (rings > 0).sum() == 32


def test_pairs_of_contexts_and_pairs_of_experts_are_the_same_bytes():
    (best, *_) = found_in(job_of(Degrees(1, 2, 4, 1, 1), AMOUNTS))
    assert {Degrees(1, 2, 4, 1, 1), Degrees(1, 1, 8, 1, 2)} <= {reading.degrees for reading in best.readings}


def test_tensor_peers_of_a_server_and_replicas_of_it_are_the_same_bytes():
    (best, *_) = found_in(job_of(Degrees(4, 1, 4, 1, 1), AMOUNTS, gpus_per_server=4))
    assert {Degrees(4, 1, 4, 1, 1), Degrees(1, 1, 16, 1, 1)} <= {reading.degrees for reading in best.readings}


def test_bytes_that_follow_no_layout_are_left_alone():
    rng = np.random.default_rng(1)
    flows = [
        Flow(f"s{a}", f"s{b}", 0, MS, int(rng.integers(10**6, 10**8))) for a in range(8) for b in range(8) if a != b
    ]
    transfers = transfer_table(flows)
    job = Job("job", tuple(range(8)), (), 1.0, transfers, places=transfers.addresses)
    assert not any(one.fitted > 0.5 for one in found_in(job))


def test_without_servers_nothing_is_tried():
    job = job_of(STAGES, AMOUNTS)
    assert (
        compositions_of(
            Job("job", job.members, (), 1.0, job.transfers), (np.ones(job.transfers.pair_count),)
        ).compositions
        == ()
    )


def test_unevenly_routed_tokens_still_explain_their_pairs():
    """Popular experts: pairs of the all-to-all are off by up to a third, by more than most of them are."""
    predicted = np.concatenate([np.full(40, 3.0e9), np.full(10, 1.0e9)])
    tokens = np.concatenate([np.full(40, 3.0e9), np.zeros(10)])
    size = predicted.copy()
    size[:16] *= 1.25
    carried = np.stack([tokens, predicted - tokens], axis=1)
    assert _saved(carried, size, np.array([True, False]), RULES)[1].mean() == 1.0
    assert _saved(carried, size, np.array([False, False]), RULES)[1].mean() < RULES.composition.complete


@pytest.mark.parametrize(("carried", "contexts"), [(1e6, False), (2e7, True)])
def test_contexts_carry_more_than_tokens_differ_by(carried, contexts):
    """A ring among the tokens finds what these differ by, and all groups agree about it."""
    job = job_of(Degrees(1, 4, 4, 1, 4), AMOUNTS | {"cp": carried})
    assert (
        any(it.degrees.contexts == 4 for one in found_in(job) for it in one.readings if it.degrees.experts == 4)
        is contexts
    )


@pytest.mark.parametrize(
    ("groups", "mesh"), [([(0, 4), (1, 5), (2, 6), (3, 7)], True), ([(3, 4)], False), ([(0, 1, 2, 3)], False)]
)
def test_every_rank_has_replicas_where_there_are_any(groups, mesh):
    """Tensor groups of two servers are joined by one hop each way: called gradients, it leaves most ranks alone."""
    none = np.zeros(0, dtype=np.int32)
    said = JobLayout(
        layout=Layout(4, 1, 2, None, None, Sharding.NONE, None, Schedule.UNKNOWN),
        groups=tuple(Group(PairKind.DP, members) for members in groups),
        pipelines=(),
        pairs=PairRoles(none, none, none.astype(np.int8), none.astype(np.float64)),
        transfer_kind=none.astype(np.int8),
        clock=None,
    )
    assert is_mesh(said, 8) is mesh
