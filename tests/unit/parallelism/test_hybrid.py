"""Shard groups and replica groups come apart by their bytes where they cross, and nothing else does."""

import numpy as np
import pytest

from llmprism.model import PairKind, StepClock
from llmprism.parallelism.features import links_of, pair_features
from llmprism.parallelism.hybrid import shard_links
from llmprism.parallelism.pair_kinds import LinkKinds
from unit.builders import MS, Flow, transfer_table

STEPS = 8


def ring(members, size):
    """Both directions of every neighbouring pair, once a step."""
    return [
        Flow(a, b, step * 100 * MS + 5 * MS, step * 100 * MS + 9 * MS, size)
        for step in range(STEPS)
        for i, src in enumerate(members)
        for a, b in [(src, members[(i + 1) % len(members)])]
    ]


def found(flows):
    transfers = transfer_table(flows)
    links = links_of(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    count = links.low.size
    kinds = LinkKinds(np.full(count, PairKind.DP, dtype=np.int8), np.ones(count), np.ones(count, dtype=np.bool_))
    clock = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 100 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
    chosen = shard_links(links, kinds, pair_features(transfers, clock))
    if chosen is None:
        return None
    name = transfers.addresses
    return {frozenset((name[a], name[b])) for a, b in zip(links.low[chosen], links.high[chosen], strict=True)}


def grid(rows, columns, row_bytes, column_bytes):
    cell = [[f"{r}.{c}" for c in range(columns)] for r in range(rows)]
    flows = [flow for row in cell for flow in ring(row, row_bytes)]
    return flows + [flow for column in zip(*cell, strict=True) for flow in ring(list(column), column_bytes)]


@pytest.mark.parametrize(("rows", "columns"), [(2, 4), (3, 3), (4, 8)])
def test_heavy_rows_and_light_columns_are_shards_and_replicas(rows, columns):
    links = found(grid(rows, columns, 24_000_000, 3_000_000))
    assert links is not None
    assert all(len({end.split(".")[0] for end in link}) == 1 for link in links)
    assert len({end for link in links for end in link}) == rows * columns


def test_rings_of_one_weight_do_not_come_apart():
    assert found(grid(3, 4, 8_000_000, 8_000_000)) is None


def test_one_slow_link_in_a_ring_makes_no_shards():
    flows = [flow if flow.src != "a" else flow._replace(bytes=flow.bytes * 3) for flow in ring("abcdef", 6_000_000)]
    assert found(flows) is None
