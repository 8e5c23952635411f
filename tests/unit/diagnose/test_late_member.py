from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import late_member
from llmprism.diagnose.detector import DetectorInput
from llmprism.diagnose.late_member import (
    _slower_for_a_while,
    find_late_members,
    sends_slowly,
)
from llmprism.diagnose.own_gaps import OwnGaps
from llmprism.diagnose.rules import RULES
from llmprism.model import FindingKind, Where, WhereType, Window
from llmprism.pipeline import diagnose
from unit.builders import address_of, build_job, cut_in_pieces, flow_table
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs, slow_all_along

PAIRS = ring_pairs("abcd") + ring_pairs("efgh")
GROUPS = ("abcd", "efgh")


def late_job(late, duration=None, **settings):
    return evidence_of(PAIRS, late=late, groups=GROUPS, duration=duration, **settings)


def found(late, duration=None, accused=None, **settings):
    return find_late_members(late_job(late, duration, **settings), accused or {})


def test_a_gpu_late_step_after_step_is_slow():
    job = late_job({"c": during(6, 14, 600.0)}, during(6, 14, 1.6 * STEP, STEP))
    (finding,) = find_late_members(job, {})
    assert finding.kind is FindingKind.SLOW_GPU
    assert finding.where == Where(WhereType.GPU, "c")
    steps = job.timeline.steps
    assert (finding.start_ns, finding.end_ns) == (steps.start_ns[6], steps.end_ns[13])
    assert finding.severity == pytest.approx(0.375, abs=0.001)
    assert finding.lost_gpu_seconds == pytest.approx(8 * 0.6 * 8)
    assert finding.evidence[0].value == pytest.approx(600.0)
    assert "8 of 8 steps" in finding.summary


def test_a_gpu_slow_to_the_end_has_no_end():
    (finding,) = found({"f": during(6, STEPS, 600.0)}, during(6, STEPS, 1.6 * STEP, STEP))
    assert (finding.where.id, finding.end_ns) == ("f", None)


def test_a_gpu_slow_from_the_first_step_on_is_found_and_costs_what_it_is_late():
    """There is no healthy step to compare with: its lateness against its peers is all there is."""
    (finding,) = found({"c": np.full(STEPS, 600.0)}, np.full(STEPS, 1.6 * STEP))
    assert finding.where.id == "c"
    assert finding.severity == pytest.approx(600 / 1600, abs=0.01)
    assert finding.lost_gpu_seconds == pytest.approx(STEPS * 0.6 * 8)


def test_where_many_are_late_from_the_first_step_on_it_is_the_jobs_order():
    assert found({member: np.full(STEPS, 300.0) for member in "cfh"}, np.full(STEPS, 1.6 * STEP)) == []


def test_a_gpu_that_stands_still_once_is_a_stall_not_a_slow_gpu():
    duration = during(9, 10, 9_100e6, STEP)
    (finding,) = found({"c": during(9, 10, 9_000.0)}, duration)
    assert finding.kind is FindingKind.STALL
    assert finding.where.id == "c"
    assert finding.lost_gpu_seconds == pytest.approx(8.1 * 8)
    assert finding.evidence[0].value == pytest.approx(9.0)


def test_a_gpu_that_is_late_in_two_long_steps_in_a_row_is_slow_and_stood_still_in_neither():
    (finding,) = found({"c": during(9, 11, 5_000.0)}, during(9, 11, 6_000e6, STEP))
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_GPU, "c")


@pytest.mark.parametrize(("silence_ms", "own", "stalls"), [(8_000, True, 1), (8_000, False, 0), (500, True, 0)])
def test_a_gpu_stood_still_only_if_one_silence_of_its_own_is_most_of_what_it_was_late(
    monkeypatch, silence_ms, own, stalls
):
    """One that computes slowly sends in between, and one that waits is answered."""
    row, step, length = (np.array([value]) for value in (2, 9, silence_ms * 1e6))
    gaps = OwnGaps(row, step, length, np.array([own]), np.array([False]))
    monkeypatch.setattr(late_member, "own_gaps", lambda *_: gaps)
    findings = found({"c": during(9, 10, 9_000.0)}, during(9, 10, 9_100e6, STEP))
    assert [finding.kind for finding in findings] == [FindingKind.STALL] * stalls


def test_a_stand_still_of_less_than_a_few_steps_is_no_stall():
    assert found({"c": during(9, 10, 3_500.0)}, during(9, 10, 4_500e6, STEP)) == []


def test_a_few_odd_steps_are_no_finding():
    assert found({"c": during(9, 11, 600.0)}, during(9, 11, 1.6 * STEP, STEP)) == []
    assert found({"c": during(9, 12, 200.0)}, during(9, 12, 1.2 * STEP, STEP)) == [], "less than four seconds"


