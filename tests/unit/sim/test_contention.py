from __future__ import annotations

from typing import Any

import numpy as np

TWO_JOBS = """
seconds = 6
contention = {contention}
[cluster]
servers = 8
gpus_per_server = 1
servers_per_pod = 4
fabric = "plain"
spines = 1
nvlink = false
uplink_gbps = {uplink}
[[job]]
name = "a"
dp = 4
gradient_mb = 600
compute_ms = 2
placement = "scattered"
[[job]]
name = "b"
dp = 4
gradient_mb = 600
compute_ms = 2
placement = "scattered"
"""


def median_period(run: Any) -> float:
    return float(np.median(np.diff(run.simulation.steps(0)[2])))


def test_jobs_that_share_a_thin_uplink_slow_one_another_down(run_scenario: Any) -> None:
    free = run_scenario(TWO_JOBS.format(contention="false", uplink=100))
    wide = run_scenario(TWO_JOBS.format(contention="true", uplink=6400))
    thin = run_scenario(TWO_JOBS.format(contention="true", uplink=100))
    assert median_period(wide) < 1.1 * median_period(free)
    assert median_period(thin) > 1.5 * median_period(free)


def test_a_thin_uplink_carries_no_more_than_its_rate(run_scenario: Any) -> None:
    run = run_scenario(TWO_JOBS.format(contention="true", uplink=100))
    net, trace = run.simulation.network, run.trace
    up = (net.leaf_src[trace.pair] == 0) & (net.leaf_dst[trace.pair] != 0)
    first, last = trace.start[up].min(), trace.end[up].max()
    assert trace.bytes[up].sum() * 8 / (last - first) < 100
