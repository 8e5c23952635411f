"""A window's report as the documents that the store keeps: the latest picture, a summary per window, run layouts.

Text from outside is cleaned where it is shown as text (`report.text.clean`); the page still shows it as text only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from llmprism.model.live import FindingPhase
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.report.facts import sick_addresses
from llmprism.report.json_report import document
from llmprism.service.looks import Look
from llmprism.service.tracker import TrackerState

__all__ = ["LAYOUT_KEYS", "check_document", "layout_documents", "picture_document", "summary_document"]

LAYOUT_KEYS: Final = ("layout", "groups", "pipelines", "confidence", "notes")
"""What a run's document takes over from the report of a look."""


def picture_document(
    report: Report,
    state: TrackerState,
    report_run: dict[str, str],
    topology: Topology | None,
    topology_trouble: str,
    note: str,
) -> dict[str, Any]:
    """What the page shows at once: window, input, servers with their GPUs, switches, notes."""
    contract = document(replace(report, jobs=(), findings=(), reading=None))
    run_of = {member: run.id for run in state.runs if run.state.alive for member in run.members}
    sick = sick_addresses(report)
    notes = [*contract["notes"], *([note] if note else [])]
    if topology_trouble:
        notes.append(f"the topology file cannot be used: {topology_trouble}")
    return {
        "window": contract["window"],
        "input": contract["input"],
        "notes": notes,
        "switches": [
            {**load, "jobs": [report_run.get(job, job) for job in load["jobs"]], "sick": load["switch"] in sick}
            for load in contract["switches"]
        ],
        "servers": _servers(topology, run_of, sick),
    }


def _servers(
    topology: Topology | None, run_of: dict[str, str], sick: set[str] | frozenset[str]
) -> list[dict[str, Any]]:
    servers: list[dict[str, Any]] = []
    seated: set[str] = set()
    for server in topology.servers if topology else ():
        seated.update(nic.address for nic in server.nics)
        servers.append(
            {
                "name": server.name,
                "gpus": [
                    [nic.address, nic.gpu, run_of.get(nic.address), nic.address in sick, nic.switch]
                    for nic in server.nics
                ],
            }
        )
    loose = sorted(address for address in run_of if address not in seated)
    if loose:
        name = "not in the topology" if servers else "all addresses"
        servers.append({"name": name, "gpus": [[one, None, run_of[one], one in sick, None] for one in loose]})
    return servers


def summary_document(report: Report, state: TrackerState, note: str) -> dict[str, Any]:
    """A few numbers per window, kept for history."""
    return {
        "jobs": len(report.jobs),
        "gpus": sum(len(run.members) for run in state.runs if run.state.alive),
        "states": {run.id: run.state.value for run in state.runs if run.state.alive},
        "open": sum(tracked.phase is FindingPhase.OPEN for tracked in state.findings),
        "used": report.input.used,
        "dropped": dict(report.input.dropped),
        "note": note,
    }


def check_document(state: TrackerState, note: str) -> dict[str, Any]:
    """The same for a check between two windows."""
    alive = [run for run in state.runs if run.state.alive]
    return {
        "jobs": len(alive),
        "gpus": sum(len(run.members) for run in alive),
        "states": {run.id: run.state.value for run in alive},
        "open": sum(tracked.phase is FindingPhase.OPEN for tracked in state.findings),
        "used": 0,
        "dropped": {},
        "note": note,
    }


def layout_documents(
    looks: Sequence[Look], followed: Sequence[dict[str, str]], due: frozenset[str]
) -> dict[str, dict[str, Any]]:
    """Run id → layout, groups and pipelines of the contract, for those of the runs due that these looks judged."""
    made: dict[str, dict[str, Any]] = {}
    for look, run_of in zip(looks, followed, strict=True):
        jobs = tuple(job for job in look.report.jobs if run_of.get(job.job.id) in due)
        for job in document(replace(look.report, jobs=jobs, findings=(), reading=None))["jobs"]:
            made[run_of[job["id"]]] = {key: job[key] for key in LAYOUT_KEYS}
    return made
