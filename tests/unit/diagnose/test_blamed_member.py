"""Who is blamed for slower steps that are news already, and who is not."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.blamed_member import DETECTOR, find_blamed_members
from llmprism.diagnose.detector import DetectorInput
from llmprism.diagnose.unexplained import find_unexplained
from llmprism.model import FindingKind, Window
from unit.diagnose.ring_builder import NAMES, ring, ring_evidence
from unit.diagnose.test_own_gaps import pushed


def test_the_member_that_all_wait_for_in_slower_steps_is_blamed_also_where_messages_are_pushed():
    made = ring_evidence(*pushed("c"))
    assert len(find_unexplained(made, (), {})) == 1
    (finding,) = find_blamed_members(made, (), {})
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_GPU, "c")
    assert finding.end_ns is not None


def test_two_long_steps_are_enough_where_they_are_news():
    (finding,) = find_blamed_members(ring_evidence(*ring(slow="c", slow_steps=range(18, 20), slow_ms=900)), (), {})
    assert (finding.where.id, finding.end_ns) == ("c", None)


def test_a_slow_hop_is_no_slow_gpu():
    made = ring_evidence(*ring(hops=("bc",)))
    assert len(find_unexplained(made, (), {})) == 1
    assert find_blamed_members(made, (), {}) == []


def test_steps_that_something_explains_blame_nobody():
    made = ring_evidence(*ring(slow="c"))
    known = tuple(find_unexplained(made, (), {}))
    assert find_blamed_members(made, known, {}) == []


def test_a_healthy_job_blames_nobody_and_the_detector_says_so():
    made = ring_evidence(*ring())
    given = DetectorInput(made, Window(0, int(made.timeline.steps.end_ns[-1])))
    assert DETECTOR.find(given) == []


def test_of_a_member_that_sends_slowly_the_card_is_blamed():
    made = ring_evidence(*pushed("c"))
    slower = made.duration_ns > 1.5 * made.normal_ns
    own = made.job.transfers.pair_src == NAMES.index("c")
    slow = replace(made, rate=np.where(own[:, None] & slower[None, :], 0.05 * made.rate, made.rate))
    (finding,) = find_blamed_members(slow, (), {})
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_NIC, "c")
