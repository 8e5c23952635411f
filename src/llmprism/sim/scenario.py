"""A scenario: cluster, jobs, collector and faults as a small TOML file says them.

Every field has a default, so that a scenario states only what makes it special. Unknown keys and impossible values are
refused with the name of the field. Degrees multiply to the job's GPUs: `tp * cp * dp * pp` (ep divides dp * cp).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from llmprism.errors import InputError, UsageError
from llmprism.limits import MAX_SIMULATED_GPUS, MAX_SIMULATED_SECONDS

__all__ = [
    "ClusterSpec",
    "CollectorSpec",
    "FaultSpec",
    "JobSpec",
    "Scenario",
    "parse_scenario",
    "read_scenario",
    "scaled",
    "scenario_names",
]

SCHEDULES = ("1f1b", "gpipe", "interleaved", "zero_bubble")
SHARDINGS = ("none", "zero1", "zero2", "fsdp", "hsdp")
COLLECTIVES = ("ring", "tree", "hierarchical")
PLACEMENTS = ("contiguous", "scattered")
HALVES = ("both", "lower", "upper")
FABRICS = ("rail", "plain")
TRANSPORTS = ("tcp", "rdma")
ADDRESS_PLANS = ("rail", "server", "ipv6")
LEVELS = ("easy", "medium", "hard", "brutal")
FAULT_KINDS = (
    "slow_gpu",
    "slow_nic",
    "slow_link",
    "slow_leaf",
    "slow_spine",
    "ecmp_collision",
    "slow_storage",
    "imbalance",
    "slow_group",
    "stall",
    "hang",
    "crash",
    "crash_restart",
)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`fabric`: `rail` hangs GPU g of each server of a pod on leaf g; `plain` hangs whole servers on one leaf.

    `transport` rdma: telemetry of RoCEv2 only, without the jobs' store and bootstrap traffic over TCP.
    `uplink_gbps` is the rate between one leaf and one spine; it binds where the scenario asks for `contention`.
    """

    servers: int = 4
    gpus_per_server: int = 8
    fabric: str = "rail"
    servers_per_pod: int = 16
    spines: int = 4
    nic_gbps: float = 200.0
    uplink_gbps: float = 1600.0
    nvlink: bool = True
    address_plan: str = "rail"
    storage_nodes: int = 2
    storage_gbps: float = 100.0
    monitoring: bool = False
    transport: str = "tcp"


@dataclass(frozen=True, slots=True)
class CollectorSpec:
    """What the exporters do to the records. Times in milliseconds unless the name says otherwise.

    `idle_ms` cuts a record at a pause (0.5 ms in the real captures); a long one merges messages. `active_s` cuts a long
    record. `granularity_ms` rounds times down. `sampling` N keeps one packet of N and re-estimates the bytes.
    """

    idle_ms: float = 0.5
    active_s: float = 60.0
    skew_ms: float = 0.0
    granularity_ms: float = 0.0
    loss: float = 0.0
    duplicates: float = 0.0
    sampling: int = 1
    late: float = 0.0
    late_s: float = 2.0
    outage_leaf: int = -1
    outage_at_s: float = 0.0
    outage_for_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One tenant's job. Sizes are per GPU: `activation_mb` per micro-batch, `gradient_mb` per step.

    `compute_ms` is the forward time of one micro-batch on one stage; backward takes twice as long. `start_s` below 0:
    the job was running before the window. `repeat` makes so many jobs of this kind, `apart_s` between the starts of one
    and the next. `half` takes only the lower or upper half of each server's GPUs. `steps` 0
    and `stop_s` 0: it runs to the end of the window.
    """

    name: str = "job"
    repeat: int = 1
    apart_s: float = 0.37
    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    schedule: str = "1f1b"
    virtual_stages: int = 2
    micro_batches: int = 4
    sharding: str = "none"
    shard_group: int = 0
    collective: str = "ring"
    buckets: int = 4
    unequal_buckets: bool = True
    overlap: bool = True
    layers: int = 6
    activation_mb: float = 16.0
    gradient_mb: float = 200.0
    expert_mb: float = 4.0
    context_mb: float = 8.0
    compute_ms: float = 20.0
    optimizer_ms: float = 3.0
    tied_embeddings_mb: float = 0.0
    gradient_norm: bool = True
    variable_length: float = 0.0
    routing_skew: float = 0.3
    setup_factor: float = 8.0
    step_jitter: float = 0.03
    compute_jitter: float = 0.03
    spike_probability: float = 0.0
    spike_factor: float = 1.6
    alternate: float = 1.0
    checkpoint_every: int = 0
    checkpoint_mb: float = 500.0
    evaluate_every: int = 0
    evaluate_ms: float = 1500.0
    data_mb: float = 0.0
    data_jitter_ms: float = 0.0
    placement: str = "contiguous"
    half: str = "both"
    gpu_offset: int = 0
    start_s: float = -2.0
    stop_s: float = 0.0
    steps: int = 0
    connections: int = 2
    chunk_mb: float = 1.0
    stall_probability: float = 0.02
    tp_mb: float = 2.0

    @property
    def gpus(self) -> int:
        return self.tp * self.cp * self.dp * self.pp


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One planted fault. `rank`, `stage`, `group` and `leaf`/`spine` name the victim; `for_s` 0: to the end."""

    kind: str
    job: str = ""
    rank: int = 0
    stage: int = 0
    group: int = 0
    leaf: int = 0
    spine: int = 0
    at_s: float = 20.0
    for_s: float = 0.0
    factor: float = 3.0
    other_job: str = ""
    restart_s: float = 8.0


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str = ""
    level: str = "easy"
    seconds: float = 60.0
    seed: int = 1
    contention: bool = False
    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    collector: CollectorSpec = field(default_factory=CollectorSpec)
    jobs: tuple[JobSpec, ...] = ()
    faults: tuple[FaultSpec, ...] = ()


