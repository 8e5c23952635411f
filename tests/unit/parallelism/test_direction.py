from dataclasses import replace

import numpy as np
import pytest

from llmprism.parallelism import direction
from llmprism.parallelism.direction import in_stage_order
from llmprism.parallelism.pair_ends import pair_index
from llmprism.parallelism.rules import RULES
from unit.builders import MS, Flow, build_job, cut_in_pieces, transfer_table


@pytest.mark.parametrize("order", ["1f1b", "gpipe"])
@pytest.mark.parametrize("pp", [2, 3, 4])
@pytest.mark.parametrize("phase", [0.0, 0.4, 0.8])
def test_the_first_stage_comes_first_wherever_the_clock_ticks(order, pp, phase):
    job = build_job(pp=pp, dp=2, micro_batches=6, order=order)
    transfers = transfer_table(cut_in_pieces(job.records))
    number = {name: index for index, name in enumerate(transfers.addresses)}
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    boundary = ends[1:] + (phase * np.median(np.diff(ends))).astype(np.int64)
    for pipeline in job.pipelines:
        stages = tuple(number[name] for name in pipeline)
        for path in (stages, stages[::-1]):
            assert in_stage_order(transfers, (path,), pair_index(transfers), {}, boundary).paths == (stages,)


def test_paths_between_the_same_sides_decide_together():
    job = build_job(pp=2, dp=2)
    transfers = transfer_table(job.records)
    number = {name: index for index, name in enumerate(transfers.addresses)}
    stages = [tuple(number[name] for name in pipeline) for pipeline in job.pipelines]
    sides = {member: f"stage {stage}" for path in stages for stage, member in enumerate(path)}
    silent = transfers.select_rows(~np.isin(transfers.pair_src[transfers.pair_of_row], stages[1]))
    boundary = np.array(job.step_ends_ns, dtype=np.int64)
    mixed = (stages[0], stages[1][::-1])  # the second sends nothing and cannot tell for itself
    assert in_stage_order(silent, mixed, pair_index(silent), sides, boundary).paths == tuple(sorted(stages))


def test_without_traffic_a_path_stays_as_it_was():
    transfers = transfer_table(build_job().records)
    boundary = np.array([0, 1, 2], dtype=np.int64)
    assert in_stage_order(transfers, ((0, 1),), pair_index(transfers), {}, boundary).paths == ((0, 1),)


@pytest.mark.parametrize("seed", range(3))
def test_all_paths_at_once_rest_as_each_alone(seed):
    job = build_job(pp=4, dp=2, micro_batches=6)
    transfers = transfer_table(cut_in_pieces(job.records, seed=seed))
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    random = np.random.default_rng(seed)
    paths = [tuple(random.integers(0, transfers.pair_count, (2, size)).tolist()) for size in (1, 2, 3, 5)]
    pairs = np.array([pair for along, against in paths for pair in (*along, *against)])
    sign = np.array([one for along, _ in paths for one in (*[1] * len(along), *[-1] * len(along))])
    found = direction._median_rests.python(
        transfers.pair_offsets, transfers.end_ns, transfers.bytes, pairs, sign, np.array([0, 2, 6, 12, 22]),
        ends, RULES.stages.resting_band, 0.0, 1_000,
    )  # fmt: skip
    assert found.tolist() == [list(direction._rests(transfers, *path, ends, RULES)) for path in paths]


def test_gradients_that_come_last_at_the_first_stage_make_its_place_clearer():
    job = build_job(pp=2, dp=2, micro_batches=6)
    transfers = transfer_table(job.records)
    number = {name: index for index, name in enumerate(transfers.addresses)}
    stages = tuple(number[name] for name in job.pipelines[0])
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    apart = np.isin(transfers.pair_src, stages) & np.isin(transfers.pair_dst, stages)
    gradient = ~apart & np.isin(transfers.pair_src, stages)
    found = in_stage_order(transfers, (stages,), pair_index(transfers), {}, ends, RULES, gradient)
    assert found.paths == (stages,)
    swapped = transfers.pair_src.copy()
    swapped[gradient] = np.where(swapped[gradient] == stages[0], stages[1], stages[0])
    turned = replace(transfers, pair_src=swapped)
    assert in_stage_order(turned, (stages,), pair_index(transfers), {}, ends, RULES, gradient).clear < found.clear


def test_a_collective_in_which_one_end_is_ahead_for_a_moment_is_no_end_of_the_range():
    """Two stages, the gradient of each micro-batch comes back before the next activation; then both reduce 2 MB."""
    ways = [("ab", 100), ("ab", 150), ("ba", 250), ("ba", 350), ("ab", 400), ("ba", 500), ("ab", 550), ("ba", 650)]
    flows = []
    for step in range(6):
        begin = 1000 * step
        flows += [Flow(*way, (begin + at) * MS, (begin + at + 1) * MS, 1_000_000) for way, at in ways]
        flows += [Flow("b", "a", (begin + 800) * MS, (begin + 801) * MS, 2_000_000)]
        flows += [Flow("a", "b", (begin + 800) * MS, (begin + 803) * MS, 2_000_000)]
    transfers = transfer_table(flows)
    stages = tuple(transfers.addresses.index(name) for name in "ab")
    boundary = np.arange(0, 7000, 1000, dtype=np.int64) * MS
    order = in_stage_order(transfers, (stages[::-1],), pair_index(transfers), {}, boundary)
    assert order.paths == (stages,)
