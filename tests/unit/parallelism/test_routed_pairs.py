"""Two ranks to a link: tokens that all rails route alike make experts, what a collector does to records makes none."""

import numpy as np
import pytest

from llmprism.model import PairKind, StepClock
from llmprism.parallelism.features import links_of
from llmprism.parallelism.routed_pairs import routed_pairs
from unit.builders import MS, Flow, transfer_table

STEPS, RAILS = 20, 4
PERIOD = 100 * MS


def build(*, tokens=0.0, noise=0.0, early=0, rails=RAILS, steps=STEPS, more=()):
    """Rails between two servers that send a gradient both ways in every step, and besides a share `tokens` that goes
    another way each step on all rails alike, or a share of `noise` on each rail by itself; in a step of two the first
    `early` bytes of one way come before the tick."""
    random = np.random.default_rng(3)
    flows = []
    for step in range(steps):
        routed = random.uniform(-1, 1)
        for rail in range(rails):
            ends = f"a{rail}", f"b{rail}"
            for way, (src, dst) in enumerate((ends, ends[::-1])):
                size = int(50e6 * (1 + tokens * routed * (1 - 2 * way) + noise * random.uniform(-1, 1)))
                when = step * PERIOD + 50 * MS
                if early and way and step % 2:
                    flows.append(Flow(src, dst, step * PERIOD - MS, step * PERIOD, early))
                    size -= early
                flows.append(Flow(src, dst, when, when + 9 * MS, size))
        flows += [Flow(src, dst, step * PERIOD + 20 * MS, step * PERIOD + 21 * MS, 10**7) for src, dst in more]
    transfers = transfer_table(flows)
    clock = StepClock(np.arange(steps + 1, dtype=np.int64) * PERIOD, np.ones(steps, dtype=np.bool_), 1.0)
    return transfers, links_of(transfers, np.ones(transfers.pair_count, dtype=np.bool_)), clock


@pytest.mark.parametrize("tokens", [0.002, 0.05])
def test_what_all_rails_route_alike_makes_experts(tokens):
    transfers, links, clock = build(tokens=tokens, noise=tokens / 20)
    found = routed_pairs(transfers, links, clock)
    names = [{transfers.addresses[member] for member in group.members} for group in found.groups]
    assert sorted(map(sorted, names)) == [[f"a{rail}", f"b{rail}"] for rail in range(RAILS)]
    assert {group.kind for group in found.groups} == {PairKind.EP}
    assert found.pairs.all()
    assert not found.rows.any()
    assert found.on_all(links).all()


@pytest.mark.parametrize(
    "records",
    [
        {},
        {"noise": 0.05},  # sampled: each rail by itself
        {"tokens": 0.0002},  # too little to be tokens
        {"early": 5_000_000},  # the tick cuts messages: all rails alike, but the next step makes up for it
        {"tokens": 0.05, "rails": 1},  # nothing to compare with
        {"tokens": 0.05, "steps": 6},
        {"tokens": 0.05, "more": [("a0", "a1"), ("a1", "a0")]},  # ranks with several links
    ],
)
def test_nothing_else_does(records):
    transfers, links, clock = build(**records)
    found = routed_pairs(transfers, links, clock)
    assert not found.groups
    assert not found.pairs.any()
    assert not found.on_all(links).any()


def test_hops_one_way_leave_the_rails_as_they_are():
    transfers, links, clock = build(tokens=0.05, more=[("a0", "b1"), ("b2", "a3")])
    assert len(routed_pairs(transfers, links, clock).groups) == RAILS


def test_two_stages_that_take_turns_route_nothing():
    """Activations of many lengths one way and gradients the other: all rails alike, and ticks that cut among them."""
    random = np.random.default_rng(4)
    flows, steps = [], 20
    for step in range(steps):
        length = random.uniform(0.9, 1.1, 8)
        for rail in range(RAILS):
            for number, part in enumerate(length):
                for way, (src, dst) in enumerate(((f"a{rail}", f"b{rail}"), (f"b{rail}", f"a{rail}"))):
                    when = step * PERIOD + (12 * number + 6 * way) * MS
                    routed = part if way else length[number - 1]
                    flows.append(Flow(src, dst, when, when + MS, int(5e6 * routed * (1 + 0.02 * way * (step % 3)))))
    transfers = transfer_table(flows)
    clock = StepClock(np.arange(steps + 1, dtype=np.int64) * PERIOD, np.ones(steps, dtype=np.bool_), 1.0)
    links = links_of(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    assert not routed_pairs(transfers, links, clock).groups
