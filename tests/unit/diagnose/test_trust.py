"""How much of a finding's confidence its layout leaves."""

import pytest

from llmprism.diagnose.slow_transfer import find_slow_transfers
from llmprism.diagnose.trust import trusted
from llmprism.model import Finding, FindingKind, Where, WhereType
from unit.diagnose.evidence_builder import STEPS, during, evidence_of, ring_pairs


def slow_gpu(start_ns, kind=FindingKind.SLOW_GPU):
    return Finding(kind, "job", Where(WhereType.GPU, "a"), start_ns, None, 0.2, 0.9, 1.0, "slow", ())


@pytest.mark.parametrize(
    ("trust", "step", "said"),
    [(0.95, 0, [0.9]), (0.7, 0, [0.7]), (0.3, 0, []), (0.7, 8, [0.7]), (0.3, 8, [0.5])],
)
def test_a_gpu_that_was_slow_from_the_first_step_on_is_no_surer_than_its_layout(trust, step, said):
    evidence = evidence_of(ring_pairs("abcd"), groups=("abcd",), trust=trust)
    start = int(evidence.timeline.steps.start_ns[step])
    assert [finding.confidence for finding in trusted(evidence, [slow_gpu(start)])] == said


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
