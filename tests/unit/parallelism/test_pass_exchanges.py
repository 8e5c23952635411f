"""Exchanges after every pass on the ring of the gradients: equal bursts, pauses that alternate, and more behind."""

import numpy as np
import pytest

from llmprism.parallelism.pass_exchanges import pass_exchanges
from unit.builders import MS, Flow, transfer_table

MEMBERS = 4
STEPS = 12


def ring(pauses_ms, gradients_mb, *, backwards=False, exchanged_mb=1.0):
    """Steps of a ring: a burst after each of these pauses, gradients behind the last one, and 30 ms of an optimizer.
    `backwards`: gradients are gathered the other way round, besides."""
    random = np.random.default_rng(1)
    flows, now = [], 0
    for _ in range(STEPS):
        for pause in pauses_ms:
            now += int(pause * MS * random.uniform(0.95, 1.05))
            flows += [(member, 1, now, now + MS, exchanged_mb) for member in range(MEMBERS)]
            now += MS
        lasts = int(gradients_mb) * MS
        for way in (1, -1) if backwards else (1,):
            flows += [(member, way, now + MS // 10, now + lasts, gradients_mb) for member in range(MEMBERS)]
        now += lasts + 30 * MS
    names = [f"m{member}" for member in range(MEMBERS)]
    return transfer_table(
        [Flow(names[a], names[(a + way) % MEMBERS], start, end, int(size * 1e6)) for a, way, start, end, size in flows]
    )


def found_in(transfers):
    return pass_exchanges(transfers, np.arange(transfers.pair_count))


@pytest.mark.parametrize("batches", [2, 4, 16])
@pytest.mark.parametrize("backwards", [False, True])
def test_contexts_are_exchanged_after_every_pass(batches, backwards):
    transfers = ring([10, 20] * batches, 40.0, backwards=backwards)
    found = found_in(transfers)
    assert found is not None
    assert found.pairs.sum() == MEMBERS
    assert transfers.bytes[found.rows].max() == 1_000_000
    rows = MEMBERS * STEPS * (2 * batches)
    assert rows * (1 - 0.5 / batches) <= found.rows.sum() <= rows, "the last one may lie with the gradients"


@pytest.mark.parametrize(
    ("pauses", "behind"),
    [
        ([10] * 8, 40.0),  # layers that are gathered, one as long as the other
        ([10] * 4 + [20] * 4, 40.0),  # forward and backward, layer by layer
        ([10, 20] * 4, 2.0),  # two buckets after every pass, and the parameters
        ([40], 40.0),  # gradients alone
        ([10, 20], 40.0),  # one micro-batch
    ],
)
def test_other_bursts_are_of_the_gradients(pauses, behind):
    assert found_in(ring(pauses, behind)) is None


def test_buckets_that_a_collector_puts_together_now_and_then_are_no_gradients_behind_a_train():
    """Four buckets a step, the second and the fourth a little later: every now and then all lie in one record."""
    flows, now = [], 0
    for step in range(4 * STEPS):
        if step in (3, 4, 11, 17, 30):
            flows += [Flow(f"m{a}", f"m{(a + 1) % MEMBERS}", now + 40 * MS, now + 90 * MS, 4_000_000) for a in range(4)]
        else:
            for after in (40, 52, 76, 88):
                start = now + after * MS
                flows += [Flow(f"m{a}", f"m{(a + 1) % MEMBERS}", start, start + MS, 1_000_000) for a in range(4)]
        now += 112 * MS
    assert found_in(transfer_table(flows)) is None


def test_nothing_is_exchanged_where_not_all_members_do():
    one, other = ring([10, 20] * 4, 40.0), ring([40], 40.0)
    flows = []
    for name, table in (("m", one), ("n", other)):
        pair = table.pair_of_row
        ends = ([f"{name}{number}" for number in side[pair].tolist()] for side in (table.pair_src, table.pair_dst))
        flows += map(Flow, *ends, table.start_ns.tolist(), table.end_ns.tolist(), table.bytes.tolist())
    assert found_in(one) is not None
    assert found_in(transfer_table(flows)) is None
