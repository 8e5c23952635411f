import numpy as np
import pytest

from llmprism.diagnose.cost import lost_gpu_seconds, share_lost
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs


def job(duration):
    return evidence_of(ring_pairs("abcd"), duration=duration)


def steps(first, last):
    return during(first, last, 1.0).astype(np.bool_)


def test_the_loss_is_the_time_beyond_the_normal_step_on_every_gpu():
    slow = job(during(5, 10, 3 * STEP, STEP))
    assert lost_gpu_seconds(slow, steps(5, 10)) == pytest.approx(5 * 2.0 * 4)
    assert share_lost(slow, steps(5, 10)) == pytest.approx(2 / 3)
    assert share_lost(slow, steps(0, 10)) == pytest.approx(1 / 2)


def test_fast_steps_win_nothing_back():
    mixed = job(np.concatenate([np.full(15, STEP), np.full(3, STEP / 2), np.full(2, 3 * STEP)]))
    assert lost_gpu_seconds(mixed, steps(15, STEPS)) == pytest.approx(2 * 2.0 * 4)


def test_normal_and_no_steps_lose_nothing():
    healthy = job(np.full(STEPS, float(STEP)))
    assert lost_gpu_seconds(healthy, steps(0, STEPS)) == 0.0
    assert share_lost(healthy, steps(0, STEPS)) == 0.0
    assert share_lost(healthy, steps(0, 0)) == 0.0
