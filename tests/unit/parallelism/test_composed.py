"""When the bytes of all pairs overrule what the passes found."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.model.layout import Group, JobLayout, Layout, PairKind, PairRoles
from llmprism.parallelism.composed import (
    Composed,
    _shards_and_replicas,
    better_composition,
    price_of,
    sizes_of,
    staged_instead,
    tensor_widths,
)
from llmprism.parallelism.composition import Explanations, Reading, compositions_of, most_saved
from llmprism.parallelism.rank_mesh import Degrees
from llmprism.parallelism.rules import RULES
from unit.parallelism.test_composition import AMOUNTS, job_of

TRUE = Degrees(tensors=1, contexts=4, replicas=3, stages=2, experts=1)


def said_of(job, layout, kinds):
    """What passes might say of a job: `kinds` names the kind of a pair from source and destination."""
    src, dst = job.transfers.pair_src, job.transfers.pair_dst
    roles = [(a, b, kind) for a, b in zip(src.tolist(), dst.tolist(), strict=True) for kind in kinds(a, b)]
    ends = np.array(roles, dtype=np.int32).reshape(-1, 3)
    pairs = PairRoles(ends[:, 0], ends[:, 1], ends[:, 2].astype(np.int8), np.ones(len(roles)))
    replicas = Group(PairKind.DP, tuple(np.unique(ends[ends[:, 2] == PairKind.DP, :2]).tolist()))
    return JobLayout(layout, (replicas,), (), pairs, np.zeros(0, dtype=np.int8))


def all_gradients(a, b):
    return (PairKind.PP,) if abs(a - b) == 12 else (PairKind.DP,)


def as_built(a, b):
    ring = [PairKind.DP] if b % 12 == (a + 1) % 12 else []
    context = [PairKind.CP] if a // 4 == b // 4 and b % 4 == (a + 1) % 4 else []
    return (PairKind.PP,) if abs(a - b) == 12 else (*ring, *context)


@pytest.fixture(name="job")
def _job():
    return job_of(TRUE, AMOUNTS)


def better(job, said):
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    return better_composition(found, job.transfers, said)


def test_contexts_that_the_passes_overlooked_are_found_by_their_bytes(job):
    composed = better(job, said_of(job, Layout(1, 2, 12), all_gradients))
    assert composed is not None
    assert {group.members for group in composed.contexts} == {tuple(range(i, i + 4)) for i in range(0, 24, 4)}
    assert composed.experts == ()
    assert composed.carries[PairKind.CP].sum() == 24
    assert not composed.either


def test_a_layout_that_says_what_the_bytes_say_stands(job):
    assert better(job, said_of(job, Layout(1, 2, 3, cp=4), as_built)) is None


def test_right_degrees_with_wrong_pairs_do_not_stand(job):
    assert better(job, said_of(job, Layout(1, 2, 3, cp=4), all_gradients)) is not None


def test_what_bytes_leave_open_stands():
    job = job_of(Degrees(1, 2, 4, 1, 1), AMOUNTS)

    def experts(a, b):
        ring = [PairKind.DP] if b == (a + 1) % 8 else []
        return (*ring, *([PairKind.EP] if a // 2 == b // 2 else []))

    assert better(job, said_of(job, Layout(1, 1, 8, ep=2), experts)) is None
    composed = better(job, said_of(job, Layout(1, 1, 8), lambda a, b: (PairKind.DP,)))
    assert composed is not None
    assert composed.either


def test_bytes_that_are_not_explained_overrule_no_layout(job):
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    poor = Explanations(tuple(replace(one, fitted=0.5) for one in found.compositions))
    assert better_composition(poor, job.transfers, said_of(job, Layout(1, 2, 12), all_gradients)) is None
    assert better_composition(poor, job.transfers, said_of(job, Layout(None, 2, 7), all_gradients)) is not None
    assert better_composition(Explanations(), job.transfers, said_of(job, Layout(1, 2, 12), all_gradients)) is None


def test_what_explains_nearly_all_pairs_counts_before_what_saves_a_few_bits_more(job):
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    (best, *_) = found.compositions
    replicas = Reading(Degrees(1, 1, 12, 2, 1), tuple((PairKind.DP,) for _ in best.carried))
    rival = replace(best, bits=best.bits + 5.0, fitted=0.7, readings=(replicas,))
    said = said_of(job, Layout(1, 2, 12), all_gradients)
    composed = better_composition(replace(found, compositions=(rival, *found.compositions)), job.transfers, said)
    assert composed is not None
    assert {group.members for group in composed.contexts} == {tuple(range(i, i + 4)) for i in range(0, 24, 4)}


def test_exchanges_that_cross_are_not_both_what_they_were_called():
    """Hops of a tree of gradients were called experts, across the contexts: bytes need the contexts alone."""
    job = job_of(Degrees(1, 2, 2, 4, 1), AMOUNTS, route=3)

    def crossing(a, b):
        if abs(a - b) == 4:
            return (PairKind.PP,)
        return (PairKind.DP, PairKind.CP) if a // 2 == b // 2 else (PairKind.EP,)

    kinds = ((PairKind.CP, ((0, 1), (2, 3))), (PairKind.EP, ((0, 2), (1, 3))))
    groups = tuple(Group(kind, members) for kind, each in kinds for members in each)
    said = replace(said_of(job, Layout(1, 4, 2, ep=2, cp=2), crossing), groups=groups)
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),), said)
    assert found.said_bits == 0.0
    composed = better_composition(found, job.transfers, said)
    assert composed is not None
    assert composed.contexts
    assert not composed.experts


@pytest.mark.parametrize("layout", [Layout(1, 24, None, cp=4), Layout(1, 24, 1, ep=4), Layout(None, None, None)])
def test_degrees_that_make_no_mesh_of_the_ranks_stand_against_no_bytes(job, layout):
    """However well their pairs are named."""
    said, sizes = said_of(job, layout, as_built), (job.transfers.pair_bytes.astype(np.float64),)
    found = compositions_of(job, sizes, said)
    assert found.said_bits == 0.0
    composed = better_composition(found, job.transfers, said)
    assert composed is not None
    assert {group.members for group in composed.contexts} == {tuple(range(i, i + 4)) for i in range(0, 24, 4)}
    assert compositions_of(job, sizes, said_of(job, Layout(1, 2, 3, cp=4), as_built)).said_bits > 0.0


def test_shards_with_replicas_are_no_pipelines_of_two_where_the_passes_saw_them():
    job = job_of(Degrees(1, 1, 4, 2, 1), AMOUNTS)
    gradients = said_of(job, Layout(1, 1, 8), lambda a, b: (PairKind.DP,))
    composed = better(job, gradients)
    assert composed is not None
    assert composed.carries[PairKind.PP].any()
    halves = tuple(Group(PairKind.DP, members) for members in ((0, 1, 2, 3), (0, 4)))
    assert better(job, replace(gradients, groups=halves)) is None


def test_pipelines_of_two_are_cheaper_than_shards_with_replicas_that_the_passes_saw():
    job = job_of(Degrees(1, 1, 4, 2, 1), AMOUNTS)
    gradients = said_of(job, Layout(1, 1, 8), lambda a, b: (PairKind.DP,))
    halves = tuple(Group(PairKind.DP, members) for members in ((0, 1, 2, 3), (0, 4)))
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    staged = staged_instead(found, replace(gradients, groups=halves))
    assert staged is not None
    assert staged.carries[PairKind.PP].any()
    assert not staged.sharded
    assert staged_instead(found, gradients) is None, "only in place of shards with replicas"


def test_readings_as_shards_with_replicas_can_be_left_out():
    job = job_of(Degrees(1, 1, 4, 2, 1), AMOUNTS)
    gradients = said_of(job, Layout(1, 1, 8), lambda a, b: (PairKind.DP,))
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    hybrid = [(one, tuple(it for it in one.readings if it.degrees.shards > 1)) for one in found.compositions]
    shards = replace(found, compositions=tuple(replace(one, readings=its) for one, its in hybrid if its))
    composed = better_composition(shards, job.transfers, gradients)
    assert composed is not None
    assert composed.sharded
    assert better_composition(shards, job.transfers, gradients, sharded=False) is None


def test_contexts_that_the_passes_saw_stay_where_bytes_cannot_tell_them_from_replicas():
    """One replica of four contexts adds up its gradients on the ring of the contexts; the passes overlooked stages."""
    job = job_of(Degrees(1, 1, 4, 2, 1), AMOUNTS)
    composed = better(job, said_of(job, Layout(1, 1, 1, cp=4), lambda a, b: (PairKind.CP,)))
    assert composed is not None
    assert composed.carries[PairKind.PP].any()
    assert {group.members for group in composed.contexts} == {(0, 1, 2, 3), (4, 5, 6, 7)}


def test_a_reading_costs_by_the_decisions_of_the_passes_that_it_denies():
    def price(degrees, layout):
        return price_of(Reading(degrees, ((PairKind.DP,),)), layout, RULES)

    contexts, experts = Degrees(1, 2, 4, 1, 1), Degrees(1, 1, 8, 1, 2)
    one = RULES.composition.denied_bits
    assert price(contexts, Layout(1, 1, 4, cp=2)) == RULES.composition.axis_bits
    assert price(experts, Layout(1, 1, 4, cp=2)) == RULES.composition.axis_bits + one, "which of the two it is"
    assert price(Degrees(2, 1, 4, 1, 1), Layout(1, 1, 4, cp=2)) == one, "or a tensor group across servers"
    assert price(Degrees(1, 1, 8, 1, 1), Layout(1, 1, 4, cp=2)) == one
    assert price(Degrees(2, 1, 4, 1, 1), Layout(1, 1, 8)) == one
    assert price(Degrees(1, 1, 4, 2, 1), Layout(1, 1, 8)) == one, "the number of replicas follows"


def test_exchanges_on_the_pairs_of_gradients_are_carried_besides(job):
    composed = better(job, said_of(job, Layout(1, 2, 12), all_gradients))
    pairs = composed.carries[PairKind.DP]
    without = replace(composed, contexts=(), carries=composed.carries | {PairKind.CP: np.zeros_like(pairs)})
    rings = (Group(PairKind.CP, (0, 1)),)
    found = without.with_rings(pairs, rings)
    assert not without.exchanges
    assert found.exchanges
    assert found.contexts == rings
    assert (found.carries[PairKind.CP] == pairs).all()
    assert (found.carries[PairKind.DP] == pairs).all()


def test_rails_of_contexts_say_how_wide_tensor_groups_are():
    servers = tuple(f"s{rank // 2}" for rank in range(12))
    job = replace(job_of(Degrees(2, 3, 2, 1, 1), AMOUNTS), places=servers)
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    assert tensor_widths(found, Layout(1, 1, 4, cp=3)) == {2}
    assert tensor_widths(found, Layout(1, 4, 1)) == frozenset(), "a layout that is no reading"
    assert tensor_widths(Explanations(), Layout(1, 1, 4, cp=3)) == frozenset()


def test_pairs_that_are_silent_in_most_steps_count_by_their_share_of_the_window(job):
    bulk = np.ones(job.transfers.pair_count, dtype=np.bool_)
    step = job.transfers.pair_bytes / 10.0
    step[0] = 0.0
    whole, usual = sizes_of(job.transfers, bulk, step)
    assert usual == pytest.approx(whole / 10.0)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_nothing_is_looked_for_where_no_composition_can_be_far_ahead(noise):
    """Two collectives that predict all bytes to the last one leave less to save than what decides; lost records do."""
    degrees = Degrees(tensors=1, contexts=1, replicas=12, stages=2, experts=1)
    job = job_of(degrees, AMOUNTS, noise=noise)
    sizes = (job.transfers.pair_bytes.astype(np.float64),)
    alone = compositions_of(job, sizes)
    found = compositions_of(job, sizes, said_of(job, Layout(1, 2, 12), all_gradients))
    assert found.said_bits == pytest.approx(alone.compositions[0].bits, abs=2.0)
    assert found.compositions == () if not noise else found.compositions[0].bits == alone.compositions[0].bits


@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.003, 0.1])
@pytest.mark.parametrize("degrees", [Degrees(1, 1, 8, 1, 1), TRUE, Degrees(1, 1, 8, 2, 4)], ids=str)
def test_no_composition_saves_more_than_the_bound(degrees, noise):
    job = job_of(degrees, AMOUNTS, noise=noise)
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    most = most_saved(job.transfers.pair_count, RULES)
    assert all(one.bits <= most for one in found.compositions)
    if degrees.stages == 1 and not noise:
        assert found.compositions[0].bits == pytest.approx(most, rel=1e-5)


def test_shards_and_the_copies_of_each_cross():
    """Eight ranks in tensor groups of two: shards of two, two copies."""
    halves = _shards_and_replicas(np.arange(10, 18), Degrees(2, 1, 4, 1, 1, shards=2))
    assert {group.members for group in halves} == {
        (10, 12), (11, 13), (14, 16), (15, 17), (10, 14), (11, 15), (12, 16), (13, 17),
    }  # fmt: skip
    assert _shards_and_replicas(np.arange(8), Degrees(2, 1, 4, 1, 1)) == ()


def test_tensor_groups_that_moments_show_take_the_place_of_gradients():
    pairs = np.array([True, False, True])
    none = np.zeros(3, dtype=np.bool_)
    carries = {PairKind.DP: np.array([True, True, False]), PairKind.TP: none}
    one = Composed(carries, {}, (), (), either=False, sharded=False, bits=1.0).with_tensors(pairs)
    assert one.carries[PairKind.TP].tolist() == [True, False, True]
    assert one.carries[PairKind.DP].tolist() == [False, True, False]
