import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.recognize.lockstep import lockstep_bits, without_holes
from llmprism.recognize.rules import RULES
from unit.builders import MS


def clock(boundary_ms):
    boundary = np.round(np.asarray(boundary_ms) * MS).astype(np.int64)
    return without_holes(StepClock(boundary, np.ones(boundary.size - 1, dtype=np.bool_), 1.0))


def walk(seed, steps=60, period=500.0, jitter=0.1, start=0.0):
    random = np.random.default_rng(seed)
    return start + np.cumsum(period * random.uniform(1 - jitter, 1 + jitter, steps + 1))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("jitter", [0.02, 0.1, 0.3])
def test_rails_of_one_job_are_in_lockstep_bits(seed, jitter):
    own = walk(seed, jitter=jitter)
    random = np.random.default_rng(1000 + seed)
    rail = clock(own + random.uniform(-0.2, 0.2, own.size) * jitter * 500)
    assert lockstep_bits(clock(own), rail) > RULES.sure_bits


@pytest.mark.parametrize("steps", [20, 60])
@pytest.mark.parametrize("jitter", [0.02, 0.1, 0.3])
def test_two_jobs_of_one_configuration_are_not_in_lockstep_bits(jitter, steps):
    """Their mean step is the same: only the jitter, which is each one's own, tells them apart."""
    pairs = [
        (clock(walk(s, steps, jitter=jitter)), clock(walk(s + 100, steps, jitter=jitter, start=130))) for s in range(40)
    ]
    values = np.array([lockstep_bits(a, b) for a, b in pairs])
    assert (values >= 5.0).mean() <= 0.05, "one in 2**5 by the meaning of a bit"
    assert (values >= RULES.sure_bits).sum() == 0


def test_a_long_first_step_in_common_is_no_lockstep_bits():
    """Two jobs started together both compile and connect in their first step."""
    late = np.concatenate([[0.0], np.full(60, 4_000.0)])
    values = [lockstep_bits(clock(walk(s) + late), clock(walk(s + 100, start=130) + late)) for s in range(40)]
    assert np.mean(np.array(values) >= 5.0) <= 0.05


@pytest.mark.parametrize("seed", range(4))
def test_a_rail_that_is_slow_for_a_while_is_still_in_lockstep_bits(seed):
    """Its gradients end most of a step later than those of the others, then again with them."""
    own = walk(seed)
    rail = own + np.random.default_rng(seed).uniform(-5, 5, own.size)
    rail[20:45] += 320
    assert lockstep_bits(clock(own), clock(rail)) > RULES.sure_bits


def test_exact_clocks_say_nothing():
    """Without jitter there is no walk: any two clocks of one period stay as they are."""
    own = walk(0, jitter=0.0)
    assert lockstep_bits(clock(own), clock(own + 40)) == 0.0


def test_it_does_not_matter_which_comes_first():
    a, b = clock(walk(1)), clock(walk(1) + 37)
    assert lockstep_bits(a, b) == pytest.approx(lockstep_bits(b, a), rel=0.02)


@pytest.mark.parametrize("seed", range(8))
def test_loosely_tethered_rails_still_belong_together(seed):
    """Stages that end a step at quite different times: the phases scatter, the distance does not grow."""
    random = np.random.default_rng(seed)
    own = walk(seed, steps=200, jitter=0.5)
    loose = np.sort(own + random.uniform(-220, 220, own.size))
    assert lockstep_bits(clock(own), clock(loose)) > 5.0


def test_a_constant_lag_is_lockstep_bits():
    assert lockstep_bits(clock(walk(3)), clock(walk(3) + 200)) == RULES.most_bits


def test_runs_one_after_the_other_are_not_in_lockstep_bits():
    own = walk(5)
    assert lockstep_bits(clock(own), clock(own + own[-1] + 1_000)) == 0.0
    assert lockstep_bits(clock(own), clock(own[:20])) == 0.0, "a third in common is too little"


def test_other_periods_are_not_in_lockstep_bits():
    own = walk(6, jitter=0.0)
    assert lockstep_bits(clock(own), clock(own[::2])) == 0.0
    assert lockstep_bits(clock(own), clock(walk(6, period=450.0, jitter=0.0, steps=67))) == 0.0


def test_few_steps_say_nothing():
    assert lockstep_bits(clock([0, 500, 1000]), clock([0, 500, 1000])) == 0.0


def test_few_steps_of_two_jobs_are_not_called_a_tether():
    """Two jittery clocks of a dozen steps stay close by chance; their messages must speak."""
    tethered = 0
    for seed in range(40):
        a, b = (
            walk(seed, steps=RULES.tether_steps - 3, jitter=0.3),
            walk(seed + 500, steps=RULES.tether_steps - 3, jitter=0.3),
        )
        tethered += lockstep_bits(clock(a), clock(b)) > 0.0
    assert tethered == 0


def dark(boundaries, first, last):
    """The same clock without what lies between two boundaries: an exporter that was dark for a while."""
    return clock(np.concatenate([boundaries[: first + 1], boundaries[last:]]))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("jitter", [0.1, 0.3])
def test_a_rail_with_a_hole_is_still_in_lockstep_bits(seed, jitter):
    own = walk(seed, jitter=jitter)
    rail = own + np.random.default_rng(seed).uniform(-2, 2, own.size)
    with_hole = dark(rail, 25, 37)
    assert lockstep_bits(clock(own), with_hole) > RULES.sure_bits
    assert lockstep_bits(with_hole, clock(own)) > RULES.sure_bits


def test_each_rail_may_have_a_hole_of_its_own():
    own = walk(2)
    assert lockstep_bits(dark(own, 15, 25), dark(own + 20, 35, 45)) > RULES.sure_bits
    assert lockstep_bits(dark(own, 15, 25), dark(own + 20, 15, 25)) > RULES.sure_bits


def test_a_hole_joins_no_strangers():
    values = [lockstep_bits(dark(walk(s), 25, 37), clock(walk(s + 100, start=130))) for s in range(40)]
    assert np.mean(np.array(values) >= 5.0) <= 0.05


def test_a_pause_of_both_is_no_lockstep_by_itself():
    """Two jobs that both wait for the same dark minute."""
    pause = np.where(np.arange(61) >= 30, 6_000.0, 0.0)
    values = [lockstep_bits(clock(walk(s) + pause), clock(walk(s + 100, start=130) + pause)) for s in range(40)]
    assert np.mean(np.array(values) >= 5.0) <= 0.05


def test_a_fault_that_slows_two_jobs_at_once_does_not_make_them_one():
    """A switch gets slow: the steps of both are a tenth longer from then on, each with its own jitter."""
    slower = np.where(np.arange(61) >= 30, 1.1, 1.0)

    def slowed(seed):
        durations = np.diff(walk(seed, jitter=0.03), prepend=0.0) * slower
        return clock(np.cumsum(durations))

    values = np.array([lockstep_bits(slowed(s), slowed(s + 100)) for s in range(40)])
    assert (values >= 5.0).mean() <= 0.05
