"""What is a stall in a job that is even is none in one whose steps wait all the time."""

import numpy as np

from llmprism.diagnose.stalls import beyond_jitter
from unit.diagnose.evidence_builder import STEP, STEPS, evidence_of, ring_pairs


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
