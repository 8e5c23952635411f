import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.recognize.lockstep import MIN_TETHER_STEPS, lockstep
from unit.builders import MS


def clock(boundary_ms):
    boundary = np.round(np.asarray(boundary_ms) * MS).astype(np.int64)
    return StepClock(boundary, np.ones(boundary.size - 1, dtype=np.bool_), 1.0)


def walk(seed, steps=60, period=500.0, jitter=0.1, start=0.0):
    random = np.random.default_rng(seed)
    return start + np.cumsum(period * random.uniform(1 - jitter, 1 + jitter, steps + 1))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("jitter", [0.02, 0.1, 0.3])
def test_rails_of_one_job_are_in_lockstep(seed, jitter):
    own = walk(seed, jitter=jitter)
    random = np.random.default_rng(1000 + seed)
    rail = clock(own + random.uniform(-0.2, 0.2, own.size) * jitter * 500)
    assert lockstep(clock(own), rail) > 0.8


@pytest.mark.parametrize("steps", [20, 60])
@pytest.mark.parametrize("jitter", [0.02, 0.1, 0.3])
def test_two_jobs_of_one_configuration_are_not_in_lockstep(jitter, steps):
    """Their mean step is the same: only the jitter, which is each one's own, tells them apart."""
    pairs = [
        (clock(walk(s, steps, jitter=jitter)), clock(walk(s + 100, steps, jitter=jitter, start=130))) for s in range(40)
    ]
    values = np.array([lockstep(a, b) for a, b in pairs])
    assert (values >= 0.6).mean() <= 0.05
    assert (values >= 0.95).sum() == 0


def test_a_long_first_step_in_common_is_no_lockstep():
    """Two jobs started together both compile and connect in their first step."""
    late = np.concatenate([[0.0], np.full(60, 4_000.0)])
    values = [lockstep(clock(walk(s) + late), clock(walk(s + 100, start=130) + late)) for s in range(40)]
    assert np.mean(np.array(values) >= 0.6) <= 0.05


@pytest.mark.parametrize("seed", range(4))
def test_a_rail_that_is_slow_for_a_while_is_still_in_lockstep(seed):
    """Its gradients end most of a step later than those of the others, then again with them."""
    own = walk(seed)
    rail = own + np.random.default_rng(seed).uniform(-5, 5, own.size)
    rail[20:45] += 320
    assert lockstep(clock(own), clock(rail)) > 0.6


def test_exact_clocks_are_compared_by_their_phase():
    own = walk(0, jitter=0.0)
    assert lockstep(clock(own), clock(own + 40)) > 0.95


def test_it_does_not_matter_which_is_asked_first():
    a, b = clock(walk(1)), clock(walk(1) + 37)
    assert lockstep(a, b) == pytest.approx(lockstep(b, a), abs=0.02)


@pytest.mark.parametrize("seed", range(8))
def test_loosely_tethered_rails_still_belong_together(seed):
    """Stages that end a step at quite different times: the phases scatter, the distance does not grow."""
    random = np.random.default_rng(seed)
    own = walk(seed, steps=200, jitter=0.5)
    loose = np.sort(own + random.uniform(-220, 220, own.size))
    assert lockstep(clock(own), clock(loose)) > 0.6


def test_a_constant_lag_is_lockstep():
    assert lockstep(clock(walk(3)), clock(walk(3) + 200)) > 0.9


def test_runs_one_after_the_other_are_not_in_lockstep():
    own = walk(5)
    assert lockstep(clock(own), clock(own + own[-1] + 1_000)) == 0.0
    assert lockstep(clock(own), clock(own[:20])) == 0.0, "a third in common is too little"


def test_other_periods_are_not_in_lockstep():
    own = walk(6, jitter=0.0)
    assert lockstep(clock(own), clock(own[::2])) == 0.0
    assert lockstep(clock(own), clock(walk(6, period=450.0, jitter=0.0, steps=67))) < 0.6


def test_few_steps_say_nothing():
    assert lockstep(clock([0, 500, 1000]), clock([0, 500, 1000])) == 0.0


def test_few_steps_of_two_jobs_are_not_called_a_tether():
    """Two jittery clocks of a dozen steps stay close by chance; only the phase may speak for them."""
    tethered = 0
    for seed in range(40):
        a, b = (
            walk(seed, steps=MIN_TETHER_STEPS - 3, jitter=0.3),
            walk(seed + 500, steps=MIN_TETHER_STEPS - 3, jitter=0.3),
        )
        tethered += lockstep(clock(a), clock(b)) >= 0.95
    assert tethered == 0
