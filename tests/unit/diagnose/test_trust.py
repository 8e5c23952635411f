"""How much of a finding's confidence its layout leaves."""

from dataclasses import replace

import pytest

from llmprism.diagnose.rules import RULES
from llmprism.diagnose.trust import HELD, calibrated, trusted, waited_for
from llmprism.model import Evidence, Finding, FindingKind, Where, WhereType
from support.stages import find_slow_transfers
from unit.diagnose.evidence_builder import STEPS, during, evidence_of, ring_pairs


def slow_gpu(start_ns, kind=FindingKind.SLOW_GPU):
    return Finding(kind, "job", Where(WhereType.GPU, "a"), start_ns, None, 0.2, 0.9, 1.0, "slow", ())


@pytest.mark.parametrize(
    ("trust", "step", "own"),
    [(0.95, 0, 0.9), (0.7, 0, 0.7), (0.3, 0, None), (0.7, 8, 0.7), (0.3, 8, None)],
)
def test_a_gpu_that_was_slow_from_the_first_step_on_is_no_surer_than_its_layout(trust, step, own):
    evidence = evidence_of(ring_pairs("abcd"), groups=("abcd",), trust=trust)
    start = int(evidence.timeline.steps.start_ns[step])
    expected = [] if own is None else [calibrated(own, trust)]
    assert [finding.confidence for finding in trusted(evidence, [slow_gpu(start)])] == expected


def test_one_that_holds_longer_than_it_used_to_needs_no_layout():
    evidence = evidence_of(ring_pairs("abcd"), groups=("abcd",), trust=0.3)
    begin = int(evidence.timeline.steps.start_ns[8])
    held = replace(slow_gpu(begin), evidence=(Evidence(HELD, 28.0, 0.0),))
    (kept,) = trusted(evidence, [held, slow_gpu(begin)])
    assert kept.confidence == calibrated(0.9, RULES.trust.most_sure)


def test_confidence_grows_with_the_detector_s_own_and_with_the_layout_s_and_is_never_certain():
    assert calibrated(0.5, 0.9) < calibrated(0.8, 0.9) < calibrated(0.97, 0.9) <= 0.97
    assert calibrated(0.8, 0.05) < calibrated(0.8, 0.5) < calibrated(0.8, 0.95)
    assert calibrated(1.0, 1.0) == calibrated(0.97, 0.97)
    assert calibrated(0.0, 0.0) > 0.0
    assert calibrated(0.97, 0.05) > 0.8, "what is clear in the records needs no layout"


def test_a_crash_does_not_rest_on_the_layout():
    evidence = evidence_of(ring_pairs("abcd"), groups=("abcd",), trust=0.1)
    assert trusted(evidence, [slow_gpu(0, FindingKind.CRASH)])[0].confidence == 0.9


@pytest.mark.parametrize(("trust", "found"), [(0.9, 1), (0.3, 0)])
def test_pairs_that_were_always_slower_than_others_are_sick_only_if_these_are_their_peers(trust, found):
    always = dict.fromkeys(("ab", "bc"), during(0, STEPS, 2.0))
    assert len(find_slow_transfers([evidence_of(ring_pairs("abcdefgh"), rate=always, trust=trust)])) == found
    later = dict.fromkeys(("ab", "bc"), during(8, STEPS, 2.0, 10.0))
    slower = during(8, STEPS, 1.5e9, 1e9)
    evidence = evidence_of(ring_pairs("abcdefgh"), rate=later, duration=slower, trust=trust)
    assert len(find_slow_transfers([evidence])) == 1, "compared with their own past"


@pytest.mark.parametrize(("lost", "said"), [(5.0, True), (0.1, False)])
def test_a_gpu_that_costs_nothing_when_the_steps_are_played_again_is_not_slow(lost, said):
    evidence = evidence_of(ring_pairs("abcd"), groups=("abcd",))
    finding = replace(
        slow_gpu(int(evidence.timeline.steps.start_ns[8])), end_ns=int(evidence.timeline.steps.end_ns[13])
    )
    assert waited_for(evidence, finding, lost) is said
    assert waited_for(evidence, slow_gpu(0), lost), "nothing healthy to play it against"
    assert waited_for(evidence, replace(finding, kind=FindingKind.SLOW_NIC), lost)


@pytest.mark.parametrize(("trust", "found"), [(0.9, 1), (0.3, 0)])
def test_who_stood_still_in_a_step_needs_steps_that_are_sure(trust, found):
    evidence = evidence_of(ring_pairs("abcd"), groups=("abcd",), trust=trust)
    start = int(evidence.timeline.steps.start_ns[8])
    assert len(trusted(evidence, [slow_gpu(start, FindingKind.STALL)])) == found
