import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.features import (
    _spread_by_arrays,
    _spread_over_steps,
    links_of,
    pair_features,
    simultaneity,
)
from llmprism.parallelism.rules import RULES
from unit.builders import MS, Flow, transfer_table

STEP = 100 * MS
PROFILE_BINS = RULES.kinds.profile_slots


def clock(steps, regular=None):
    boundary = np.arange(steps + 1, dtype=np.int64) * STEP
    return StepClock(boundary, np.ones(steps, dtype=np.bool_) if regular is None else np.array(regular), 1.0)


def features(flows, steps, regular=None):
    return pair_features(transfer_table(flows), clock(steps, regular))


def test_bytes_per_step_are_the_median_of_the_regular_steps():
    flows = [
        Flow("a", "b", k * STEP + 10 * MS, k * STEP + 11 * MS, size) for k, size in enumerate((900, 100, 100, 104))
    ]
    found = features(flows, 4, [False, True, True, True])
    assert found.step_bytes.tolist() == [100]
    assert found.total_bytes.tolist() == [1204]
    assert found.step_spread.tolist() == [0.0]


def test_the_profile_says_when_in_the_step_bytes_flow():
    flows = [Flow("a", "b", k * STEP + 50 * MS, k * STEP + 50 * MS + 1, 100) for k in range(5)]
    profile = features(flows, 5).profile[0]
    assert profile.sum() == pytest.approx(1.0)
    assert np.flatnonzero(profile).tolist() == [PROFILE_BINS // 2]


def test_a_long_transfer_is_spread_over_its_time_and_over_the_boundary():
    found = features([Flow("a", "b", 75 * MS, 125 * MS, 1_600)], 2)
    profile = found.profile[0]
    assert profile.sum() == pytest.approx(1.0)
    assert profile[: PROFILE_BINS // 4].sum() == pytest.approx(0.5)
    assert profile[3 * PROFILE_BINS // 4 :].sum() == pytest.approx(0.5)
    assert found.total_bytes.tolist() == [1_600]


def test_irregular_steps_and_what_lies_outside_the_clock_are_left_out_of_the_profile():
    flows = [
        Flow("a", "b", -20 * MS, -19 * MS, 100),
        Flow("a", "b", 10 * MS, 10 * MS + 100, 100),
        Flow("a", "b", STEP + 60 * MS, STEP + 61 * MS, 100),
        Flow("a", "b", 2 * STEP + 90 * MS, 2 * STEP + 91 * MS, 100),
    ]
    found = features(flows, 2, [True, False])
    assert np.flatnonzero(found.profile[0]).tolist() == [int(0.10 * PROFILE_BINS)]
    assert found.total_bytes.tolist() == [200]


def test_a_pair_silent_in_all_steps_has_no_profile():
    assert features([Flow("a", "b", 9 * STEP, 9 * STEP + 1, 100)], 2).profile.sum() == 0.0


def test_links_join_the_two_directions_of_the_wanted_pairs():
    transfers = transfer_table([Flow(*pair, 0, 1, 1) for pair in ("ab", "ba", "ca", "bd", "dc")])
    names = [
        transfers.addresses[s] + transfers.addresses[d]
        for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)
    ]
    links = links_of(transfers, np.array([name != "dc" for name in names]))
    result = {
        (transfers.addresses[low] + transfers.addresses[high]): (
            names[there] if there >= 0 else None,
            names[back] if back >= 0 else None,
        )
        for low, high, there, back in zip(links.low, links.high, links.there, links.back, strict=True)
    }
    assert result == {"ab": ("ab", "ba"), "ac": (None, "ca"), "bd": ("bd", None)}


def test_simultaneity_is_the_share_of_the_lesser_direction():
    there = [Flow("a", "b", 0, 40 * MS, 1), Flow("a", "b", 100 * MS, 120 * MS, 1)]
    back = [Flow("b", "a", 30 * MS, 50 * MS, 1), Flow("b", "a", 110 * MS, 115 * MS, 1)]
    transfers = transfer_table([*there, *back, Flow("a", "c", 0, MS, 1)])
    links = links_of(transfers, np.ones(3, dtype=np.bool_))
    assert simultaneity(transfers, links).tolist() == [pytest.approx(15 / 25), 0.0]


def test_directions_that_take_turns_are_not_simultaneous():
    flows = [Flow(*("ab" if k % 2 else "ba"), k * 10 * MS, k * 10 * MS + 5 * MS, 1) for k in range(20)]
    transfers = transfer_table(flows)
    assert simultaneity(transfers, links_of(transfers, np.ones(2, dtype=np.bool_))).tolist() == [0.0]


def test_small_tables_are_spread_over_the_steps_to_the_same_bit():
    rng = np.random.default_rng(4)
    offsets = np.array([0, 120, 120, 300], dtype=np.int64)
    start = np.concatenate([np.sort(rng.integers(0, 10**9, size)) for size in (120, 180)])
    end = start + rng.integers(0, 10**8, start.size)
    size = rng.integers(1, 10**7, start.size)
    boundary = np.sort(rng.integers(10**8, 9 * 10**8, 9))
    regular = rng.random(8) < 0.7
    arguments = (offsets, start, end, size, boundary, regular, PROFILE_BINS)
    for one, two in zip(_spread_by_arrays(*arguments), _spread_over_steps.compiled(*arguments), strict=True):
        np.testing.assert_array_equal(one, two)
