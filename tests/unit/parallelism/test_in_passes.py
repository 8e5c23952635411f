"""Collectives beside one pipeline of two stages with eight micro-batches: 8 steps of 200 ms."""

import numpy as np

from llmprism.model import StepClock
from llmprism.parallelism.in_passes import busy_in_passes, sent_between
from unit.builders import MS, Flow, transfer_table

STEPS, BATCHES = 8, 8
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 200 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
FORWARD = [10 + 8 * k for k in range(BATCHES)]
BACKWARD = [82 + 8 * k for k in range(BATCHES)]


def message(ends, step, at_ms, size=1_000_000):
    start = step * 200 * MS + int(at_ms * MS)
    return Flow(ends[0], ends[1], start, start + MS, size)


def inside(places):
    """Which pairs are busy throughout the passes; `places` gives the moments of a step for each pair of collectives, or
    moments and sizes."""
    flows = [
        message(ends, step, *(at if isinstance(at, tuple) else (at,)))
        for step in range(STEPS) for ends, moments in places.items() for at in moments
    ]  # fmt: skip
    for step in range(STEPS):
        flows += [message(ends, step, at) for ends in ("ab", "cd") for at in FORWARD]
        flows += [message(ends, step, at) for ends in ("ba", "dc") for at in BACKWARD]
    transfers = transfer_table(flows)
    names = [
        transfers.addresses[s] + transfers.addresses[d]
        for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)
    ]
    candidates = np.array(sorted(names.index(ends) for ends in places), dtype=np.int64)
    forward = [(names.index("ab"), names.index("ba")), (names.index("cd"), names.index("dc"))]
    busy, late, _ = busy_in_passes(transfers, candidates, forward, CLOCK)
    return {ends for ends in places if busy[names.index(ends)]}, late[candidates]


def test_what_every_pass_exchanges_is_busy_throughout():
    throughout = [at + 4 for at in FORWARD + BACKWARD]
    assert inside({"ac": throughout, "ca": throughout})[0] == {"ac", "ca"}


def test_parameters_that_are_gathered_once_come_in_bursts():
    bursts = [12 + 0.5 * k for k in range(8)] + [84 + 0.5 * k for k in range(8)] + [170]
    assert inside({"ac": bursts, "ca": bursts})[0] == set()


def test_gradients_after_the_last_pass_are_not_of_the_passes():
    assert inside({"ac": [160, 170, 180], "ca": [160, 170, 180]})[0] == set()


def test_gradients_may_be_a_thousand_times_what_every_pass_exchanges():
    flows = [*((at + 4, 100_000) for at in FORWARD + BACKWARD), *((150 + k, 100_000_000) for k in range(8))]
    assert inside({"ac": flows, "ca": flows})[0] == {"ac", "ca"}


def test_parameters_that_are_gathered_under_half_of_the_passes_are_not_of_every_pass():
    """The last pass adds up gradients bucket by bucket."""
    gathers, gradients = [10 + 2 * k for k in range(32)], [140 + k for k in range(10)]
    assert inside({"ac": gathers + gradients, "ca": gathers + gradients})[0] == set()


def test_gathers_one_way_and_reductions_the_other_are_one_exchange():
    gathers, reductions = [at + 4 for at in FORWARD + BACKWARD], [at + 6 for at in BACKWARD]
    busy, late = inside({"ac": gathers, "ca": reductions})
    assert busy == {"ac", "ca"}
    assert (late < 0.1).all()


def test_hops_of_the_same_bytes_do_the_same_whatever_one_of_them_shows():
    throughout = [at + 4 for at in FORWARD + BACKWARD]
    odd = [150 + k for k in range(len(throughout))]
    assert inside({"ac": throughout, "ce": throughout, "eg": throughout, "ga": odd})[0] == {"ac", "ce", "eg", "ga"}


def test_what_one_link_of_many_shows_is_no_exchange_of_the_passes():
    throughout = [(at + 4, 900_000) for at in FORWARD + BACKWARD]
    rings = {ends: [160, 170] for ends in ("eg", "ge", "fh", "hf", "ik", "ki")}
    assert inside({"ac": throughout, "ca": throughout} | rings)[0] == set()


def test_what_every_pass_needs_is_sent_between_any_two_messages_that_are_handed_on():
    throughout, once = [at + 4 for at in FORWARD], [12 + 0.1 * k for k in range(20)]
    flows = [message("ab", step, at) for step in range(STEPS) for at in FORWARD]
    flows += [message("ba", step, at) for step in range(STEPS) for at in BACKWARD]
    flows += [message("ac", step, at) for step in range(STEPS) for at in throughout]
    flows += [message("ad", step, at) for step in range(STEPS) for at in once]
    flows += [message("cd", step, at) for step in range(STEPS) for at in once]
    transfers = transfer_table(flows)
    names = transfers.addresses
    pair = {names[s] + names[d]: i for i, (s, d) in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    chosen = np.array([pair["ac"], pair["ad"], pair["cd"]], dtype=np.int64)
    share = sent_between(transfers, chosen, [(pair["ab"], pair["ba"])], CLOCK)
    assert share[0] == 1.0
    assert share[1] == 1 / (BATCHES - 1)
    assert np.isnan(share[2]), "nothing is handed on by c"