def test_lateness_that_does_not_slow_the_job_is_no_finding():
    assert found({"c": during(6, 14, 600.0)}) == []


def test_jitter_is_no_finding():
    for seed in range(8):
        random = np.random.default_rng(seed)
        late = {member: random.normal(0, 120.0, STEPS) for member in "abcdefgh"}
        assert found(late, STEP * random.uniform(0.8, 1.3, STEPS)) == []


def test_wild_jitter_widens_the_cut():
    for seed in range(8):
        random = np.random.default_rng(seed)
        late = {member: random.normal(0, 600.0, STEPS) for member in "abcdefgh"}
        assert found(late, STEP * random.uniform(0.8, 2.0, STEPS)) == []


def test_the_set_up_step_is_not_judged():
    assert found({"c": during(0, 1, 9_000.0)}, during(0, 1, 90 * STEP, STEP), setup=True) == []


def test_who_waits_for_a_slow_nic_is_excused_at_that_time_only():
    late, duration = {"c": during(6, 14, 600.0)}, during(6, 14, 1.6 * STEP, STEP)
    job = late_job(late, duration)
    steps = job.timeline.steps
    assert find_late_members(job, {"a": [(int(steps.start_ns[5]), int(steps.end_ns[15]))]}) == []
    assert len(find_late_members(job, {"a": [(0, int(steps.end_ns[2]))]})) == 1
    assert len(find_late_members(job, {"elsewhere": [(0, int(steps.end_ns[-1]))]})) == 1


def test_one_cause_is_one_finding():
    """c is late and makes others late after it; only the latest is named."""
    late = {"c": during(6, 14, 600.0), "g": during(7, 14, 400.0)}
    (finding,) = found(late, during(6, 14, 1.6 * STEP, STEP))
    assert finding.where.id == "c"


def test_two_slow_gpus_one_after_the_other_are_two_findings():
    late = {"c": during(2, 7, 600.0), "g": during(12, 17, 500.0)}
    duration = during(2, 7, 1.6 * STEP, STEP) + during(12, 17, 0.6 * STEP)
    assert {finding.where.id for finding in found(late, duration)} == {"c", "g"}


def test_a_late_group_that_can_afford_it_is_no_finding():
    """A last stage ends its synchronisation long before the step does."""
    job = late_job({"c": during(6, 14, 600.0)}, during(6, 14, 1.6 * STEP, STEP))
    job.timeline.member_end_ns[:4] -= int(0.8 * STEP)
    assert find_late_members(job, {}) == []


def test_nothing_known_nothing_found():
    assert found({member: np.full(STEPS, np.nan) for member in "abcdefgh"}) == []


def test_a_little_late_is_found_in_nearly_all_steps_or_in_longer_ones_only():
    (finding,) = found({"c": np.full(STEPS, 100.0)}, np.full(STEPS, 1.1 * STEP))
    assert (finding.where.id, finding.end_ns) == ("c", None)
    (finding,) = found({"c": during(4, 12, 100.0)}, during(4, 12, 1.12 * STEP, STEP))
    assert finding.where.id == "c"
    assert found({"c": during(4, 12, 100.0)}) == []


def test_a_stage_that_works_longer_than_its_replicas_from_the_first_step_on_is_found():
    job = build_job(pp=4, dp=3, forward_ms=40.0, compute_factor=lambda s, r, _k: 1.8 if (s, r) == (1, 2) else 1.0)
    report = diagnose(flow_table(cut_in_pieces(job.records)), job.topology)
    assert [(f.kind, f.where.id) for f in report.findings] == [(FindingKind.SLOW_GPU, address_of(job.shape, 1, 2, 0))]
    (finding,) = report.findings
    assert finding.severity > 0.2
    assert finding.lost_gpu_seconds > 0.2 * 12 * (job.step_ends_ns[-1] - job.step_ends_ns[0]) / 1e9


def test_a_first_stage_is_slow_from_the_first_step_on_only_if_its_second_micro_batch_takes_longer_too(monkeypatch):
    job = build_job(pp=4, dp=3, forward_ms=40.0, compute_factor=lambda s, r, _k: 1.8 if (s, r) == (0, 2) else 1.0)
    flows = flow_table(cut_in_pieces(job.records))
    assert [f.where.id for f in diagnose(flows, job.topology).findings] == [address_of(job.shape, 0, 2, 0)]
    alike = lambda evidence, *_: np.ones(evidence.steps)  # noqa: E731
    monkeypatch.setattr(late_member, "to_second_message_ns", alike)
    assert diagnose(flows, job.topology).findings == ()


