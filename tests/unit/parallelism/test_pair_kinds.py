import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.model import PairKind
from llmprism.parallelism import pair_kinds
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import LinkEvidence
from llmprism.parallelism.pair_kinds import LinkKinds, _sums_of_ends, judge_links, reconcile, without_false_pipelines
from llmprism.stats.disjoint_sets import root_of

DP, PP, OTHER = PairKind.DP, PairKind.PP, PairKind.OTHER


def shown(turns=0.0, lead=0.0, together=0.25, width=0.6, one_way=False, closed=False, ends_apart=0.1,
          passing=False):  # fmt: skip
    """The verdict on one link that shows this."""
    one = np.array([0], dtype=np.int32)
    links = Links(one, one + 1, one, one + 1)
    features = PairFeatures(np.full(2, 100.0), np.zeros(2), np.full((2, 4), 0.25), np.full(2, 1000.0))
    values = (np.array([float(value)]) for value in (turns, lead, together, width, ends_apart))
    evidence = LinkEvidence(np.array([one_way]), np.array([0]), np.array([closed]), *values, np.array([passing]))
    judged = judge_links(links, features, evidence)
    return PairKind(judged.kind[0]), judged.confidence[0]


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        ({"turns": 1.0, "lead": 1.0, "together": 0.05}, PP),
        ({"turns": 3.0, "lead": 2.5, "together": 0.95}, PP),  # both directions are sent in one batch
        ({"turns": 1.0, "lead": 0.0, "together": 0.05}, PP),  # a pipeline that never rests
        ({"turns": 0.1, "lead": 0.0, "together": 0.9}, DP),
        ({"turns": 0.2, "lead": 0.7, "together": 0.6}, DP),  # a busy network: one direction lags at times
        ({"turns": 1.0, "lead": 0.8, "together": 0.4, "width": 0.3, "ends_apart": 0.0}, DP),  # replicas of shards
        ({"turns": 2.0, "lead": 0.0, "together": 0.5, "width": 0.1}, DP),  # a tree: up and down in one burst
        ({"turns": 9.0, "lead": 5.0, "together": 0.1, "closed": True}, DP),  # gathers one way, reduces the other
        ({"turns": 9.0, "lead": 5.0, "one_way": True}, DP),
        ({"turns": 0.1, "together": 0.9, "width": 0.15, "passing": True}, PP),  # next to a large collective
    ],
)
def test_a_pipeline_takes_turns_by_a_message_and_stays_ahead_a_collective_does_neither(evidence, kind):
    assert shown(**evidence)[0] is kind


@pytest.mark.parametrize(
    ("silent", "inside", "kind"),
    [
        (2, True, PP),  # the rings fill the step, and the link keeps to what they leave
        (2, False, DP),  # as narrow, but while the rings are busy
        (8, True, DP),  # the rings leave most of the step: a burst there tells nothing
    ],
)
def test_passes_of_a_network_bound_job_keep_to_the_time_that_the_rings_leave(silent, inside, kind):
    slots, rings = 10, 2
    busy = np.where(np.arange(slots) < silent, 0.0, 1.0 / (slots - silent))
    burst = np.zeros(slots)
    burst[:2] = 0.5
    profile = np.stack([busy] * rings + [burst if inside else burst[::-1]] * 4)
    low, high = np.array([0, 2, 0, 1], dtype=np.int32), np.array([1, 3, 2, 3], dtype=np.int32)
    there, back = np.array([0, 1, 2, 3], dtype=np.int32), np.array([-1, -1, 4, 5], dtype=np.int32)
    features = PairFeatures(np.full(6, 100.0), np.zeros(6), profile, np.full(6, 1000.0))
    one_way = np.array([True, True, False, False])
    values = (np.full(4, value) for value in (0.6, 0.5, 0.25, 0.2, 0.1))
    evidence = LinkEvidence(
        one_way, np.array([0, 0, 1, 1]), np.zeros(4, dtype=np.bool_), *values, np.zeros(4, dtype=np.bool_)
    )
    assert PairKind(judge_links(Links(low, high, there, back), features, evidence).kind[3]) is kind


