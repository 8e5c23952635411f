"""Makes a failing scenario small: fewer GPUs, fewer settings, as long as the same check still fails.

Greedy: simplifications are tried in order, what still fails is kept and the list starts again. What cannot be taken
away without curing the failure is its likely cause, and is named with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from llmprism.errors import LLMPrismError
from llmprism.sim import Scenario, parse_scenario
from llmprism.sim.scenario import ClusterSpec, CollectorSpec, FaultSpec, JobSpec
from robust_case import Outcome, run_case
from robust_draw import as_toml

__all__ = ["Shrunk", "shrink", "unusual"]

SIMPLE_JOB: Final = JobSpec(
    stall_probability=0.0, step_jitter=0.005, compute_jitter=0.005, start_s=-2.0, routing_skew=0.0, gradient_norm=False
)
"""A job without noise: what a setting is put back to."""

SIZES: Final = frozenset(
    {
        "name", "tp", "pp", "dp", "cp", "ep", "micro_batches", "sharding", "shard_group", "activation_mb",
        "gradient_mb", "compute_ms", "expert_mb", "context_mb", "tp_mb", "chunk_mb", "layers", "start_s",
        "optimizer_ms", "repeat", "schedule",
        "apart_s", "setup_factor", "spike_factor", "checkpoint_mb", "evaluate_ms", "virtual_stages", "routing_skew",
    }
)  # fmt: skip
"""Settings that every job has, and those that mean nothing without another one: never a cause by themselves."""

HALVED: Final = {
    "dp": 2, "micro_batches": 2, "pp": 1, "tp": 1, "buckets": 1, "layers": 2, "connections": 1, "cp": 1, "ep": 1,
}  # fmt: skip
"""Settings that are halved, and the least that is left of each: fewer would be another kind of job."""


NEIGHBOURS: Final = ("inference_nodes", "ping_mesh_s", "monitoring", "nvlink")
"""Settings of the cluster that may be what a failure needs."""


@dataclass(frozen=True)
class Shrunk:
    scenario: Scenario
    outcome: Outcome
    tries: int
    cause: str


def shrink(
    scenario: Scenario, outcome: Outcome, tries: int = 40, run: Callable[[Scenario], Outcome] = run_case
) -> Shrunk:
    """The smallest scenario found within so many runs in which the first failing check still fails."""
    target = outcome.failures[0]
    used = 0
    rejected: set[str] = set()
    progress = True
    while progress and used < tries:
        progress = False
        for candidate in _simpler(scenario, target):
            text = as_toml(candidate)
            if text in rejected:
                continue
            try:
                candidate = parse_scenario(candidate.name, text)
            except LLMPrismError:
                continue
            if used >= tries:
                break
            used += 1
            found = run(candidate)
            if target in found.failures and (found.error.startswith("diagnose") or found.true_jobs):
                scenario, outcome, progress = candidate, found, True
                break
            rejected.add(text)
    return Shrunk(scenario, outcome, used, unusual(scenario))


def unusual(scenario: Scenario) -> str:
    """The shape, how busy the network is, and the settings without which it does not fail."""
    parts: list[str] = []
    for job in scenario.jobs:
        parts += _different(job, SIMPLE_JOB, skip=SIZES)
    parts += _different(scenario.collector, CollectorSpec())
    parts += _different(
        scenario.cluster, ClusterSpec(), only=("nvlink", "monitoring", "inference_nodes", "ping_mesh_s")
    )
    parts += [fault.kind for fault in scenario.faults]
    job = scenario.jobs[0]
    degrees = [f"{n} {getattr(job, n)}" for n in ("tp", "pp", "dp", "cp", "ep") if getattr(job, n) > 1]
    shape = " x ".join(degrees) + (f", {job.micro_batches} micro-batches" if job.micro_batches > 1 else "")
    if job.sharding != "none":
        shape += f", {job.sharding}"
    if len(scenario.jobs) > 1:
        shape += f", {len(scenario.jobs)} jobs"
    if job.pp > 1:
        shape += f", {job.schedule}, activation {_share_of_pass(job.activation_mb, scenario):.2g} of a pass"
    shape += (
        f", gradients {_share_of_pass(job.gradient_mb, scenario) / max(3 * job.micro_batches, 1):.2g} of the compute"
    )
    return f"{shape}; with " + (", ".join(dict.fromkeys(parts)) or "no special setting")


def _share_of_pass(size_mb: float, scenario: Scenario) -> float:
    """Time that so many bytes take on a NIC, per forward pass of one micro-batch."""
    return size_mb * 8 / scenario.cluster.nic_gbps / scenario.jobs[0].compute_ms


def _different(spec: Any, default: Any, skip: frozenset[str] = frozenset(), only: tuple[str, ...] = ()) -> list[str]:
    names = [f.name for f in fields(spec) if f.name not in skip and (not only or f.name in only)]
    return [f"{n} {getattr(spec, n)}" for n in names if getattr(spec, n) != getattr(default, n)]


def _simpler(scenario: Scenario, target: str) -> Iterator[Scenario]:
    """Simplifications, the large ones first."""
    for i in range(len(scenario.jobs) - 1, -1, -1):
        if len(scenario.jobs) > 1:
            jobs = scenario.jobs[:i] + scenario.jobs[i + 1 :]
            faults = tuple(f for f in scenario.faults if f.job in {job.name for job in jobs})
            yield _fitted(replace(scenario, jobs=jobs, faults=faults))
    if scenario.faults and target != "faults":
        yield replace(scenario, faults=())
    if scenario.collector != CollectorSpec():
        yield replace(scenario, collector=CollectorSpec())
    quiet = replace(scenario.cluster, monitoring=False, inference_nodes=0, ping_mesh_s=0.0)
    if quiet != scenario.cluster:
        yield replace(scenario, cluster=quiet)
    for half in (slice(None), slice(0, None, 2), slice(1, None, 2)):
        simple = tuple(_reset(job, _special(job)[half]) for job in scenario.jobs)
        if simple != scenario.jobs:
            yield replace(scenario, jobs=simple)
    for name, least in HALVED.items():
        for i, job in enumerate(scenario.jobs):
            value = getattr(job, name)
            if value > least:
                smaller: dict[str, Any] = {name: max(least, 1 if value % 2 else value // 2)}
                yield _fitted(replace(scenario, jobs=_with(scenario.jobs, i, replace(job, **smaller))))
    yield from _settings_reset(scenario)
    yield replace(scenario, seconds=round(scenario.seconds * 0.6, 2), faults=_sooner(scenario.faults, 0.6))


def _settings_reset(scenario: Scenario) -> Iterator[Scenario]:
    for item in fields(CollectorSpec):
        default = getattr(CollectorSpec(), item.name)
        if getattr(scenario.collector, item.name) != default:
            yield replace(scenario, collector=replace(scenario.collector, **{item.name: default}))
    for i, job in enumerate(scenario.jobs):
        for name in _special(job):
            yield replace(scenario, jobs=_with(scenario.jobs, i, _reset(job, [name])))
        if job.sharding != "none":
            yield replace(scenario, jobs=_with(scenario.jobs, i, replace(job, sharding="none", shard_group=0)))
    simple = replace(ClusterSpec(), servers=scenario.cluster.servers, gpus_per_server=scenario.cluster.gpus_per_server)
    for name in (
        "inference_nodes",
        "ping_mesh_s",
        "monitoring",
        "fabric",
        "address_plan",
        "servers_per_pod",
        "spines",
        "nvlink",
    ):
        if getattr(scenario.cluster, name) != getattr(simple, name):
            yield replace(scenario, cluster=replace(scenario.cluster, **{name: getattr(simple, name)}))


def _special(job: JobSpec) -> list[str]:
    """Names of the settings that are not as in a job without habits."""
    return [
        f.name for f in fields(JobSpec) if f.name not in SIZES and getattr(job, f.name) != getattr(SIMPLE_JOB, f.name)
    ]


def _reset(job: JobSpec, names: list[str]) -> JobSpec:
    simple: dict[str, Any] = {name: getattr(SIMPLE_JOB, name) for name in names}
    return replace(job, **simple)


def _with(jobs: tuple[JobSpec, ...], index: int, job: JobSpec) -> tuple[JobSpec, ...]:
    return (*jobs[:index], job, *jobs[index + 1 :])


def _fitted(scenario: Scenario) -> Scenario:
    """No more servers than the jobs need."""
    per_server = scenario.cluster.gpus_per_server
    needed = sum(-(-job.gpus // per_server) for job in scenario.jobs)
    return replace(scenario, cluster=replace(scenario.cluster, servers=max(needed, 1)))


def _sooner(faults: tuple[FaultSpec, ...], factor: float) -> tuple[FaultSpec, ...]:
    return tuple(replace(f, at_s=round(f.at_s * factor, 3), for_s=round(f.for_s * factor, 3)) for f in faults)