def test_a_gpu_that_is_late_in_two_steps_is_slow_if_these_are_slow_all_along():
    late = {"b": during(4, 6, 400.0)}
    (finding,) = find_late_members(slow_all_along(4, 5, late=late), {})
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_GPU, "b")
    assert find_late_members(slow_all_along(elsewhere=(4, 5), late=late), {}) == []
    assert _slower_for_a_while(slow_all_along(4, 5), RULES)
    assert not _slower_for_a_while(slow_all_along(elsewhere=(4, 5)), RULES)


def bouts_of_two(value, otherwise=0.0):
    """Steps 3 and 4, 8 and 9, 14 and 15: each bout is too short to show alone."""
    return np.maximum.reduce([during(first, first + 2, value, otherwise) for first in (3, 8, 14)])


def test_a_gpu_that_is_slow_again_and_again_is_one_finding():
    (finding,) = found({"c": bouts_of_two(300.0)}, bouts_of_two(1.3 * STEP, STEP))
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_GPU, "c")
    assert (finding.start_ns, finding.end_ns) == (3 * STEP, int(15 * STEP + 6 * 0.3 * STEP) + STEP)


def test_one_of_many_that_are_late_in_longer_steps_now_and_then_is_by_chance():
    late = {member: np.zeros(STEPS) for member in "abcefgh"}
    for number, member in enumerate("abefgh"):
        late[member][np.roll([3, 4, 8, 9, 14, 15], number)[:3]] = 300.0
    late["c"][[3, 4, 8, 9, 14]] = 300.0
    assert found(late, bouts_of_two(1.3 * STEP, STEP)) == []


def test_one_that_is_as_late_in_other_steps_is_not_why_some_are_longer():
    late = bouts_of_two(300.0)
    late[[6, 12]] = 300.0
    assert found({"c": late}, bouts_of_two(1.3 * STEP, STEP)) == []


def test_steps_that_a_slow_nic_explains_are_left_aside():
    """The NIC is slow in the middle of what the GPU is; the GPU shows before and after it."""
    slow = during(4, 12, 1.3 * STEP, STEP)
    job = late_job({"c": during(4, 6, 300.0) + during(10, 12, 300.0)}, slow)
    steps = job.timeline.steps
    excused = {"a": [(int(steps.start_ns[6]), int(steps.end_ns[9]))]}
    (finding,) = find_late_members(job, excused)
    assert (finding.where.id, finding.start_ns, finding.end_ns) == ("c", steps.start_ns[4], steps.end_ns[11])


def test_one_that_is_later_than_any_gpu_can_be_in_most_steps_does_something_else():
    assert len(found({"c": np.full(STEPS, 600.0)}, np.full(STEPS, 1.6 * STEP))) == 1
    assert found({"c": np.full(STEPS, 900.0)}, np.full(STEPS, STEP)) == []


def test_single_slower_steps_afterwards_do_not_hide_a_stretch_of_slower_ones():
    duration = during(4, 9, 1.4 * STEP, STEP)
    duration[[11, 14, 17]] = 1.2 * STEP
    assert _slower_for_a_while(evidence_of(ring_pairs("abcd"), duration=duration), RULES)
    duration[4:9] = STEP
    assert not _slower_for_a_while(evidence_of(ring_pairs("abcd"), duration=duration), RULES)


@pytest.mark.parametrize(("rate", "slowly"), [(0.9, False), (0.7, False), (0.4, True)])
def test_one_whose_messages_are_slower_than_its_steps_are_longer_has_no_fast_network(rate, slowly):
    """Steps of 1.6 times the length: what leaves at 0.7 of its rate does not explain them, at 0.4 it may."""
    job = evidence_of(ring_pairs("abcd"), duration=during(6, 10, 1.6 * STEP, STEP))
    affected = during(6, 10, 1.0).astype(np.bool_)
    own = job.job.transfers.pair_src == job.job.members[1]
    slower = np.where(own[:, None] & affected[None, :], rate * job.rate, job.rate)
    assert sends_slowly(replace(job, rate=slower), 1, affected, ~affected) is slowly


def test_who_is_late_while_a_whole_stage_is_slow_waits_for_it():
    job = late_job({"c": during(6, 14, 600.0)}, during(6, 14, 1.6 * STEP, STEP))
    (slow,) = found_by_detector(job, ())
    stage = replace(slow, kind=FindingKind.IMBALANCE, where=Where(WhereType.STAGE, ("a", "b")))
    assert found_by_detector(job, (stage,)) == []
    assert found_by_detector(job, (replace(stage, job="another"),)) == [slow]


def found_by_detector(job, known):
    window = Window(0, int(job.timeline.steps.end_ns[-1]))
    return late_member.DETECTOR.find(DetectorInput(job, window, known=known))