@pytest.mark.parametrize(("heavier", "kind"), [(100.0, PP), (2.0, DP)])
def test_a_burst_is_passes_next_to_links_that_fill_the_step_only_where_those_carry_far_more(heavier, kind):
    """Two-way links alone: gradients of two replicas that fill a network-bound step, or passes and then gradients."""
    filling, burst = np.where(np.arange(10) < 2, 0.0, 1.0 / 8), np.where(np.arange(10) < 2, 0.5, 0.0)
    low, high = np.array([0, 2, 0, 1], dtype=np.int32), np.array([1, 3, 2, 3], dtype=np.int32)
    there, back = np.arange(4, dtype=np.int32), np.arange(4, 8, dtype=np.int32)
    size = np.tile([heavier, heavier, 1.0, 1.0], 2) * 100.0
    features = PairFeatures(size, np.zeros(8), np.stack(([filling] * 2 + [burst] * 2) * 2), 10.0 * size)
    values = [np.repeat(value, 2) for value in ([0.2, 3.0], [0.5, 0.0], [0.35, 0.0], [0.8, 0.13], [0.1, 0.9])]
    evidence = LinkEvidence(
        np.zeros(4, dtype=np.bool_),
        np.array([0, 0, 1, 1]),
        np.zeros(4, dtype=np.bool_),
        *values,
        np.zeros(4, dtype=np.bool_),
    )
    judged = judge_links(Links(low, high, there, back), features, evidence)
    assert PairKind(judged.kind[0]) is DP
    assert PairKind(judged.kind[2]) is kind


def test_more_evidence_is_surer():
    sure, unsure = shown(turns=3.0, lead=2.0, together=0.05)[1], shown(turns=0.6, lead=0.5, together=0.25)[1]
    assert 0.5 <= unsure < sure <= 1.0


def links_and_kinds(edges):
    low, high, kind, confidence = zip(*edges, strict=True)
    count = len(edges)
    links = Links(
        np.array(low, dtype=np.int32), np.array(high, dtype=np.int32),
        np.arange(count, dtype=np.int32), np.full(count, -1, dtype=np.int32),
    )  # fmt: skip
    judged = LinkKinds(
        np.array(kind, dtype=np.int8),
        np.array(confidence),
        np.zeros(count, dtype=np.bool_),
        np.ones(count, dtype=np.bool_),
    )
    return links, judged


def graph(*edges):
    """Links (low, high, kind, confidence) reconciled; the kinds that come out."""
    return reconcile(*links_and_kinds(edges))


def kinds(*edges):
    return [PairKind(kind) for kind in graph(*edges).kind]


def test_a_consistent_graph_stays_as_it_is():
    edges = [(0, 1, DP, 0.9), (2, 3, DP, 0.8), (0, 2, PP, 0.9), (1, 3, PP, 0.7)]
    found = graph(*edges)
    assert [PairKind(kind) for kind in found.kind] == [DP, DP, PP, PP]
    assert found.confidence.tolist() == [0.9, 0.8, 0.9, 0.7]


def test_a_pipeline_link_inside_a_group_is_of_the_group():
    found = graph((0, 1, DP, 0.9), (1, 2, DP, 0.9), (0, 2, PP, 0.6))
    assert [PairKind(kind) for kind in found.kind] == [DP, DP, DP]
    assert found.confidence[2] == pytest.approx(0.4)


def test_one_wrong_link_glues_no_groups_together():
    """Two rings of three, joined by three pipeline links of which one was taken for a collective."""
    rings = [(0, 1, DP, 0.95), (1, 2, DP, 0.95), (0, 2, DP, 0.95), (3, 4, DP, 0.95), (4, 5, DP, 0.95), (3, 5, DP, 0.95)]
    found = kinds(*rings, (0, 3, PP, 0.9), (1, 4, PP, 0.9), (2, 5, DP, 0.6))
    assert found[:8] == [DP] * 6 + [PP] * 2
    assert found[8] is PP, "as a collective it would glue two groups that other pipeline links join"


def test_a_few_wrong_pipeline_links_do_not_cut_a_group():
    ring = [(0, 1, DP, 0.9), (1, 2, DP, 0.9), (2, 3, DP, 0.9), (0, 3, DP, 0.9)]
    found = kinds(*ring, (0, 2, PP, 0.95))
    assert found[:4] == [DP] * 4


