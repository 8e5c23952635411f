"""Habits of libraries and neighbours: each behind a switch, each seen in what it leaves on the network."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from llmprism.model import PairKind
from llmprism.sim.rings import in_order
from unit.sim.conftest import Run, RunScenario

CLUSTER = """
seconds = 6
[cluster]
servers = 8
gpus_per_server = 1
nvlink = false
nic_gbps = 50
{cluster}
[collector]
{collector}
[[job]]
name = "a"
step_jitter = 0.0
compute_jitter = 0.0
stall_probability = 0.0
gradient_norm = false
"""


def scenario(job: str, cluster: str = "", collector: str = "") -> str:
    return CLUSTER.format(cluster=cluster, collector=collector) + job


def bytes_of(run: Run, kind: PairKind) -> dict[tuple[int, int], int]:
    """Bytes per directed pair of NICs over the whole run."""
    trace, pairs = run.trace, run.simulation.pairs
    total: dict[tuple[int, int], int] = defaultdict(int)
    for pair, size in zip(trace.pair[trace.kind == kind], trace.bytes[trace.kind == kind], strict=True):
        total[pairs.src[pair], pairs.dst[pair]] += int(size)
    return dict(total)


def test_a_two_way_ring_hands_out_against_the_direction_in_which_it_adds_up(run_scenario: RunScenario) -> None:
    one_way = bytes_of(run_scenario(scenario("dp = 4")), PairKind.DP)
    two_way = bytes_of(run_scenario(scenario("dp = 4\ntwo_way_rings = true")), PairKind.DP)
    assert set(one_way) == {(0, 1), (1, 2), (2, 3), (3, 0)}
    assert set(two_way) == set(one_way) | {(b, a) for a, b in one_way}
    assert sum(two_way.values()) == pytest.approx(sum(one_way.values()), rel=0.1)


def test_channels_share_the_bytes_over_rings_of_several_orders(run_scenario: RunScenario) -> None:
    one = bytes_of(run_scenario(scenario("dp = 8")), PairKind.DP)
    two = bytes_of(run_scenario(scenario("dp = 8\nchannels = 3")), PairKind.DP)
    assert len(two) > len(one)
    assert sum(two.values()) == pytest.approx(sum(one.values()), rel=0.15)
    assert in_order([0, 1, 2, 3, 4], 0) == [0, 1, 2, 3, 4]
    assert in_order([0, 1, 2, 3, 4], 1) == [0, 4, 3, 2, 1]
    assert in_order([0, 1, 2, 3, 4], 2) == [0, 2, 4, 1, 3]


def test_the_host_between_the_pieces_of_a_ring_cuts_it_into_more_transfers(run_scenario: RunScenario) -> None:
    smooth = run_scenario(scenario("dp = 4\ngradient_mb = 40"))
    gaps = run_scenario(scenario("dp = 4\ngradient_mb = 40\nring_pieces = 24\nhop_gap_ms = 1.5"))
    per_step = [run.trace.pair.size / len(run.simulation.steps(0)[0]) for run in (smooth, gaps)]
    assert per_step[1] > 3 * per_step[0]


def test_peers_of_a_tensor_group_are_apart_by_the_jitter_of_their_hosts(run_scenario: RunScenario) -> None:
    def apart_ms(extra: str) -> float:
        run = run_scenario(scenario("tp = 2\npp = 2\ndp = 2\nactivation_mb = 1\n" + extra))
        trace, pairs = run.trace, run.simulation.pairs
        starts = {}
        for src in (0, 1):
            mine = np.array(
                [pairs.src[p] == src and k == PairKind.PP for p, k in zip(trace.pair, trace.kind, strict=True)]
            )
            starts[src] = np.sort(trace.start[mine])
        size = min(starts[0].size, starts[1].size)
        return float(np.median(np.abs(starts[0][:size] - starts[1][:size]))) / 1e6

    assert apart_ms("") < 0.05
    assert 0.3 < apart_ms("host_jitter_ms = 2.0") < 6


def test_batched_sends_make_both_directions_of_a_pipeline_link_flow_together(run_scenario: RunScenario) -> None:
    def together(extra: str) -> float:
        run = run_scenario(scenario("pp = 4\ndp = 2\nmicro_batches = 16\nactivation_mb = 20\n" + extra))
        trace, pairs = run.trace, run.simulation.pairs
        rows = {ends: np.array([(pairs.src[p], pairs.dst[p]) == ends for p in trace.pair]) for ends in ((0, 2), (2, 0))}
        forward, backward = (trace.start[rows[ends]] for ends in ((0, 2), (2, 0)))
        nearest = np.abs(forward[:, None] - backward[None, :]).min(axis=1)
        return float(np.mean(nearest < 1_000_000))

    assert together("batched_sends = true") > 0.6 > together("")


def test_gathered_parameters_are_fewer_bytes_than_scattered_gradients(run_scenario: RunScenario) -> None:
    whole = bytes_of(run_scenario(scenario("dp = 4\nsharding = 'zero1'\nsteps = 5")), PairKind.DP)
    half = bytes_of(run_scenario(scenario("dp = 4\nsharding = 'zero1'\nsteps = 5\ngather_share = 0.5")), PairKind.DP)
    assert sum(half.values()) == pytest.approx(0.75 * sum(whole.values()), rel=0.02)


def test_overlapped_gathers_run_under_the_forward_pass(run_scenario: RunScenario) -> None:
    def early(extra: str) -> float:
        run = run_scenario(scenario("dp = 4\nmicro_batches = 4\noverlap = false\nsharding = 'zero1'\n" + extra))
        _, starts, ends = run.simulation.steps(0)
        trace = run.trace
        first, last = starts[2], ends[2]
        middle = (first + last) // 2
        inside = (trace.kind == PairKind.DP) & (trace.start >= first) & (trace.start < last)
        return float(np.mean(trace.start[inside] < middle))

    assert early("overlap_gather = true") > 0.3
    assert early("") == 0.0


def test_fsdp_inside_a_pipeline_gathers_for_every_micro_batch(run_scenario: RunScenario) -> None:
    job = "pp = 2\ndp = 4\nmicro_batches = 4\nsharding = 'fsdp'\nsteps = 4\ngradient_mb = 20\nstart_s = -0.01\n"
    each = run_scenario(scenario(job))
    once = run_scenario(scenario(job + "regather = false"))
    bytes_each, bytes_once = (sum(bytes_of(run, PairKind.DP).values()) for run in (each, once))
    assert bytes_each / bytes_once == pytest.approx((4 + 4 + 4) / (1 + 1 + 1), rel=0.05)
    assert bytes_of(each, PairKind.PP)
    assert len(each.simulation.steps(0)[0]) == 4


def test_ranks_read_from_several_storage_nodes(run_scenario: RunScenario) -> None:
    run = run_scenario(scenario("dp = 8\ndata_mb = 2\nstorage_fanout = 4", cluster="storage_nodes = 4"))
    readers = {(src, dst) for (src, dst) in bytes_of(run, PairKind.OTHER) if src >= 8}
    assert len(readers) == 8 * 4


def test_the_optimizer_takes_longer_on_some_ranks(run_scenario: RunScenario) -> None:
    even = run_scenario(scenario("dp = 4\noptimizer_ms = 40\nsteps = 4\nstart_s = -0.01"))
    spread = run_scenario(scenario("dp = 4\noptimizer_ms = 40\nsteps = 4\nstart_s = -0.01\noptimizer_spread = 2.0"))
    assert spread.simulation.steps(0)[2][-1] > even.simulation.steps(0)[2][-1] + 100e6


def test_cut_records_hold_the_same_bytes_in_more_records(run_scenario: RunScenario) -> None:
    whole = run_scenario(scenario("dp = 4"))
    cut = run_scenario(scenario("dp = 4", collector="cuts = 0.5"))
    sizes = [np.concatenate([batch.bytes for batch in run.records]) for run in (whole, cut)]
    assert sizes[1].sum() == sizes[0].sum()
    assert sizes[1].size == pytest.approx(1.5 * sizes[0].size, rel=0.1)


def test_neighbours_are_seen_and_belong_to_no_job(run_scenario: RunScenario) -> None:
    from llmprism.sim.truth import truth_document

    run = run_scenario(scenario("dp = 4", cluster="inference_nodes = 3\nping_mesh_s = 2.0"))
    names = run.simulation.names
    connection = np.concatenate([batch.connection for batch in run.records])
    seen = {(names.src[c], names.dst[c]) for c in np.unique(connection)}
    gpus = run.simulation.cluster.addresses[:8]
    assert {(a, b) for a in gpus for b in gpus if a != b} <= seen
    assert any(src.startswith("10.252.") and dst.startswith("10.252.") for src, dst in seen)
    assert set(truth_document(run.simulation)["jobs"][0]["members"]) == set(gpus[:4])


def test_bytes_of_a_step_vary_by_the_noise_that_is_wanted(run_scenario: RunScenario) -> None:
    def spread(extra: str) -> float:
        run = run_scenario(scenario("pp = 2\ndp = 2\n" + extra))
        sizes = run.trace.bytes[run.trace.kind == PairKind.PP]
        return float(sizes.std() / sizes.mean())

    assert spread("") < 1e-6
    assert 0.005 < spread("byte_noise = 0.03") < 0.03
