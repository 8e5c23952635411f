"""Refuses scenarios that cannot be simulated, with the name of the setting, before anything is allocated."""

from __future__ import annotations

from llmprism.errors import InputError
from llmprism.limits import MAX_SIMULATED_GPUS, MAX_SIMULATED_SECONDS
from llmprism.sim.collectives import COLLECTIVES
from llmprism.sim.specs import (
    ADDRESS_PLANS,
    FABRICS,
    FAULT_KINDS,
    HALVES,
    LEVELS,
    PLACEMENTS,
    SCHEDULES,
    SHARDINGS,
    TRANSPORTS,
    JobSpec,
    Scenario,
)

__all__ = ["check_scenario"]

MAX_RING_PIECES = 60
"""The noise of a ring's pieces is drawn by (operation, piece): sixty fit."""


def check_scenario(scenario: Scenario) -> None:
    """InputError where the scenario is impossible."""
    cluster = scenario.cluster
    _demand(scenario, scenario.level in LEVELS, f"level must be one of {', '.join(LEVELS)}")
    _demand(scenario, 0 < scenario.seconds <= MAX_SIMULATED_SECONDS, "seconds must be above 0 and at most a day")
    _demand(scenario, cluster.servers > 0 and cluster.gpus_per_server > 0, "a cluster has servers and GPUs")
    gpus = cluster.servers * cluster.gpus_per_server
    _demand(scenario, gpus <= MAX_SIMULATED_GPUS, f"at most {MAX_SIMULATED_GPUS} GPUs")
    _demand(scenario, cluster.fabric in FABRICS, f"fabric must be one of {', '.join(FABRICS)}")
    _demand(scenario, cluster.address_plan in ADDRESS_PLANS, f"address_plan: one of {', '.join(ADDRESS_PLANS)}")
    _demand(scenario, cluster.transport in TRANSPORTS, f"transport must be one of {', '.join(TRANSPORTS)}")
    rates = (cluster.nic_gbps, cluster.uplink_gbps, cluster.storage_gbps)
    _demand(scenario, min(rates) > 0 and cluster.servers_per_pod > 0, "rates and pods are above 0")
    _demand(
        scenario, 0 <= cluster.storage_nodes <= 250 and 0 < cluster.spines <= 1024, "0-250 storage nodes, 1-1024 spines"
    )
    _demand(scenario, 0 <= cluster.inference_nodes <= 250 and cluster.ping_mesh_s >= 0, "0-250 inference nodes")
    names = [job.name for job in scenario.jobs]
    _demand(scenario, len(set(names)) == len(names), "two jobs have the same name")
    _check_collector(scenario)
    for job in scenario.jobs:
        _check_job(scenario, job)
    for fault in scenario.faults:
        _demand(scenario, fault.kind in FAULT_KINDS, f"fault kind must be one of {', '.join(FAULT_KINDS)}")
        _demand(scenario, not fault.job or fault.job in names, f"fault names the unknown job {fault.job!r}")
        _demand(scenario, fault.factor > 0 and min(fault.rank, fault.stage, fault.group) >= 0, "fault: factor above 0")


def _demand(scenario: Scenario, condition: bool, text: str) -> None:
    if not condition:
        raise InputError(f"scenario {scenario.name}: {text}")


def _check_collector(scenario: Scenario) -> None:
    spec = scenario.collector
    shares = (spec.loss, spec.duplicates, spec.late, spec.cuts)
    _demand(scenario, all(0 <= share <= 1 for share in shares), "loss, duplicates, late and cuts are shares of 1")
    times = (spec.idle_ms, spec.skew_ms, spec.granularity_ms, spec.late_s)
    _demand(scenario, min(times) >= 0 and spec.active_s > 0 and spec.sampling >= 1, "collector: times are not negative")


def _check_job(scenario: Scenario, job: JobSpec) -> None:
    name = job.name
    degrees = (job.tp, job.pp, job.dp, job.cp, job.ep, job.micro_batches, job.buckets, job.layers, job.virtual_stages)
    _demand(scenario, min(degrees) > 0 and job.connections > 0, f"{name}: degrees are at least 1")
    _demand(scenario, job.gpus <= MAX_SIMULATED_GPUS and job.micro_batches <= 4096, f"{name}: too large")
    _demand(scenario, job.schedule in SCHEDULES, f"{name}: schedule must be one of {', '.join(SCHEDULES)}")
    _demand(scenario, job.sharding in SHARDINGS, f"{name}: sharding must be one of {', '.join(SHARDINGS)}")
    _demand(scenario, job.collective in COLLECTIVES, f"{name}: collective must be one of {', '.join(COLLECTIVES)}")
    _demand(scenario, (job.dp * job.cp) % job.ep == 0, f"{name}: ep must divide dp * cp")
    _demand(scenario, job.compute_ms > 0 and job.chunk_mb > 0, f"{name}: compute_ms and chunk_mb are above 0")
    _demand(scenario, job.sharding != "hsdp" or job.pp == 1, f"{name}: hsdp is simulated without a pipeline")
    _demand(scenario, 0 <= job.ring_pieces <= MAX_RING_PIECES, f"{name}: ring_pieces must be 0 to {MAX_RING_PIECES}")
    _demand(scenario, 1 <= job.channels <= 4, f"{name}: channels must be 1 to 4")
    _demand(scenario, job.storage_fanout >= 1, f"{name}: storage_fanout must be at least 1")
    shares = (job.hop_gap_ms, job.host_jitter_ms, job.gather_share, job.optimizer_spread, job.byte_noise)
    _demand(scenario, min(shares) >= 0, f"{name}: times and shares are not negative")
    even = not job.shard_group or (job.dp * job.cp) % job.shard_group == 0
    _demand(scenario, even, f"{name}: shard_group must divide dp * cp")
    cut = job.schedule == "interleaved" and job.micro_batches % job.pp
    _demand(scenario, not cut, f"{name}: interleaved needs micro_batches in multiples of pp")
    _demand(scenario, job.half in HALVES and job.gpu_offset >= 0, f"{name}: half must be one of {', '.join(HALVES)}")
    _demand(scenario, job.placement in PLACEMENTS, f"{name}: placement must be one of {', '.join(PLACEMENTS)}")
