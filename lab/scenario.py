"""A scenario as a TOML file says it: fabric, jobs, faults with times, neighbours.

Every field has a default, so that a scenario states only what makes it special. Unknown keys and impossible values are
refused with the name of the field. Times of faults count from the end of the job's first step.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

__all__ = [
    "FabricSpec",
    "FaultSpec",
    "JobSpec",
    "NeighbourSpec",
    "Scenario",
    "ScenarioError",
    "leaf_names",
    "read_scenario",
]

FOLDER = Path(__file__).resolve().parent / "scenarios"
FRAMEWORKS = ("ddp", "fsdp", "pipelining", "megatron", "deepspeed", "deepspeed-pipeline", "hf-trainer", "torchtitan")
PLACEMENTS = ("contiguous", "stride", "scattered")
NEIGHBOURS = ("inference", "ping_mesh")
DIRECTIONS = ("both", "send", "receive")

DEATHS = ("crash", "out_of_memory", "bad_sample", "killed")
"""Faults that end one rank's process: an error of the device, a refused allocation, a damaged record, a SIGKILL."""

LASTING = (*DEATHS, "hang", "mismatched_collective", "link_down")
"""Faults after which a job does not go on by itself, unless they are given a duration."""

RANK_FAULTS = ("slow_gpu", "stall", "hang", "mismatched_collective", *DEATHS)
LINK_FAULTS = ("slow_nic", "delay", "loss", "link_down")
FAULT_KINDS = (*RANK_FAULTS, *LINK_FAULTS, "slow_uplink", "slow_leaf", "slow_storage")
HANGS = ("stop", "compute", "communication")


class ScenarioError(ValueError):
    """The scenario file says something that cannot be done; the message names the field."""


@dataclass(frozen=True, slots=True)
class FabricSpec:
    """`rail`: GPU g of each server of a pod hangs on leaf g of the pod; otherwise a pod's servers share one leaf.

    `nvlink`: exchanges inside one server do not reach the switches (their packets are not recorded).
    `gap_us`: a pause that ends a flow record. Rates in tc's words; empty: as fast as the machine copies.
    """

    gpus_per_server: int = 2
    pods: int = 1
    rail: bool = True
    nvlink: bool = False
    storage: bool = False
    gap_us: int = 500
    nic_rate: str = ""
    uplink_rate: str = ""
    slice_ms: int = 0


@dataclass(frozen=True, slots=True)
class JobSpec:
    """`options` go to the framework (lab/ranks/options.py), `environment` to every rank.

    `seconds` of training after the first step, then all ranks stop at the same step. `restart_s` above 0: when a rank
    has died, the others are ended and all begin again after so many seconds.
    """

    name: str = "train"
    framework: str = "ddp"
    ranks: int = 4
    seconds: float = 25.0
    start_s: float = 0.0
    restart_s: float = 0.0
    placement: str = "contiguous"
    seed: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One fault. `at_s` counts from the end of the job's first step; below 0: from before the job begins.

    `for_s` 0: to the end. `on_s` and `off_s`: intermittent, so long on and off within `for_s`.
    """

    kind: str = "slow_gpu"
    job: str = "train"
    rank: int = 0
    at_s: float = 10.0
    for_s: float = 0.0
    on_s: float = 0.0
    off_s: float = 0.0
    factor: float = 2.5
    how: str = "stop"
    rate: str = "500mbit"
    direction: str = "both"
    leaf: str = ""
    delay_us: int = 5000
    loss_ppm: int = 10000


@dataclass(frozen=True, slots=True)
class NeighbourSpec:
    """`inference`: a server with `clients` that ask it; `ping_mesh`: every host probes every other."""

    kind: str = "ping_mesh"
    clients: int = 2
    every_ms: int = 1000
    kilobytes: int = 64


@dataclass(frozen=True, slots=True)
class Scenario:
    """`interleave`: hosts are dealt to the jobs in turn, whole servers or single GPUs.

    `window_from_s` above 0: what was recorded before that many seconds after the first step is left out, so that the
    job already runs when the window begins.
    """

    name: str
    about: str = ""
    split: str = "dev"
    after_fault_s: float = 12.0
    startup_s: float = 120.0
    interleave: str = ""
    window_from_s: float = 0.0
    fabric: FabricSpec = field(default_factory=FabricSpec)
    jobs: tuple[JobSpec, ...] = ()
    faults: tuple[FaultSpec, ...] = ()
    neighbours: tuple[NeighbourSpec, ...] = ()

    @property
    def hosts(self) -> int:
        return sum(job.ranks for job in self.jobs)

    def job(self, name: str) -> JobSpec:
        return next(job for job in self.jobs if job.name == name)


Spec = TypeVar("Spec", FabricSpec, JobSpec, FaultSpec, NeighbourSpec)


def read_scenario(name: str) -> Scenario:
    """The scenario in a TOML file, or the one of that name in lab/scenarios."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: {error}") from error
    return parse_scenario(path.stem, table)


