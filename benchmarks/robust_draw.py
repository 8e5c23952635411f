"""Random scenarios from wide ranges: layouts, sizes, libraries, collectors, neighbours and faults.

Every part of a scenario has a random stream of its own (seed and name of the part), so that a new habit of the
simulator changes only what it draws and old seeds keep the rest. Sizes follow from times: a step's length is drawn
first, then how much of it each exchange takes, and only then bytes; so micro-batches of 2 and of 64 and steps of 0.1 s
and of 60 s are met with equal probability, and a scenario stays small (RECORD_BUDGET) whatever it draws.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from llmprism.sim.scenario import ClusterSpec, CollectorSpec, FaultSpec, JobSpec, Scenario, parse_scenario
from llmprism.sim.simulation import Simulation
from llmprism.toml_text import toml_text
from robust_habits import HABITS, log_uniform, rounded

__all__ = ["Draw", "as_toml", "draw_scenario", "with_normal_ends"]

RECORD_BUDGET: Final = 150_000
"""Records of a job in a scenario: one to three seconds of work in all."""

STEPS: Final = (10, 40)
STEP_S: Final = (0.1, 60.0)
PIECES: Final = 12
"""Chunks that a transfer is cut into at most, on the mean: more only makes more records of the same shape."""

PACKET_BYTES: Final = 4096
SEEN_PACKETS: Final = 10
"""Packets of the smallest message that a sampling exporter must see: fewer say nothing about its size."""

ENDS: Final = 0.6
"""Share of the window after which jobs end that are to end in it."""

STEP_FAULTS: Final = ("slow_gpu", "slow_nic", "imbalance", "slow_group", "stall", "hang", "crash", "crash_restart")
FABRIC_FAULTS: Final = ("slow_link", "slow_leaf", "slow_spine", "slow_storage")


@dataclass(frozen=True)
class Draw:
    """The random streams of one seed."""

    seed: int

    def part(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")


def draw_scenario(seed: int, faults: bool = False) -> Scenario:
    """The scenario of a seed; `faults`: with one planted fault for certain, else in a third of the seeds."""
    draw = Draw(seed)
    for attempt in range(200):
        cluster = _cluster(draw.part(f"cluster{attempt}"))
        job = _layout(draw.part(f"layout{attempt}"), cluster, "main")
        if job is not None:
            break
    else:
        raise RuntimeError(f"seed {seed}: no layout fits")
    job, guess_s = _sized(draw.part("size"), job, cluster)
    for habit in HABITS:
        job = habit(draw.part(habit.__name__), job)
    collector = _collector(draw.part("collector"), job, guess_s)
    step_s, records = _measured(job, cluster, guess_s, collector)
    if records * STEPS[0] > RECORD_BUDGET:
        job = replace(job, connections=1, chunk_mb=rounded(job.chunk_mb * 4))
        collector = replace(collector, idle_ms=2.0)
        step_s, records = _measured(job, cluster, guess_s, collector)
    steps = max(STEPS[0], min(draw.part("steps").randint(*STEPS), int(RECORD_BUDGET / records)))
    job, seconds = _lifetime(draw.part("life"), job, max(steps * step_s, 1.0), step_s)
    if cluster.ping_mesh_s:
        cluster = replace(cluster, ping_mesh_s=rounded(cluster.ping_mesh_s * seconds / 60))
    cluster, jobs = _neighbours(draw.part("neighbours"), cluster, job, seconds)
    scenario = Scenario(
        name=f"robust-{seed}",
        title=f"Random scenario of seed {seed}",
        level="hard",
        seconds=seconds,
        seed=seed % 100_000 + 1,
        cluster=cluster,
        collector=collector,
        jobs=jobs,
    )
    rng = draw.part("fault")
    if faults or rng.random() < 1 / 3:
        scenario = _with_fault(rng, scenario, step_s)
    return parse_scenario(scenario.name, as_toml(scenario))


def with_normal_ends(scenario: Scenario) -> Scenario:
    """The same without faults, and every job ends after its step at `ENDS`: nothing is to be said."""
    stop = rounded(ENDS * scenario.seconds)
    jobs = tuple(replace(job, start_s=min(job.start_s, 0.5 * stop), stop_s=stop) for job in scenario.jobs)
    return replace(scenario, faults=(), jobs=jobs)


def _cluster(rng: random.Random) -> ClusterSpec:
    gpus = rng.choice((8, 8, 16, 16, 24, 32, 48, 64))
    per_server = rng.choice([n for n in (1, 2, 4, 8) if gpus // n >= 2])
    servers = gpus // per_server
    return ClusterSpec(
        servers=servers,
        gpus_per_server=per_server,
        fabric=rng.choice(("rail", "plain")),
        servers_per_pod=rng.choice((2, 4, 16)),
        spines=rng.choice((1, 2, 4)),
        nic_gbps=rng.choice((1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0)),
        nvlink=rng.random() < 0.6,
        address_plan=rng.choice(("rail", "server", "ipv6")),
        storage_nodes=rng.choice((1, 2, 4, 8)),
        monitoring=rng.random() < 0.3,
        inference_nodes=rng.choice((2, 4)) if rng.random() < 0.15 else 0,
        ping_mesh_s=rng.choice((1.0, 10.0)) if rng.random() < 0.15 else 0.0,
    )


def _layout(rng: random.Random, cluster: ClusterSpec, name: str) -> JobSpec | None:
    """Degrees that fill the cluster; None where what was drawn does not fit, or where the network does not show it.

    Replicas inside one server that speak over NVLink cannot be told from tensor peers (decision 0003), so with NVLink
    a server holds one tensor-parallel group, or all of it is fully sharded.
    """
    gpus = cluster.servers * cluster.gpus_per_server
    tensor = [n for n in (1, 2, 4, 8) if n <= cluster.gpus_per_server]
    tp = rng.choice(tensor)
    if cluster.nvlink and rng.random() < 0.9:
        tp = cluster.gpus_per_server * (2 if rng.random() < 0.08 else 1)
    pp = rng.choice((1, 1, 1, 2, 2, 3, 4, 4, 8, 16))
    cp = rng.choice((2, 4)) if rng.random() < 0.12 else 1
    if gpus % (tp * pp * cp):
        return None
    dp = gpus // (tp * pp * cp)
    ep = rng.choice((2, 4, 8)) if rng.random() < 0.15 else 1
    if (dp * cp) % ep or tp * cp * pp == gpus == cluster.gpus_per_server or dp * pp * cp == 1:
        return None
    alone = cluster.gpus_per_server == 1 or not cluster.nvlink
    schedule = rng.choice(("1f1b", "1f1b", "1f1b", "gpipe", "interleaved", "zero_bubble"))
    micro = rng.choice((2, 3, 4, 4, 6, 8, 8, 12, 16, 24, 32, 64)) if pp > 1 else rng.choice((1, 1, 2, 4, 8))
    if schedule == "interleaved":
        micro = max(pp, micro // pp * pp)
    sharding = rng.choice(("none", "none", "none", "zero1", "zero2", "fsdp", "fsdp", "hsdp"))
    if sharding in ("fsdp", "hsdp") and (cp > 1 or ep > 1 or dp < 2 or (sharding == "hsdp" and pp > 1)):
        sharding = "zero1"
    spans_server = sharding == "fsdp" and tp == 1
    if not (alone or spans_server) and (tp < cluster.gpus_per_server or sharding in ("fsdp", "hsdp")):
        return None
    shard_group = 0
    if sharding == "hsdp":
        divisors = [n for n in range(2, dp) if dp % n == 0]
        if not divisors:
            return None
        shard_group = rng.choice(divisors)
    return JobSpec(
        name=name, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, schedule=schedule, micro_batches=micro, sharding=sharding,
        shard_group=shard_group, virtual_stages=rng.choice((2, 2, 3, 4)), layers=rng.choice((4, 6, 8, 12)),
        collective=rng.choice(("ring", "ring", "ring", "tree")), buckets=rng.choice((1, 2, 4, 8)),
        unequal_buckets=rng.random() < 0.7, overlap=rng.random() < 0.6,
    )  # fmt: skip


def _sized(rng: random.Random, job: JobSpec, cluster: ClusterSpec) -> tuple[JobSpec, float]:
    """Times, then the bytes that take them; returns about how long a step is."""
    target_s = log_uniform(rng, STEP_S[0], 3.0) if cluster.nic_gbps < 20 else log_uniform(rng, *STEP_S)
    gradient_share = log_uniform(rng, 0.01, 0.4) if rng.random() < 0.85 else rng.uniform(0.5, 0.85)
    in_turn = 3 * (job.micro_batches + job.pp - 1)
    compute_ms = target_s * (1 - gradient_share) / in_turn * 1e3
    rate = cluster.nic_gbps / 8 * 1e6  # bytes per millisecond
    send_share = log_uniform(rng, 0.005, 0.4)
    members = job.dp * job.cp
    passes = 1.5 * job.micro_batches if job.sharding in ("fsdp", "hsdp") else 1
    gradient = gradient_share * target_s * 1e3 * rate / (2 * max(members - 1, 1) / members) / passes / 1e6
    gradient = min(max(gradient, 0.5), 40_000.0)
    activation = min(max(send_share * compute_ms * rate / 1e6, 0.05), 400.0)
    largest = max(activation, gradient / max(job.buckets, 1) / 4)
    sized = replace(
        job,
        compute_ms=rounded(compute_ms),
        optimizer_ms=rounded(target_s * 1e3 * rng.choice((0.002, 0.01, 0.05))),
        gradient_mb=rounded(gradient),
        activation_mb=rounded(activation),
        expert_mb=rounded(min(activation, 0.3 * compute_ms * rate / 1e6)),
        context_mb=rounded(min(activation, 0.2 * compute_ms * rate / 1e6)),
        tp_mb=rounded(min(activation, 0.1 * compute_ms * rate / 1e6)),
        tied_embeddings_mb=rounded(gradient * rng.uniform(0.05, 0.5)) if job.pp > 1 and rng.random() < 0.25 else 0.0,
        chunk_mb=rounded(max(log_uniform(rng, 0.06, 2.0), largest / PIECES)),
        connections=rng.choice((1, 2, 4, 8)),
    )
    sends = activation * 1e6 / rate * job.micro_batches * 2 if job.pp > 1 else 0.0
    return sized, max(target_s, (compute_ms * in_turn + sends) / 1e3)


def _measured(job: JobSpec, cluster: ClusterSpec, guess_s: float, collector: CollectorSpec) -> tuple[float, float]:
    """How long a step of a job takes when it runs alone, and how many records it makes: a short run shows it."""
    seconds = 4 * guess_s
    alone = replace(cluster, monitoring=False, inference_nodes=0, ping_mesh_s=0.0)
    for _ in range(9):  # sharded steps of many small gathers take fifty times as long as guessed
        jobs = (replace(job, start_s=-1e-3),)
        scenario = Scenario(name="measured", seconds=seconds, cluster=alone, collector=collector, jobs=jobs)
        simulation = Simulation(scenario, 1)
        records = sum(batch.start.size for _, batches in simulation.batches() for batch in batches)
        _, _, ends = simulation.steps(0)
        if ends.size >= 3:
            step_s = float(ends[-1] - ends[0]) / (ends.size - 1) / 1e9
            return step_s, max(records * step_s / seconds, 1.0)
        seconds *= 2
    raise RuntimeError(f"steps of {guess_s} s do not end")


def _lifetime(rng: random.Random, job: JobSpec, seconds: float, step_s: float) -> tuple[JobSpec, float]:
    """Most jobs run through the window; some begin or end in it, and the window grows by that."""
    start, stop, setup = -rounded(rng.uniform(1.5, 3.5) * step_s), 0.0, rng.choice((1.0, 3.0, 8.0))
    if rng.random() < 0.15:
        start = rounded(rng.uniform(0.05, 2.0) * step_s)
        seconds += start + setup * step_s
    if rng.random() < 0.1:
        stop = rounded(seconds)
        seconds += rng.uniform(2, 8) * step_s
    return replace(job, start_s=start, stop_s=stop, setup_factor=setup), round(seconds, 2)


def _neighbours(
    rng: random.Random, cluster: ClusterSpec, job: JobSpec, seconds: float
) -> tuple[ClusterSpec, tuple[JobSpec, ...]]:
    """A second job on servers of its own in a third of the scenarios, in some with the same shape and rhythm."""
    if rng.random() >= 1 / 3 or job.gpus > 32:
        return cluster, (job,)
    cluster = replace(cluster, servers=cluster.servers * 2)
    if rng.random() < 0.4:
        return cluster, (job, replace(job, name="twin", start_s=job.start_s + 0.37 * abs(job.start_s)))
    half = replace(cluster, servers=cluster.servers // 2)
    for _ in range(100):
        other = _layout(rng, half, "other")
        if other is not None:
            break
    else:
        return cluster, (job,)
    other, guess_s = _sized(rng, other, half)
    ratio = seconds / 20 / _measured(other, half, guess_s, CollectorSpec())[0]
    sizes = ("gradient_mb", "activation_mb", "expert_mb", "context_mb", "tp_mb", "chunk_mb")
    scaled: dict[str, Any] = {name: rounded(max(getattr(other, name) * ratio, 0.02)) for name in sizes}
    times: dict[str, Any] = {name: rounded(getattr(other, name) * ratio) for name in ("compute_ms", "optimizer_ms")}
    other = replace(other, **scaled, **times, start_s=-rounded(2.3 * seconds / 20))
    if _measured(other, half, seconds / 20, CollectorSpec())[1] * 20 > RECORD_BUDGET:
        return cluster, (job,)
    return cluster, (job, other)


def _collector(rng: random.Random, job: JobSpec, step_s: float) -> CollectorSpec:
    """What exporters do, no worse than the job's own scale: what hides every step is not asked."""
    spec = CollectorSpec(idle_ms=min(rng.choice((0.2, 0.5, 0.5, 0.5, 2.0)), max(rounded(job.compute_ms / 4), 0.05)))
    if rng.random() < 0.15:
        spec = replace(spec, skew_ms=rounded(min(rng.choice((0.2, 1.0, 5.0, 50.0)), step_s * 10)))
    if rng.random() < 0.15 and job.compute_ms > 4:
        spec = replace(spec, granularity_ms=1.0)
    if rng.random() < 0.1:
        spec = replace(spec, loss=rng.choice((0.001, 0.02)))
    if rng.random() < 0.1:
        spec = replace(spec, duplicates=0.3)
    sampling = rng.choice((10, 100)) if rng.random() < 0.06 else 1
    smallest_mb = min(job.activation_mb if job.pp > 1 else job.gradient_mb, job.gradient_mb / job.buckets / job.layers)
    if sampling > 1 and smallest_mb * 1e6 / PACKET_BYTES > SEEN_PACKETS * sampling:
        spec = replace(spec, sampling=sampling)
    if rng.random() < 0.15:
        spec = replace(spec, cuts=rng.choice((0.05, 0.3)))
    if rng.random() < 0.1:
        spec = replace(spec, active_s=rounded(max(0.3 * step_s, 0.1)))
    return spec


