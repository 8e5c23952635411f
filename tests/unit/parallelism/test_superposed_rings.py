import numpy as np
import pytest

from llmprism.parallelism.superposed_rings import superposed_rings
from unit.builders import MS, Flow, transfer_table

STEPS = 5


def table(members, context, ring_bytes=9_000_000, context_bytes=1_000_000, first=0, two_way=False):
    """Rings of contexts (four messages in a step) inside a ring of gradients at the end of it."""
    names = [f"g{first + i:03d}" for i in range(members)]
    flows = []
    for step in range(STEPS):
        base = step * 200 * MS
        for i, name in enumerate(names):
            following = names[i // context * context + (i + 1) % context]
            for k in range(4):
                begin = base + (10 + 30 * k) * MS
                flows.append(Flow(name, following, begin, begin + 5 * MS, context_bytes // 4))
            hops = (names[(i + 1) % members], names[i - 1])[: 1 + two_way]
            flows += [Flow(name, to, base + 150 * MS, base + 180 * MS, ring_bytes) for to in hops]
    return flows


def rings_of(flows):
    transfers = transfer_table(flows)
    pairs = np.arange(transfers.pair_count, dtype=np.int64)
    amount = np.add.reduceat(transfers.bytes, transfers.pair_offsets[:-1]).astype(np.float64)
    return transfers, superposed_rings(transfers, pairs, amount)


@pytest.mark.parametrize(("members", "context"), [(4, 2), (8, 2), (8, 4), (12, 4), (12, 3)])
@pytest.mark.parametrize("context_bytes", [100_000, 1_000_000, 40_000_000])
@pytest.mark.parametrize("two_way", [False, True])
def test_small_rings_on_hops_of_a_large_one_are_found_whichever_carries_more(members, context, context_bytes, two_way):
    transfers, found = rings_of(table(members, context, context_bytes=context_bytes, two_way=two_way))
    if two_way and context == 2:  # both hops of a pair are hops of the large ring: two levels
        assert found is None
        return
    assert found is not None
    assert found.small.sum() == members
    assert found.large.sum() == members * (1 + two_way)
    assert found.gradient_row.tolist() == (transfers.bytes == 9_000_000).tolist()


def test_what_both_rings_carry_may_miss_a_part_and_other_components_may_carry_other_amounts():
    flows = table(8, 4) + table(8, 4, ring_bytes=5_500_000, context_bytes=700_000, first=8)
    _, found = rings_of(flows[3:])
    assert found is not None
    assert found.small.sum() == 16


def test_a_ring_alone_is_no_superposition():
    assert rings_of(table(8, 4, context_bytes=0))[1] is None


def test_rings_of_the_same_members_cannot_be_distinguished_by_bytes():
    assert rings_of(table(4, 4))[1] is None


def test_rings_of_unequal_size_are_not_contexts():
    flows = [flow for flow in table(8, 4) if not (flow.src == "g007" and flow.dst == "g004")]
    assert rings_of(flows)[1] is None
