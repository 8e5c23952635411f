"""A scenario: cluster, jobs, collector and faults as a small TOML file says them.

Every field has a default, so that a scenario states only what makes it special. Unknown keys and impossible values are
refused with the name of the field. Degrees multiply to the job's GPUs: `tp * cp * dp * pp` (ep divides dp * cp).
"""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from llmprism.errors import InputError, UsageError
from llmprism.sim.scenario_checks import check_scenario
from llmprism.sim.specs import LEVELS, ClusterSpec, CollectorSpec, FaultSpec, JobSpec, Scenario

__all__ = [
    "LEVELS",
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
    check_scenario(scenario)
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
        check_scenario(scenario)
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