def _with_fault(rng: random.Random, scenario: Scenario, step_s: float) -> Scenario:
    """One fault in the middle of the window, long enough to hit several steps."""
    job = scenario.jobs[0]
    kinds = list(STEP_FAULTS)
    kinds += [kind for kind in FABRIC_FAULTS if kind != "slow_storage" or job.data_mb]
    if job.pp < 2:
        kinds.remove("imbalance")
    if job.dp * job.cp < 2:
        kinds.remove("slow_group")
    kind = rng.choice(kinds)
    at = rng.uniform(0.35, 0.6) * scenario.seconds
    lasts = max(4 * step_s, rng.uniform(0.2, 0.35) * scenario.seconds)
    if kind == "stall":
        lasts = rng.uniform(3, 6) * step_s
    leaves = _leaves(scenario.cluster)
    fault = FaultSpec(
        kind=kind,
        job=job.name,
        rank=rng.randrange(job.gpus),
        stage=rng.randrange(job.pp),
        group=rng.randrange(16),
        leaf=rng.randrange(leaves),
        spine=rng.randrange(scenario.cluster.spines),
        at_s=rounded(at),
        for_s=rounded(lasts),
        factor=rounded(rng.uniform(2, 8)),
        restart_s=rounded(max(2 * step_s, 2.5)),
    )
    running = tuple(replace(item, stop_s=0.0, start_s=min(item.start_s, -2 * step_s)) for item in scenario.jobs)
    return replace(scenario, faults=(fault,), jobs=running)


def _leaves(cluster: ClusterSpec) -> int:
    pods = -(-cluster.servers // cluster.servers_per_pod)
    return pods * cluster.gpus_per_server if cluster.fabric == "rail" else pods


def as_toml(scenario: Scenario) -> str:
    """A scenario as its file, with the settings that differ from the defaults."""
    document = _settings(scenario, Scenario(name=""), skip=("name", "cluster", "collector", "jobs", "faults"))
    tables = {
        "cluster": _settings(scenario.cluster, ClusterSpec()),
        "collector": _settings(scenario.collector, CollectorSpec()),
        "job": [_settings(job, JobSpec(), always=("name",)) for job in scenario.jobs],
        "fault": [_settings(fault, FaultSpec(kind="")) for fault in scenario.faults],
    }
    return toml_text(document | {name: table for name, table in tables.items() if table})


def _settings(spec: Any, default: Any, skip: tuple[str, ...] = (), always: tuple[str, ...] = ()) -> dict[str, Any]:
    values = {item.name: getattr(spec, item.name) for item in fields(spec) if item.name not in skip}
    return {name: value for name, value in values.items() if name in always or value != getattr(default, name)}
