"""The truth of a run, in the report's own terms (docs/reference/truth.md).

Only what shows on the network is in it: members with training traffic, groups of at least two of them, the parts of
pipelines whose hops cross servers, pairs that carried bytes inside the window. A step that did not end inside the
window is not in it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from llmprism.model import PairKind, Where
from llmprism.sim.faults import FaultLabel
from llmprism.sim.program import JobProgram
from llmprism.sim.scenario import JobSpec
from llmprism.sim.simulation import EPOCH_NS, Simulation
from llmprism.units import SECOND

__all__ = ["truth_document"]

TRUTH_SCHEMA = "llmprism.truth/1"

SCHEDULE_NAMES = {"1f1b": "1f1b", "gpipe": "gpipe", "interleaved": "interleaved", "zero_bubble": "unknown"}
SHARDING_NAMES = {"none": "none", "zero1": "zero", "zero2": "zero", "fsdp": "fsdp", "hsdp": "fsdp"}

ENDED_MARGIN_NS = 3 * SECOND
"""A job that stops this long before the window's end has visibly ended."""


def truth_document(simulation: Simulation) -> dict[str, Any]:
    """Call it when the run is over."""
    jobs = [_job(simulation, j) for j in range(simulation.job_count)]
    scenario = simulation.scenario
    return {
        "schema": TRUTH_SCHEMA,
        "scenario": {"name": scenario.name, "level": scenario.level, "seed": simulation.seed},
        "window": {"start_ns": EPOCH_NS, "end_ns": EPOCH_NS + simulation.window_ns},
        "jobs": [job for job in jobs if job is not None],
        "faults": [_fault(label, simulation) for label in simulation.plan.labels],
        "healthy": [
            {"job": spec.name, "what": what} for spec in scenario.jobs for what in _healthy_variation(spec, simulation)
        ],
    }


def _segments(simulation: Simulation, job: int) -> list[JobProgram]:
    return [simulation.programs[i] for i, j in enumerate(simulation.segment_job) if j == job]


def _job(simulation: Simulation, job: int) -> dict[str, Any] | None:
    spec, addresses = simulation.scenario.jobs[job], simulation.cluster.addresses
    kinds: dict[tuple[int, int], set[PairKind]] = {}
    for program in _segments(simulation, job):
        for pair, kind in program.pair_kinds:
            if simulation.pair_bytes[pair] > 0:
                ends = (simulation.pairs.src[pair], simulation.pairs.dst[pair])
                kinds.setdefault(ends, set()).add(PairKind(kind))
    training = {ends: found - {PairKind.OTHER} for ends, found in kinds.items() if found - {PairKind.OTHER}}
    members = {nic for ends in training for nic in ends}
    if not members:
        return None
    program = simulation.programs[job]
    per_server = simulation.scenario.cluster.gpus_per_server
    return {
        "id": spec.name,
        "members": sorted(addresses[nic] for nic in members),
        "servers": sorted({f"server{nic // per_server:04d}" for nic in members}),
        "state": _state(simulation, job),
        "layout": {
            "tp": spec.tp,
            "pp": spec.pp,
            "dp": spec.dp,
            "ep": spec.ep if spec.ep > 1 else None,
            "cp": spec.cp if spec.cp > 1 else None,
            "sharding": SHARDING_NAMES[spec.sharding],
            "micro_batches": spec.micro_batches,
            "schedule": SCHEDULE_NAMES[spec.schedule] if spec.pp > 1 else "unknown",
        },
        "groups": _groups(program, training, addresses),
        "pipelines": _pipelines(program, training, addresses),
        "pairs": [
            {"src": addresses[src], "dst": addresses[dst], "kind": kind.label}
            for (src, dst), found in sorted(kinds.items())
            for kind in sorted(found)
        ],
        "steps": _steps(simulation, job),
    }


