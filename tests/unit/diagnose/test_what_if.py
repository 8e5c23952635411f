"""Steps played again without a fault: small graphs whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.diagnose.rules import RULES
from llmprism.diagnose.what_if import StepGraph, Touched, _pace_lost_ns, lost_in_job, priced, saved_ns
from llmprism.model import Evidence, Finding, FindingKind, Sharding, Where, WhereType
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs

ALL = np.ones(STEPS, dtype=np.bool_)
SICK = during(10, 15, 1.0).astype(np.bool_)
FIVE = 5


def graph(ready, sync=((100,),), groups=((0, 1, 2, 3),)):
    """Times of every member (in order) and of every group, each a number or one per step."""
    rows = [np.broadcast_to(np.asarray(row, dtype=np.float64), (STEPS,)) for row in ready]
    syncs = [np.broadcast_to(np.asarray(row, dtype=np.float64), (STEPS,)) for row in sync]
    return StepGraph(np.stack(rows), np.stack(syncs), groups)


def touched(*members, groups=(), steps=SICK):
    return Touched(steps, frozenset(members), frozenset(groups))


def lost(steps_of, *faults):
    return float(saved_ns(steps_of, faults, ALL).sum())


def test_a_late_member_on_the_critical_path_costs_its_lateness():
    late = graph([500, 500, during(10, 15, 800, 500), 500])
    assert lost(late, touched(2)) == FIVE * 300
    assert (saved_ns(late, [touched(2)], ALL)[~SICK] == 0).all()


def test_lateness_that_hides_behind_another_group_costs_nothing():
    two = graph([500, during(10, 15, 700, 500), 900, 900], sync=((100,), (100,)), groups=((0, 1), (2, 3)))
    assert lost(two, touched(1)) == 0
    partly = graph([500, during(10, 15, 950, 500), 900, 900], sync=((100,), (100,)), groups=((0, 1), (2, 3)))
    assert lost(partly, touched(1)) == FIVE * 50


def test_a_slow_synchronisation_is_compared_with_its_own_healthy_steps():
    slow = graph([500] * 4, sync=(during(10, 15, 400, 100), (100,)), groups=((0, 1), (2, 3)))
    assert lost(slow, touched(groups=(0,))) == FIVE * 300


def test_a_fault_of_the_whole_window_is_compared_with_its_neighbours():
    late = graph([500, 500, 800, 500])
    assert lost(late, touched(2, steps=ALL)) == STEPS * 300
    slow = graph([500] * 4, sync=((400,), (100,)), groups=((0, 1), (2, 3)))
    assert lost(slow, touched(groups=(0,), steps=ALL)) == STEPS * 300


def test_where_nothing_healthy_is_there_to_compare_with_it_costs_nothing():
    assert lost(graph([800] * 4), touched(0, 1, 2, 3, steps=ALL)) == 0


def test_two_faults_in_parallel_cost_nothing_alone_and_share_what_they_cost_together():
    both = graph([500, 500, during(10, 15, 800, 500), during(10, 15, 800, 500)])
    assert lost(both, touched(2)) == lost(both, touched(3)) == 0
    assert lost(both, touched(2), touched(3)) == FIVE * 300


def test_jitter_that_healing_removes_is_not_charged_to_the_fault():
    random = np.random.default_rng(1)
    ready = 500 + 20 * random.standard_normal((4, STEPS))
    assert abs(lost(graph(ready), touched(2))) < FIVE * 10
    ready[2, 10:15] += 300
    assert lost(graph(ready), touched(2)) == pytest.approx(FIVE * 300, rel=0.1)


@given(st.integers(0, 3), st.integers(0, 2000), st.integers(0, 2000))
def test_healing_never_costs_and_never_saves_more_than_was_added(member, late, elsewhere):
    rows = [np.full(STEPS, 500.0) for _ in range(4)]
    rows[member] = during(10, 15, 500.0 + late, 500.0)
    two = graph([*rows, 500 + elsewhere, 500], sync=((100,), (100,)), groups=((0, 1, 2, 3), (4, 5)))
    saved = saved_ns(two, [touched(member)], ALL)
    assert (saved[SICK] == max(late - elsewhere, 0)).all()
    assert (saved[~SICK] == 0).all()


def finding(kind, where, steps, job="job"):
    return Finding(
        kind, job, where, int(steps.start_ns[10]), int(steps.end_ns[14]), 0.1, 0.9, 7.0, "s", (Evidence("e", 1),)
    )


def test_findings_get_the_cost_of_all_jobs_and_others_keep_theirs():
    steps = evidence_of(ring_pairs("abcd"), groups=("abcd",)).timeline.steps
    slow = finding(FindingKind.SLOW_NIC, Where(WhereType.NIC, "a"), steps)
    crash = finding(FindingKind.CRASH, Where(WhereType.GPU, "a"), steps)
    costs = [(0, 1.25), (0, 2.0)]
    assert [one.lost_gpu_seconds for one in priced([slow, crash], costs)] == [3.25, 7.0]


def test_a_job_without_groups_is_compared_with_its_own_healthy_steps():
    job = evidence_of(ring_pairs("abcd"), duration=during(10, 15, 1.5 * STEP, STEP))
    slow = finding(FindingKind.SLOW_NIC, Where(WhereType.NIC, "b"), job.timeline.steps)
    other = finding(FindingKind.SLOW_NIC, Where(WhereType.NIC, "b"), job.timeline.steps, job="another")
    crash = finding(FindingKind.CRASH, Where(WhereType.GPU, "b"), job.timeline.steps)
    assert lost_in_job(job, [slow, other, crash]) == {0: pytest.approx(FIVE * 0.5 * 4)}
    assert lost_in_job(job, [crash]) == {}


def storage_fault(first, last, evidence):
    steps = evidence.timeline.steps
    start, end = int(steps.start_ns[first]), int(steps.end_ns[last - 1])
    return Finding(FindingKind.SLOW_STORAGE, None, Where(WhereType.STORAGE, "s"), start, end, 0.5, 0.9, 0.0, "", ())


def test_slow_storage_costs_what_steps_and_the_pauses_between_them_take_beyond_the_usual():
    pairs = ring_pairs("abcd")
    evidence = evidence_of(pairs, groups=("abcd",), duration=during(10, 15, 1.4 * STEP, STEP))
    assert lost_in_job(evidence, [storage_fault(10, 15, evidence)]) == {0: pytest.approx(5 * 0.4 * 4)}


def test_where_all_steps_are_touched_the_cost_of_storage_is_not_known():
    evidence = evidence_of(ring_pairs("abcd"), groups=("abcd",))
    assert lost_in_job(evidence, [storage_fault(0, STEPS, evidence)]) == {}


def slow_gpu_of(sharding):
    """Steps take half as long again while a GPU is slow, and nobody is late where gradients are synchronised."""
    job = evidence_of(ring_pairs("abcd"), duration=during(10, 15, 1.5 * STEP, STEP), groups=("abcd",))
    job = replace(job, layout=replace(job.layout, layout=replace(job.layout.layout, sharding=sharding)))
    steps = job.timeline.steps
    start, end = int(steps.start_ns[10]), int(steps.end_ns[14])
    finding = Finding(FindingKind.SLOW_GPU, "job", Where(WhereType.GPU, "b"), start, end, 0.3, 0.9, 0.0, "slow")
    return _pace_lost_ns(job, finding, RULES)


def test_a_slow_gpu_that_all_wait_for_many_times_a_step_costs_what_the_steps_take_longer():
    assert slow_gpu_of(Sharding.FSDP) == pytest.approx(during(10, 15, 0.5 * STEP))
    assert slow_gpu_of(Sharding.NONE) is None  # its step's graph is played again