def test_a_collective_between_members_of_one_pipeline_is_refused():
    assert kinds((0, 1, PP, 0.9), (1, 2, PP, 0.9), (0, 2, DP, 0.6)) == [PP, PP, OTHER]
    assert kinds((0, 1, PP, 0.9), (1, 2, PP, 0.6), (0, 2, DP, 0.8)) == [PP, PP, OTHER], "and if it is surer than they"


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(8, 15), st.sampled_from([DP, PP]), st.floats(0.5, 1.0)),
        min_size=1, max_size=30, unique_by=lambda edge: edge[:2],
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_any_graph_is_reconciled_whatever_the_numbers_of_its_nodes(edges, random):
    """Confidences are made distinct, so that the order of acceptance is the same for both numberings."""
    edges = [(a, b, kind, 0.5 + 0.49 * (i + 1) / len(edges)) for i, (a, b, kind, _) in enumerate(edges)]
    found = graph(*edges)
    assert all(
        result == judged or 0.0 <= c <= 0.5
        for result, (*_, judged, _), c in zip(found.kind, edges, found.confidence, strict=True)
    )
    other = list(range(16))
    random.shuffle(other)
    renamed = [(min(other[a], other[b]), max(other[a], other[b]), kind, sure) for a, b, kind, sure in edges]
    assert graph(*renamed).kind.tolist() == found.kind.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_it_does_not_matter_from_which_of_two_groups_their_links_are_counted(seed, monkeypatch):
    """Votes of few magnitudes, many of which add up to nothing but rounding; the other way is to count always from the
    group of the link's low end, as where rounding could decide."""
    rng = np.random.default_rng(seed)
    ends = sorted({tuple(sorted(two)) for two in rng.integers(0, 24, (50, 2)).tolist() if two[0] != two[1]})
    edges = [(a, b, DP if rng.random() < 0.6 else PP, float(rng.choice([0.6, 0.7, 0.9]))) for a, b in ends]
    with always_interpreted():
        found = graph(*edges).kind.tolist()
        monkeypatch.setattr(pair_kinds, "ROUNDING", np.inf)
        assert graph(*edges).kind.tolist() == found
    assert PP in found


def test_a_long_ring_is_not_walked_for_each_of_its_links():
    walked = []
    ring = [(i, i + 1, DP, 0.9) for i in range(399)]
    with always_interpreted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            pair_kinds, "root_of", lambda parent, node: (walked.append(node), root_of.python(parent, node))[1]
        )
        assert set(kinds(*ring)) == {DP}
    assert len(walked) < 20 * len(ring)


def pipelines_left(*edges):
    """Edges (low, high, kind) whose pipelines were checked: the kinds that come out, and how sure."""
    found = without_false_pipelines(*links_and_kinds([(*edge, 0.9) for edge in edges]))
    return [PairKind(kind) for kind in found.kind], found.confidence.tolist()


def test_chains_and_closed_chains_of_stages_are_pipelines():
    chain = [(0, 1, PP), (1, 2, PP), (2, 3, PP)]
    assert pipelines_left(*chain) == ([PP] * 3, [0.9] * 3)
    assert pipelines_left(*chain, (0, 3, PP)) == ([PP] * 4, [0.9] * 4)


def test_stages_with_replicas_that_are_stages_too_are_pipelines():
    edges = [(0, 1, PP), (2, 3, PP), (0, 2, DP), (1, 3, DP)]
    assert pipelines_left(*edges)[0] == [PP, PP, DP, DP]


def test_a_tree_branches_and_no_pipeline_does():
    tree = [(0, 1, PP), (0, 2, PP), (0, 3, PP)]
    assert pipelines_left(*tree) == ([DP] * 3, [0.6] * 3)


def test_a_chain_with_a_collective_to_somebody_who_is_no_stage_is_part_of_a_tree():
    assert pipelines_left((0, 1, PP), (1, 2, PP), (2, 3, DP)) == ([DP] * 3, [0.6, 0.6, 0.9])
    assert pipelines_left((3, 4, PP), (4, 5, PP), (2, 3, DP))[0] == [DP] * 3, "whichever end has the lesser number"


def test_other_pipelines_are_not_touched():
    tree, chain = [(0, 1, PP), (0, 2, PP), (0, 3, PP)], [(4, 5, PP), (5, 6, PP)]
    assert pipelines_left(*tree, *chain)[0] == [DP] * 3 + [PP] * 2


def test_other_traffic_to_somebody_who_is_no_stage_says_nothing():
    assert pipelines_left((0, 1, PP), (1, 2, OTHER))[0] == [PP, OTHER]


def test_without_pipelines_nothing_changes():
    assert pipelines_left((0, 1, DP), (1, 2, DP)) == ([DP, DP], [0.9, 0.9])


def test_sums_of_the_ends_of_links_are_the_same_by_loops_and_by_arrays():
    rng = np.random.default_rng(3)
    low, high, marked, values = (
        rng.integers(0, 9, 40),
        rng.integers(0, 9, 40),
        rng.random(40) < 0.6,
        rng.random((40, 5)),
    )
    with always_compiled():
        loops = _sums_of_ends(low, high, marked, values, 9)
    with always_interpreted():
        assert loops.tolist() == _sums_of_ends(low, high, marked, values, 9).tolist()
    assert loops.sum() == pytest.approx(2 * values[marked].sum())