T = TypeVar("T")


def scenario_names() -> list[str]:
    """Names of the scenarios in the package, in order of their file names."""
    folder = resources.files("llmprism.sim") / "scenarios"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def read_scenario(name: str) -> Scenario:
    """A scenario of the package by name, or any TOML file by path."""
    if name in scenario_names():
        text = (resources.files("llmprism.sim") / "scenarios" / f"{name}.toml").read_text(encoding="utf-8")
        return parse_scenario(name, text)
    path = Path(name)
    if path.suffix != ".toml":
        raise UsageError(f"no scenario is called {name!r}: `llmprism simulate --list` shows them; a file ends in .toml")
    try:
        return parse_scenario(path.stem, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error


def parse_scenario(name: str, text: str) -> Scenario:
    """A scenario from its TOML text; InputError names the field that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"scenario {name}: not TOML ({error})") from error
    cluster = _build(ClusterSpec, document.pop("cluster", {}), f"{name}.cluster")
    collector = _build(CollectorSpec, document.pop("collector", {}), f"{name}.collector")
    jobs = tuple(
        job
        for i, item in enumerate(document.pop("job", []))
        for job in _repeated(_build(JobSpec, item, f"{name}.job[{i}]"))
    )
    faults = tuple(_build(FaultSpec, item, f"{name}.fault[{i}]") for i, item in enumerate(document.pop("fault", [])))
    scenario = _build(Scenario, {"name": name, **document}, name)
    scenario = replace(scenario, cluster=cluster, collector=collector, jobs=jobs, faults=faults)
    _check(scenario)
    return scenario


def scaled(scenario: Scenario, gpus: int | None = None, minutes: float | None = None) -> Scenario:
    """The same scenario on another number of GPUs (the data-parallel degrees change) or over another time."""
    if minutes is not None:
        if minutes <= 0:
            raise UsageError("--minutes must be above 0")
        scenario = replace(scenario, seconds=minutes * 60)
    if gpus is not None:
        per_server = scenario.cluster.gpus_per_server
        if gpus < per_server:
            raise UsageError(f"--gpus must be at least {per_server}: one server")
        servers = gpus // per_server
        ratio = servers / scenario.cluster.servers
        jobs = tuple(replace(job, dp=_scaled_dp(job, ratio)) for job in scenario.jobs)
        scenario = replace(scenario, cluster=replace(scenario.cluster, servers=servers), jobs=jobs)
        _check(scenario)
    return scenario


def _scaled_dp(job: JobSpec, ratio: float) -> int:
    unit = max(job.ep // job.cp, job.shard_group, 1)
    return max(unit, int(job.dp * ratio) // unit * unit)


def _repeated(job: JobSpec) -> list[JobSpec]:
    if job.repeat <= 1:
        return [job]
    return [
        replace(job, name=f"{job.name}{i}", repeat=1, start_s=job.start_s + job.apart_s * i) for i in range(job.repeat)
    ]


def _build(kind: type[T], values: Any, where: str) -> T:
    if not isinstance(values, dict):
        raise InputError(f"scenario {where}: a table is expected")
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    for key, value in values.items():
        if key not in known:
            raise InputError(f"scenario {where}: there is no setting {key!r}")
        accepted = (int, float) if hints[key] is float else hints[key]
        if not isinstance(value, accepted) or (isinstance(value, bool) and hints[key] is not bool):
            raise InputError(f"scenario {where}.{key}: {value!r} is not a {hints[key].__name__}")
    try:
        return kind(**values)
    except TypeError as error:
        raise InputError(f"scenario {where}: {error}") from error


def _check(scenario: Scenario) -> None:
    """Refuses what cannot be simulated, before anything is allocated."""
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
    shares = (spec.loss, spec.duplicates, spec.late)
    _demand(scenario, all(0 <= share <= 1 for share in shares), "loss, duplicates and late are shares of 1")
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
    sharded = job.sharding in ("fsdp", "hsdp")
    _demand(scenario, not sharded or job.pp == 1, f"{name}: fsdp is simulated without a pipeline")
    even = not job.shard_group or (job.dp * job.cp) % job.shard_group == 0
    _demand(scenario, even, f"{name}: shard_group must divide dp * cp")
    cut = job.schedule == "interleaved" and job.micro_batches % job.pp
    _demand(scenario, not cut, f"{name}: interleaved needs micro_batches in multiples of pp")
    _demand(scenario, job.half in HALVES and job.gpu_offset >= 0, f"{name}: half must be one of {', '.join(HALVES)}")
    _demand(scenario, job.placement in PLACEMENTS, f"{name}: placement must be one of {', '.join(PLACEMENTS)}")
