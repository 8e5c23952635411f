"""Which GPUs each job gets.

Jobs take free servers in the order of their start; servers of a job that has ended are free again for later ones.
Ranks follow Megatron's order (tp fastest, then cp, dp, pp) over the GPUs that the job was given, so a `gpu_offset` that
is not a multiple of the server's size makes stages cut servers in the middle.
"""

from __future__ import annotations

import numpy as np

from llmprism.errors import UsageError
from llmprism.sim.scenario import Scenario
from llmprism.sim.simulated_cluster import SimulatedCluster

__all__ = ["place_jobs"]

REUSE_PAUSE_S = 2.0
"""Seconds between the end of one job and the start of the next on the same server."""


def place_jobs(scenario: Scenario, cluster: SimulatedCluster, rng: np.random.Generator) -> list[list[int]]:
    """NIC ids of each job, in rank order."""
    per_server = cluster.spec.gpus_per_server
    free_at = np.full(cluster.gpus, -np.inf)
    placed: dict[int, list[int]] = {}
    order = sorted(range(len(scenario.jobs)), key=lambda j: (scenario.jobs[j].start_s, j))
    for j in order:
        job = scenario.jobs[j]
        free = np.flatnonzero(free_at + REUSE_PAUSE_S <= job.start_s)
        if job.half != "both":
            upper = free % per_server >= per_server // 2
            free = free[upper == (job.half == "upper")]
        if job.placement == "scattered":
            servers = rng.permutation(cluster.spec.servers)
            rank_of_server = np.empty_like(servers)
            rank_of_server[servers] = np.arange(servers.size)
            free = free[np.argsort(rank_of_server[free // per_server], kind="stable")]
        chosen = free[job.gpu_offset : job.gpu_offset + job.gpus]
        if chosen.size < job.gpus:
            raise UsageError(
                f"scenario {scenario.name}: job {job.name} needs {job.gpus} GPUs from {job.start_s:g} s on, "
                f"{max(free.size - job.gpu_offset, 0)} are free"
            )
        free_at[chosen] = job.stop_s if job.stop_s > 0 else np.inf
        placed[j] = [int(nic) for nic in chosen]
    return [placed[j] for j in range(len(scenario.jobs))]
