"""Whose rows are whose on pairs that carry two collectives, and contexts or experts where bytes leave it open."""

import numpy as np
import pytest

from llmprism.model import Job
from llmprism.model.clock import StepClock
from llmprism.model.layout import Layout, PairKind
from llmprism.parallelism.composed import better_composition
from llmprism.parallelism.composed_start import composed_roles, composed_start
from llmprism.parallelism.composition import compositions_of
from llmprism.parallelism.rival_clocks import BestClock
from llmprism.parallelism.rules import RULES
from unit.builders import MS, Flow, transfer_table
from unit.parallelism.test_composed import said_of

STEPS = 8
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 100 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)


def started(uneven, gradient_noise=0.0):
    """Eight replicas in a ring of gradients at the end of the step; two neighbours exchange something in its passes."""
    rng, flows = np.random.default_rng(3), []
    for step in range(STEPS):
        base = step * 100 * MS
        for i in range(8):
            size = int(400_000 * (1.0 + uneven * rng.uniform(-1, 1)))
            ring = int(5_000_000 * (1.0 + gradient_noise * rng.uniform(-1, 1)))
            flows.append(Flow(f"s{i}", f"s{i ^ 1}", base + 20 * MS, base + 22 * MS, size))
            flows.append(Flow(f"s{i}", f"s{(i + 1) % 8}", base + 70 * MS, base + 80 * MS, ring))
    transfers = transfer_table(flows)
    job = Job("job", tuple(range(8)), (), 1.0, transfers, places=transfers.addresses)
    found = compositions_of(job, (transfers.pair_bytes.astype(np.float64),))
    composed = better_composition(found, transfers, said_of(job, Layout(1, 1, 8), lambda a, b: (PairKind.DP,)))
    assert composed is not None
    every = np.ones(transfers.pair_count, dtype=np.bool_)
    return transfers, composed_start(job, every, BestClock(CLOCK, 1.0), composed, RULES)


@pytest.mark.parametrize(
    ("uneven", "gradient_noise", "kind"),
    [(0.0, 0.0, PairKind.CP), (0.1, 0.0, PairKind.EP), (0.1, 0.03, PairKind.CP)],
    ids=["even", "as uneven as tokens", "no more uneven than gradients make it"],
)
def test_an_exchange_of_two_is_one_of_experts_where_it_is_uneven_by_itself(uneven, gradient_noise, kind):
    _, draft = started(uneven, gradient_noise)
    assert draft.composed is not None
    groups = draft.composed.contexts + draft.composed.experts
    assert {group.kind for group in groups} == {kind}
    assert {frozenset(group.members) for group in groups} == {frozenset((i, i + 1)) for i in range(0, 8, 2)}


def test_rows_of_the_exchange_have_no_bytes_for_the_passes():
    transfers, draft = started(0.0)
    gradient = transfers.bytes > 1_000_000
    assert draft.job.transfers.bytes[gradient].tolist() == transfers.bytes[gradient].tolist()
    assert not draft.job.transfers.bytes[~gradient].any()
    assert draft.inside.gradient_row.tolist() == gradient.tolist()


def test_a_pair_has_a_role_for_each_collective():
    transfers, draft = started(0.0)
    roles = composed_roles(transfers, draft.composed, np.zeros(transfers.pair_count, dtype=np.bool_))
    named = {}
    for src, dst, kind in zip(roles.src.tolist(), roles.dst.tolist(), roles.kind.tolist(), strict=True):
        named.setdefault((src, dst), set()).add(kind)
    assert named[0, 1] == {PairKind.DP, PairKind.CP}
    assert named[1, 0] == {PairKind.CP}
    assert named[1, 2] == {PairKind.DP}