def parse_scenario(name: str, table: dict[str, Any]) -> Scenario:
    rest = dict(table)
    jobs = tuple(_spec(JobSpec, item, f"jobs[{i}]") for i, item in enumerate(rest.pop("jobs", [])))
    faults = tuple(_spec(FaultSpec, item, f"faults[{i}]") for i, item in enumerate(rest.pop("faults", [])))
    listed = enumerate(rest.pop("neighbours", []))
    neighbours = tuple(_spec(NeighbourSpec, item, f"neighbours[{i}]") for i, item in listed)
    fabric = _spec(FabricSpec, rest.pop("fabric", {}), "fabric")
    unknown = rest.keys() - {"about", "split", "after_fault_s", "startup_s", "interleave", "window_from_s"}
    if unknown:
        raise ScenarioError(f"{sorted(unknown)[0]}: unknown key")
    scenario = Scenario(name, fabric=fabric, jobs=jobs, faults=faults, neighbours=neighbours, **rest)
    _check(scenario)
    return scenario


def _spec(kind: type[Spec], table: dict[str, Any], where: str) -> Spec:
    known = {item.name: item for item in fields(kind)}
    for key, value in table.items():
        if key not in known:
            raise ScenarioError(f"{where}.{key}: unknown key")
        wanted = str(known[key].type).split("[")[0]
        if wanted == "float" and type(value) is int:
            continue
        if type(value).__name__ != wanted:
            raise ScenarioError(f"{where}.{key}: a {wanted} is expected, not {value!r}")
    return kind(**table)


def leaf_names(scenario: Scenario) -> list[str]:
    """The leaf of each GPU host: `leaf<pod><rail>`."""
    spec = scenario.fabric
    servers = scenario.hosts // spec.gpus_per_server
    places = (divmod(host, spec.gpus_per_server) for host in range(scenario.hosts))
    return [f"leaf{server * spec.pods // servers}{gpu if spec.rail else 0}" for server, gpu in places]


def _check(scenario: Scenario) -> None:
    def need(right: bool, text: str) -> None:
        if not right:
            raise ScenarioError(text)

    need(bool(scenario.jobs), "jobs: at least one is needed")
    need(scenario.split in ("dev", "test"), f"split: {scenario.split!r} is neither dev nor test")
    need(scenario.interleave in ("", "server", "gpu"), f"interleave: {scenario.interleave!r} is unknown")
    need(len({job.name for job in scenario.jobs}) == len(scenario.jobs), "jobs: two have the same name")
    per_server = scenario.fabric.gpus_per_server
    need(per_server > 0 and scenario.hosts % per_server == 0, "fabric.gpus_per_server: does not divide the ranks")
    servers = scenario.hosts // per_server
    need(0 < scenario.fabric.pods <= servers, "fabric.pods: more pods than servers, or none")
    for i, job in enumerate(scenario.jobs):
        need(job.framework in FRAMEWORKS, f"jobs[{i}].framework: {job.framework!r} is not one of {FRAMEWORKS}")
        need(job.placement in PLACEMENTS, f"jobs[{i}].placement: {job.placement!r} is not one of {PLACEMENTS}")
        need(2 <= job.ranks <= 64, f"jobs[{i}].ranks: {job.ranks} is not between 2 and 64")
    for i, fault in enumerate(scenario.faults):
        need(fault.kind in FAULT_KINDS, f"faults[{i}].kind: {fault.kind!r} is not one of {FAULT_KINDS}")
        need(any(job.name == fault.job for job in scenario.jobs), f"faults[{i}].job: no job {fault.job!r}")
        need(0 <= fault.rank < scenario.job(fault.job).ranks, f"faults[{i}].rank: no such rank")
        need(fault.direction in DIRECTIONS, f"faults[{i}].direction: {fault.direction!r} is not one of {DIRECTIONS}")
        need(fault.how in HANGS, f"faults[{i}].how: {fault.how!r} is not one of {HANGS}")
        need(fault.kind != "slow_storage" or scenario.fabric.storage, f"faults[{i}]: fabric.storage is false")
        if fault.kind in ("slow_uplink", "slow_leaf"):
            leaves = leaf_names(scenario)
            need(fault.leaf in leaves, f"faults[{i}].leaf: {fault.leaf!r} is not one of {sorted(set(leaves))}")
    for i, other in enumerate(scenario.neighbours):
        need(other.kind in NEIGHBOURS, f"neighbours[{i}].kind: {other.kind!r} is not one of {NEIGHBOURS}")
