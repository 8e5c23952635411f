"""A hop that is slow for a part of one long step, and one that moves less in a part of every step.
Stamps are no multiples of a millisecond."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.rates import pair_rates
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.slow_parts import rates_of_slow_parts
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs, with_transfers

LONG = 12
MESSAGES, SLOW = 20, 6


def job(long=LONG, usually_slow="", slow_hops=("ab",), times=3.0):
    """Every hop sends 20 messages of 1 MB in a step, in 2 ms each. Of a step of three times the usual length the first
    six take 200 ms on the slow hops, and the others wait for them; the hop `usually_slow` takes 40 ms for the last nine
    of every step. Stamps are no multiples of a millisecond."""
    evidence = evidence_of(ring_pairs("abc"), groups=("abc",), duration=during(long, long + 1, times * STEP, STEP))
    flows, share = [], times / 3.0
    for step, begin in enumerate(evidence.timeline.steps.start_ns.tolist()):
        ill = step == long
        for message in range(MESSAGES):
            late = share * (min(message, SLOW) * 300 + max(message - SLOW, 0) * 80) if ill else message * 45
            at = begin + int(late * MS)
            for hop in ring_pairs("abc"):
                took = share * 200 if ill and hop in slow_hops and message < SLOW else 2
                took = 40 if hop == usually_slow and message > MESSAGES // 2 else took
                flows.append(Flow(*hop, at, at + int(took * MS) + message, 1_000_000))
    made = with_transfers(evidence, transfer_table(flows))
    judged = np.ones(made.rate.shape[0], dtype=np.bool_)
    return replace(made, rate=pair_rates(made.job.transfers, made.timeline.steps, judged))


def sick_pairs(evidence):
    names, transfers = evidence.job.transfers.addresses, evidence.job.transfers
    sick = judge_transfers(evidence).sick[:, LONG]
    return [names[transfers.pair_src[p]] + names[transfers.pair_dst[p]] for p in np.flatnonzero(sick)]


def test_a_hop_that_is_slow_for_a_part_of_a_long_step_is_slow_in_that_step():
    evidence = job()
    assert np.ptp(evidence.rate[:, LONG]) < 0.1 * evidence.rate[0, LONG]  # the median byte of the step shows nothing
    assert sick_pairs(evidence) == ["ab"]
    others = np.arange(STEPS) != LONG
    np.testing.assert_array_equal(rates_of_slow_parts(evidence)[:, others], evidence.rate[:, others])


def test_a_hop_that_is_as_slow_in_parts_of_usual_steps_keeps_the_rate_of_the_whole_step():
    evidence = job(usually_slow="bc")
    row = [evidence.job.transfers.addresses[p] for p in evidence.job.transfers.pair_src].index("b")
    assert rates_of_slow_parts(evidence)[row, LONG] == evidence.rate[row, LONG]
    assert sick_pairs(evidence) == ["ab"]


def test_what_is_slow_before_any_usual_step_is_a_job_that_warms_up():
    evidence = job(long=1)
    np.testing.assert_array_equal(rates_of_slow_parts(evidence), evidence.rate)


@pytest.mark.parametrize(("times", "pairs"), [(3.0, 1), (1.6, 1), (1.4, 0)])
def test_steps_of_one_and_a_half_times_the_usual_length_are_long_enough(times, pairs):
    evidence = job(times=times)
    assert np.count_nonzero(rates_of_slow_parts(evidence) < 0.2 * evidence.rate) == pairs


def test_a_part_in_which_most_pairs_are_slow_shows_a_job_that_waits():
    evidence = job(slow_hops=("ab", "bc"))
    np.testing.assert_array_equal(rates_of_slow_parts(evidence), evidence.rate)
