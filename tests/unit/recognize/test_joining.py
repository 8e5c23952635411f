"""One job or two, given what was measured between clusters."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import ClockCandidate, StepClock
from llmprism.recognize.candidates import Candidate, PairCluster
from llmprism.recognize.joining import Joined, RailQuestion, job_groups, joined_by_clocks
from llmprism.recognize.rules import RULES


def cluster(index, boundaries=None, first_ns=0, last_ns=60_000):
    clock = None
    if boundaries is not None:
        clock = StepClock(np.asarray(boundaries, dtype=np.int64), np.ones(len(boundaries) - 1, dtype=np.bool_), 1.0)
    clocks = (ClockCandidate(clock, 1.0),) if clock is not None else ()
    members = np.array([2 * index, 2 * index + 1])
    return PairCluster(np.zeros(0, dtype=np.int32), members, frozenset("s"), clocks, clock, 100, first_ns, last_ns)


def groups(count, measured, sure=()):
    """Members of each job, given the bits between clusters."""
    questions = tuple(RailQuestion(i, j, 1.0) for i, j in measured)
    joined = Joined(tuple(cluster(i) for i in range(count)), tuple(sure), questions)
    return job_groups(joined, list(measured.values()))


def test_what_speaks_for_one_job_joins():
    one, two = groups(3, {(0, 1): 5.0, (0, 2): -4.0, (1, 2): -6.0})
    assert (one.clusters, one.held_by, one.kept_apart) == ((0, 1), 5.0, 5.0)
    assert (two.clusters, two.held_by, two.kept_apart) == ((2,), np.inf, 5.0)


def test_one_chance_likeness_does_not_outweigh_several_differences():
    """Two jobs of three rails each on the same servers; one rail of each happens to look like the other job's."""
    measured = {(i, j): 9.0 if (i < 3) == (j < 3) else -4.0 for j in range(6) for i in range(j)}
    measured[2, 3] = 6.0
    assert [group.clusters for group in groups(6, measured)] == [(0, 1, 2), (3, 4, 5)]


def test_no_single_answer_counts_for_more_than_it_can_know():
    measured = {(0, 1): 9.0, (0, 2): 39.0, (1, 2): -RULES.one_answer_bits - 1}
    assert len(groups(3, measured)) == 2, "0 and 2 first, then 1 with as much against it as for it"


def walk(seed, offset=0):
    return np.cumsum(np.random.default_rng(seed).integers(900, 1100, 50)) + offset


def test_clocks_that_step_together_settle_it_and_others_leave_it_open():
    clusters = [cluster(0, walk(1)), cluster(1, walk(1, 30)), cluster(2, walk(2))]
    found = joined_by_clocks(clusters, [Candidate(0, 1, 0.0), Candidate(0, 2, 0.5), Candidate(1, 2, 0.0)])
    assert found.sure == ((0, 1),)
    assert {(q.left, q.right) for q in found.questions} == {(0, 2), (1, 2)}
    assert all(q.step_ns == pytest.approx(1000, rel=0.05) for q in found.questions)


def test_clusters_that_never_met_are_not_compared():
    clusters = [cluster(0, walk(1), 0, 50_000), cluster(1, walk(1, 60_000), 60_000, 110_000)]
    assert joined_by_clocks(clusters, [Candidate(0, 1, 9.0)]).questions == ()


def test_very_many_questions_are_cut_to_a_few_of_each_cluster():
    count = 80
    found = [Candidate(i, j, 0.0) for i in range(count) for j in range(i + 1, count)]
    requested = joined_by_clocks([cluster(i) for i in range(count)], found).questions
    assert len(found) > RULES.many_questions > len(requested)
    assert {side for q in requested for side in (q.left, q.right)} == set(range(count))


def test_a_cluster_whose_steps_do_not_show_must_say_itself_whether_it_trains():
    few, many = cluster(0, [0, 1000, 2000]), cluster(1, walk(1))
    requested = joined_by_clocks([few, many], []).questions
    assert [(q.left, q.right) for q in requested] == [(0, 0)]
    serves, trains = job_groups(Joined((few, many), (), requested), [-RULES.trains_bits - 1.0])
    assert serves.trains == -1.0
    assert trains.trains == np.inf


def test_a_few_equal_steps_may_be_chance_many_may_not():
    for steps in (RULES.few_steps, RULES.chance_steps - 1, RULES.chance_steps):
        open_questions = joined_by_clocks([cluster(0, range(0, 1000 * steps + 1, 1000))], []).questions
        assert bool(open_questions) is (steps < RULES.chance_steps)