def _groups(
    program: JobProgram, training: dict[tuple[int, int], set[PairKind]], addresses: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Each communicator once per lane, where any two of its members use the network for it, with all that are seen.

    Members that reduce inside their server and leave the network to one of them belong to it too.
    """
    seen = {end for ends in training for end in ends}
    result = []
    for kind, cells in program.groups:
        for lane in range(program.spec.tp):
            nics = [program.nics_of_cell[cell][lane] for cell in cells]
            shown = [nic for nic in nics if nic in seen]
            if len(shown) > 1 and _connected(shown, kind, training):
                result.append({"kind": kind.label, "members": [addresses[nic] for nic in shown]})
    return result


def _connected(nics: list[int], kind: PairKind, training: dict[tuple[int, int], set[PairKind]]) -> bool:
    """Whether any two of them exchange this kind: a group inside one server does not show."""
    own = set(nics)
    return any(kind in kinds and src in own and dst in own for (src, dst), kinds in training.items())


def _pipelines(
    program: JobProgram, training: dict[tuple[int, int], set[PairKind]], addresses: tuple[str, ...]
) -> list[list[str]]:
    """Runs of stages whose hops show."""
    result = []
    for pipeline in program.pipelines:
        run = [pipeline[0]]
        for before, after in pairwise(pipeline):
            if PairKind.PP in training.get((before, after), set()):
                run.append(after)
                continue
            if len(run) > 1:
                result.append(run)
            run = [after]
        if len(run) > 1:
            result.append(run)
    return [[addresses[nic] for nic in run] for run in result]


def _steps(simulation: Simulation, job: int) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for program in _segments(simulation, job):
        numbers, starts, ends = simulation.steps(program.index)
        previous = 0
        for number, start, end in zip(numbers, starts, ends, strict=True):
            setup = bool(number == 0 and program.spec.start_s >= 0)
            begin = max(int(start), previous, 0)
            steps.append(
                {
                    "index": len(steps),
                    "start_ns": EPOCH_NS + begin,
                    "end_ns": EPOCH_NS + int(end),
                    "setup": setup,
                    "partial": bool(start < 0),
                }
            )
            previous = int(end)
    return steps


def _state(simulation: Simulation, job: int) -> str:
    segments = _segments(simulation, job)
    last = segments[-1]
    if last.index in simulation.plan.crash:
        return "crashed"
    if any(cell in simulation.plan.hang for cell in last.all_cells):
        return "hung"
    numbers, _, ends = simulation.steps(last.index)
    if not numbers.size:
        return "starting"
    limited = last.spec.stop_s > 0 or last.spec.steps > 0
    if limited and int(ends[-1]) + ENDED_MARGIN_NS < simulation.window_ns:
        return "ended"
    return "running"


def _fault(label: FaultLabel, simulation: Simulation) -> dict[str, Any]:
    return {
        "kind": label.kind.value,
        "job": label.job,
        "where": _where(label.where),
        "equivalents": list(label.equivalents),
        "start_ns": EPOCH_NS + max(label.start, 0),
        "end_ns": None if label.end is None or label.end >= simulation.window_ns else EPOCH_NS + label.end,
    }


def _where(where: Where) -> dict[str, Any]:
    return {"type": where.type.value, "id": where.id if isinstance(where.id, str) else list(where.id)}


def _healthy_variation(spec: JobSpec, simulation: Simulation) -> list[str]:
    """The hard negatives that a job contains: nothing of this is a finding."""
    names = []
    if spec.start_s >= 0:
        names.append("start")
    if 0 < spec.stop_s < simulation.scenario.seconds or spec.steps:
        names.append("end")
    if spec.checkpoint_every:
        names.append("checkpoint")
    if spec.evaluate_every:
        names.append("evaluation")
    if spec.data_jitter_ms:
        names.append("data_jitter")
    if spec.spike_probability:
        names.append("short_jitter")
    if spec.alternate > 1:
        names.append("alternating_steps")
    if spec.variable_length:
        names.append("variable_length")
    return names
