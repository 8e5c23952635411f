"""The laws hold on runs of every shape, and a planted corruption of each kind is caught by its own check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from llmprism.model import PairKind
from llmprism.sim.scenario import read_scenario, scenario_names
from llmprism.sim.simulation import Simulation
from simulation_checks import Trace, check_causality, check_line_rate, check_ring_bytes, check_steps

BIG = ("cluster-2880", "cluster-16384", "cluster-100000")


def truth_ends(simulation: Simulation) -> dict[int, Any]:
    return {program.index: simulation.steps(program.index)[2] for program in simulation.programs}


def problems(simulation: Simulation, trace: Trace, ends: dict[int, Any] | None = None) -> dict[str, list[str]]:
    found = {
        "ring bytes": check_ring_bytes(simulation, trace),
        "causality": check_causality(simulation, trace),
        "line rate": check_line_rate(simulation, trace),
        "steps": check_steps(simulation, trace, truth_ends(simulation) if ends is None else ends),
    }
    return {name: complaints for name, complaints in found.items() if complaints}


@pytest.mark.parametrize("name", [name for name in scenario_names() if name not in BIG])
def test_the_laws_hold_in_every_scenario(name: str, run_scenario: Any) -> None:
    scenario = read_scenario(name)
    jobs = tuple(
        replace(job, start_s=min(job.start_s, 1.0), stop_s=0.0 if job.stop_s == 0 else 5.0) for job in scenario.jobs
    )
    if name == "many-tenants":
        jobs = scenario.jobs
    faults = tuple(replace(fault, at_s=min(fault.at_s, 2.0), for_s=min(fault.for_s, 2.0)) for fault in scenario.faults)
    run = run_scenario(replace(scenario, jobs=jobs, faults=faults), seconds=6.0)
    assert run.trace.pair.size > 100
    assert problems(run.simulation, run.trace) == {}


def corrupt(trace: Trace, row: int, **changes: int) -> Trace:
    columns = {name: getattr(trace, name).copy() for name in Trace.__slots__}
    for name, value in changes.items():
        columns[name][row] = value
    return Trace(**columns)


def gradient_row(run: Any) -> int:
    """A gradient transfer in the middle of a finished step."""
    numbers, _, _ = run.simulation.steps(0)
    step = numbers[numbers.size // 2]
    rows = np.flatnonzero((run.trace.kind == int(PairKind.DP)) & (run.trace.step == step))
    return int(rows[rows.size // 2])


def test_lost_bytes_are_caught(small: Any) -> None:
    row = gradient_row(small)
    trace = corrupt(small.trace, row, bytes=int(small.trace.bytes[row]) // 2)
    assert set(problems(small.simulation, trace)) == {"ring bytes"}


def test_an_effect_before_its_cause_is_caught(small: Any) -> None:
    row = small.trace.done_op.size // 2
    start = int(small.trace.done_start[row]) - 5_000_000
    trace = corrupt(small.trace, row, done_start=start)
    assert set(problems(small.simulation, trace)) == {"causality"}


def test_a_transfer_above_line_rate_is_caught(small: Any) -> None:
    row = int(np.flatnonzero(small.trace.kind == int(PairKind.PP))[10])
    trace = corrupt(small.trace, row, bytes=int(small.trace.bytes[row]) * 2)
    assert set(problems(small.simulation, trace)) == {"line rate"}


def test_two_transfers_at_once_are_caught(small: Any) -> None:
    row = int(np.flatnonzero(small.trace.kind == int(PairKind.PP))[10])
    trace = corrupt(small.trace, row, end=int(small.trace.end[row]) + 2_000_000_000)
    assert "line rate" in problems(small.simulation, trace)


def test_a_moved_step_is_caught(small: Any) -> None:
    ends = truth_ends(small.simulation)
    ends[0] = ends[0].copy()
    ends[0][3] += 1_000_000
    assert set(problems(small.simulation, small.trace, ends)) == {"steps"}


def test_a_lost_step_is_caught(small: Any) -> None:
    ends = truth_ends(small.simulation)
    ends[0] = ends[0][:-1]
    assert set(problems(small.simulation, small.trace, ends)) == {"steps"}


def test_records_hold_the_bytes_of_the_transfers(small: Any) -> None:
    """What the meter exports is what was sent, pair by pair, but for what crosses the window's edges."""
    simulation, trace = small.simulation, small.trace
    sent = np.zeros(len(simulation.pairs.src), dtype=np.int64)
    inside = (trace.start >= 0) & (trace.end <= simulation.window_ns)
    np.add.at(sent, trace.pair[inside], trace.bytes[inside])
    pair_of = np.repeat(np.arange(sent.size), simulation.connections.lanes)
    seen = np.zeros(sent.size, dtype=np.int64)
    for batch in small.records:
        data = batch.connection < pair_of.size
        np.add.at(seen, pair_of[batch.connection[data]], batch.bytes[data])
    edge = np.zeros(sent.size, dtype=np.int64)
    np.add.at(edge, trace.pair[~inside], trace.bytes[~inside])
    assert np.all(np.abs(seen - sent) <= edge + sent // 50)
    assert seen.sum() == pytest.approx(sent.sum(), rel=0.01)


@pytest.mark.parametrize("connections", [1, 2])
def test_a_pair_takes_as_many_ways_as_it_has_connections(connections: int, small: Any) -> None:
    """What does not pass a slow link is not slowed by it: one connection takes one way."""
    scenario = small.simulation.scenario
    jobs = tuple(replace(job, connections=connections) for job in scenario.jobs)
    network = Simulation(replace(scenario, jobs=jobs), 3).network
    ways = np.array([len(set(row)) for row in network.spine.tolist()])
    assert ways.max() == connections