def test_what_trains_carries_the_clusters_that_it_is_joined_with():
    questions = (RailQuestion(0, 0, 0.0), RailQuestion(0, 1, 1.0))
    (both,) = job_groups(Joined((cluster(0), cluster(1)), (), questions), [-9.0, 5.0])
    assert both.trains == np.inf


def within(members, first_ns, last_ns):
    return PairCluster(np.zeros(0, dtype=np.int32), np.array(members), frozenset("s"), (), None, 100, first_ns, last_ns)


@pytest.mark.parametrize(
    ("part", "groups_found"),
    [((10, 20), 1), ((0, 100), 1), ((90, 110), 2)],
    ids=["inside", "the whole time", "beyond its end"],
)
def test_some_members_of_a_job_that_goes_on_have_not_left_it(part, groups_found):
    clusters = within([1, 2, 3, 4], 0, 100), within([2, 3], *part)
    assert len(job_groups(Joined(clusters, (), ()), [])) == groups_found


@pytest.mark.parametrize(("part", "groups_found"), [((130, 139), 1), ((130, 145), 2)], ids=["shorter", "longer"])
def test_some_members_that_are_seen_for_less_than_a_step_after_a_pause_are_no_job(part, groups_found):
    """The window ends in the first step after an evaluation, before the stages have sent to each other."""
    ticks = ClockCandidate(StepClock(np.arange(11) * 10, np.ones(10, dtype=np.bool_), 1.0), 1.0)
    clusters = replace(within([1, 2, 3, 4], 0, 100), clocks=(ticks,)), within([2, 3], *part)
    assert len(job_groups(Joined(clusters, (), ()), [])) == groups_found


def test_phases_of_phases_belong_to_the_whole():
    clusters = within([2], 40, 50), within([2, 3], 30, 60), within([1, 2, 3], 0, 100), within([7], 40, 50)
    assert [group.clusters for group in job_groups(Joined(clusters, (), ()), [])] == [(0, 1, 2), (3,)]


def joined_one_by_one(count, measured):
    """All means between all sets looked at anew after every join."""
    sets = [{i} for i in range(count)]

    def mean(one, two):
        between = [bits for (i, j), bits in measured.items() if (i in one) != (j in one) and {i, j} <= one | two]
        return sum(between) / len(between) if between else 0.0

    while True:
        order = sorted(sets, key=min)
        means = [(mean(a, b), -min(a), -min(b)) for n, a in enumerate(order) for b in order[n + 1 :]]
        best = max(means, default=(0.0, 0, 0))
        if best[0] <= 0.0:
            return sorted(tuple(sorted(one)) for one in sets)
        one, two = (next(s for s in sets if -number in s) for number in best[1:])
        sets.remove(two)
        one |= two


@pytest.mark.parametrize("seed", range(25))
def test_the_surest_are_joined_first_whatever_changes_on_the_way(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 12))
    two = [(i, j) for j in range(count) for i in range(j) if random.random() < 0.6]
    measured = dict(zip(two, random.integers(-9, 10, len(two)).astype(float).tolist(), strict=True))
    assert sorted(group.clusters for group in groups(count, measured)) == joined_one_by_one(count, measured)


def unclear(places, steps=()):
    """A cluster of two that makes so many steps, on these servers."""
    clock = StepClock(np.arange(len(steps) + 1, dtype=np.int64), np.ones(len(steps), dtype=np.bool_), 1.0)
    clocks = (ClockCandidate(clock, 1.0),) if steps else ()
    return PairCluster(
        np.zeros(0, dtype=np.int32), np.array([0, 1]), frozenset(places), clocks, None, 100, 0, 1, placed=bool(places)
    )


@pytest.mark.parametrize(
    ("other", "bits"),
    [
        (unclear("s", steps=range(8)), RULES.unlisted_bits),  # the topology lists who trains
        (unclear("s"), RULES.trains_bits),  # nobody is known to train
        (unclear("", steps=range(8)), RULES.trains_bits),  # it lists nobody
    ],
)
def test_what_a_topology_of_those_who_train_does_not_list_trains_seldom(other, bits):
    found = joined_by_clocks([unclear(""), other], [])
    assert next(q.bits for q in found.questions if q.left == q.right == 0) == bits
