"""Runs a scenario into a folder: flows.parquet, topology.json, truth.json.gz and, on request, events.parquet."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from llmprism.errors import InputError
from llmprism.sim.scenario import Scenario
from llmprism.sim.simulation import EPOCH_NS, Simulation
from llmprism.sim.true_events import EventWriter
from llmprism.sim.truth import truth_document
from llmprism.sim.writer import FlowWriter

__all__ = ["Summary", "simulate"]

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Summary:
    records: int
    transfers: int
    jobs: int
    gpus: int
    steps: int
    faults: int


def simulate(
    scenario: Scenario,
    folder: Path,
    seed: int | None = None,
    events: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Writes the run's files into `folder` (made when absent). The same scenario and seed give the same rows."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}") from error
    simulation = Simulation(scenario, seed)
    with FlowWriter(folder, EPOCH_NS) as writer, EventWriter(folder, events, simulation) as event_writer:
        for transfers, batches in simulation.batches():
            for batch in batches:
                writer.add(batch)
            event_writer.add(transfers)
            if progress is not None:
                progress(min(max(simulation.now_ns / simulation.window_ns, 0.0), 1.0))
        exporters = simulation.cluster.leaves if scenario.collector.duplicates > 0 else None
        writer.write(folder / "flows.parquet", simulation.names, exporters)
        event_writer.write(folder / "events.parquet")
        records = writer.rows
    truth = truth_document(simulation)
    _write_topology(folder / "topology.json", simulation)
    with gzip.GzipFile(folder / "truth.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(truth, sort_keys=True).encode())
    if progress is not None:
        progress(1.0)
    return Summary(
        records=records,
        transfers=simulation.transfers,
        jobs=len(truth["jobs"]),
        gpus=simulation.cluster.gpus,
        steps=sum(len(job["steps"]) for job in truth["jobs"]),
        faults=len(truth["faults"]),
    )


def _write_topology(path: Path, simulation: Simulation) -> None:
    topology = simulation.cluster.topology()
    document = {
        "servers": [asdict(server) for server in topology.servers],
        "switches": [asdict(switch) for switch in topology.switches],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
