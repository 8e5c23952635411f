"""Rates of pairs, from fine and from coarse time stamps."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.rates import pair_rates, stamp_resolution_ns
from llmprism.diagnose.rules import RULES
from llmprism.model import Steps
from unit.builders import EPOCH, MS, US, Flow, transfer_table

STEP = 100 * MS


def steps(count=10):
    start = EPOCH + STEP * np.arange(count, dtype=np.int64)
    return Steps(start, start + STEP, np.zeros(count, dtype=np.bool_))


def messages(pair, gbps, size=16_000_000, per_step=8, count=10, unit=1, seed=0):
    """Messages at random times of each step, with stamps rounded down to a unit."""
    random = np.random.default_rng(seed)
    flows = []
    for step in range(count):
        for number in range(per_step):
            start = EPOCH + step * STEP + number * STEP // per_step + int(random.integers(0, 2 * MS))
            end = start + int(8 * size / gbps)
            flows.append(Flow(*pair, start // unit * unit, end // unit * unit, size))
    return flows


def rates(flows, count=10):
    transfers = transfer_table(flows)
    return pair_rates(transfers, steps(count), np.ones(transfers.pair_count, dtype=np.bool_))


def test_the_unit_of_the_clock_is_read_from_the_durations():
    assert stamp_resolution_ns(transfer_table(messages("ab", 20, unit=MS))) % MS == 0
    assert stamp_resolution_ns(transfer_table(messages("ab", 20.001, unit=1))) < 10 * US
    assert stamp_resolution_ns(transfer_table(messages("ab", 20, per_step=1, unit=MS))) == 1, "too few to tell"


def test_the_unit_is_what_divides_all_times_not_only_the_first():
    few = replace(RULES, evidence=replace(RULES.evidence, few_transfers=10))
    coarse, fine = messages("ab", 20, unit=MS), messages("cd", 20.001, unit=1, seed=1)
    assert stamp_resolution_ns(transfer_table(coarse), few) % MS == 0
    assert stamp_resolution_ns(transfer_table(coarse + fine), few) < 10 * US
    assert stamp_resolution_ns(transfer_table(fine + coarse), few) < 10 * US


@pytest.mark.parametrize("unit", [1, MS])
def test_fast_and_slow_pairs_are_kept_apart_whatever_the_unit(unit):
    fast, slow = rates(messages("ab", 200, unit=unit) + messages("cd", 33, unit=unit, seed=1))
    assert np.nanmedian(fast) == pytest.approx(200, rel=0.35 if unit > 1 else 0.02)
    assert np.nanmedian(slow) == pytest.approx(33, rel=0.15)
    assert np.nanmin(fast) > 1.5 * np.nanmax(slow)


def test_what_is_shorter_than_rounding_has_no_rate():
    result = rates(messages("ab", 200, size=100_000, unit=MS) + messages("cd", 150, unit=MS, seed=1))
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1]).any()


def test_small_messages_of_an_exchange_are_timed_one_by_one():
    """100 KB each 12 ms: a quantum over two of them would time the pause between them."""
    (result,) = rates(messages("ab", 100, size=100_000))
    assert np.nanmedian(result) == pytest.approx(100, rel=0.05)


def test_the_rate_is_that_of_the_median_byte_not_of_the_median_transfer():
    """A throttled line lets many small transfers pass at once; the large ones take all of the time."""
    result = rates(
        messages("ab", 100, size=200_000, per_step=12) + messages("ab", 5, size=8_000_000, per_step=2, seed=1)
    )
    assert np.nanmedian(result) == pytest.approx(5, rel=0.05)
