"""What is a stall in a job that is even is none in one whose steps wait all the time."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.stalls import beyond_jitter, stalls
from llmprism.model import Job
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs


def longest_is_news(waits):
    duration = np.full(STEPS, float(STEP))
    duration[::5] += waits * STEP
    duration[7] = 8.0 * STEP
    return bool(beyond_jitter(evidence_of(ring_pairs("abc"), duration=duration))[7])


def test_one_long_step_among_even_ones_stands_out():
    assert longest_is_news(0.0)
    assert longest_is_news(1.0)


def test_one_among_steps_that_often_wait_does_not():
    assert not longest_is_news(3.0)


@pytest.mark.parametrize(("waits_ms", "findings"), [(100, 1), (0, 0)])
def test_a_member_is_named_only_if_the_others_go_on_after_it(waits_ms, findings):
    """`a` is late by four seconds in the eighth step; the others go on when it has sent them something, or at once."""
    duration = np.full(STEPS, float(STEP))
    duration[7] = 5.0 * STEP
    evidence = evidence_of(ring_pairs("abcde"), groups=("abcde",), duration=duration, late={"a": during(7, 8, 4_000.0)})
    flows = []
    for step, begin in enumerate(evidence.timeline.steps.start_ns.tolist()):
        for place, (src, dst) in enumerate(ring_pairs("abcde")):
            at = begin + (4_100 + place * waits_ms if step == 7 else 100) * MS
            flows += [Flow(src, dst, begin, begin + MS, 1_000_000), Flow(src, dst, at, at + 50 * MS, 1_000_000)]
    evidence = replace(evidence, job=Job("job", tuple(range(5)), (), 1.0, transfer_table(flows)))
    stalled = np.zeros((5, STEPS), dtype=np.bool_)
    stalled[0, 7] = True
    assert len(stalls(evidence, stalled)) == findings
