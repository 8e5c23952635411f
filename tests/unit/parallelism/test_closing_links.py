"""Rings of stages whose closing link carries too little for interleaved stages."""

import numpy as np
import pytest

from llmprism.model import PairKind, StepClock
from llmprism.parallelism.closing_links import closed_by_collectives, without_light_closings
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.pair_ends import pair_index
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.schedules import interleaved, message_times, one_f_one_b
from llmprism.parallelism.stage_links import Pipelines
from unit.builders import MS, Flow, transfer_table

DP, PP, OTHER = PairKind.DP, PairKind.PP, PairKind.OTHER


def kinds_of(*rings):
    """The kinds of the links of these rings of stages, given as the bytes that each link carries each way."""
    low, high, sent, member = [], [], [], 0
    for ring in rings:
        low += [member + i for i in range(len(ring))]
        high += [member + (i + 1) % len(ring) for i in range(len(ring))]
        sent += ring
        member += len(ring)
    number = np.arange(len(sent), dtype=np.int32)
    links = Links(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32), 2 * number, 2 * number + 1)
    size = np.repeat(np.array(sent, dtype=np.float64), 2)
    features = PairFeatures(size, np.zeros(size.size), np.full((size.size, 4), 0.25), size)
    none = np.zeros(len(sent), dtype=np.bool_)
    kinds = LinkKinds(np.full(len(sent), PP, dtype=np.int8), np.full(len(sent), 0.9), none, ~none)
    return without_light_closings(links, kinds, features).kind.tolist()


@pytest.mark.parametrize("closing", [10.0, 27.0, 45.0])
def test_a_closing_link_below_half_of_the_others_closes_nothing(closing):
    assert kinds_of([100.0, 100.0, 100.0, closing], [100.0, closing, 100.0]) == [PP, PP, PP, OTHER, PP, OTHER, PP]


@pytest.mark.parametrize("closing", [50.0, 75.0, 300.0])
def test_interleaved_stages_send_half_at_least_over_the_closing_link(closing):
    assert kinds_of([100.0, 100.0, 100.0, closing]) == [PP] * 4


def test_all_rings_have_one_schedule():
    assert kinds_of([100.0, 100.0, 10.0], [100.0, 100.0, 50.0]) == [PP] * 6


def closed(order, *, stages, tied=0, parts=1):
    """Is a pipeline of this order whose first and last stage exchange so many messages' bytes in every step closed by
    a collective, one way of which arrives in `parts`? The ticks of the clock are in the middle of that exchange."""
    times, steps = message_times(order, 2.0, 0.2), 6
    last = max(moments[-1] for moments in times.values())
    period = int((last + 10 + 4 * parts) * 10 * MS)
    flows = [
        Flow(
            f"s{here:02}",
            f"s{there:02}",
            step * period + int(at * 10 * MS),
            step * period + int(at * 10 + 1) * MS,
            10**6,
        )
        for step in range(steps)
        for (here, there), moments in times.items()
        for at in moments
    ]
    ends = "s00", f"s{stages - 1:02}"
    for step in range(steps if tied else 0):
        begin = step * period + int((last + 4) * 10 * MS)
        flows.append(Flow(*ends, begin, begin + 20 * MS, tied * 10**6))
        flows += [
            Flow(*ends[::-1], begin + part * 40 * MS, begin + (part * 40 + 20) * MS, tied * 10**6 // (part + 1))
            for part in range(parts)
        ]
    transfers = transfer_table(flows)
    pair_of = pair_index(transfers)
    hops = [(pair_of[i, i + 1], pair_of[i + 1, i]) for i in range(stages - 1)]
    closing = [(pair_of[stages - 1, 0], pair_of[0, stages - 1])]
    ticks = np.arange(steps + 1, dtype=np.int64) * period + int((last + 5) * 10 * MS)
    clock = StepClock(ticks, np.ones(steps, dtype=np.bool_), 1.0)
    pipes = Pipelines((tuple(range(stages)),), hops, hops[-1:], closing, rings=True)
    return closed_by_collectives(transfers, pipes, clock)


@pytest.mark.parametrize("stages", [3, 16])
@pytest.mark.parametrize(("batches", "tied"), [(2, 1), (8, 20), (64, 64)])
def test_one_exchange_of_every_step_closes_no_pipeline(stages, batches, tied):
    assert closed(one_f_one_b(stages, batches), stages=stages, tied=tied)


def test_one_exchange_that_breaks_off_one_way_closes_no_pipeline():
    assert closed(one_f_one_b(4, 8), stages=4, tied=20, parts=5)


@pytest.mark.parametrize("tied", [0, 5, 100])
@pytest.mark.parametrize(("stages", "batches", "chunks"), [(3, 3, 2), (4, 16, 2), (4, 8, 4), (16, 16, 2)])
def test_chunks_close_a_pipeline_with_tied_embeddings_or_without(stages, batches, chunks, tied):
    assert not closed(interleaved(stages, batches, chunks), stages=stages, tied=tied)
