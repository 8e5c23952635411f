from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from llmprism.sim.collector import CollectedRecords
from llmprism.sim.engine_tables import Transfers
from llmprism.sim.scenario import Scenario, parse_scenario
from llmprism.sim.simulation import Simulation
from simulation_checks import Trace, trace_of


@dataclass(frozen=True)
class Run:
    """A finished, traced run of a scenario."""

    simulation: Simulation
    trace: Trace
    records: list[CollectedRecords]


RunScenario = Callable[..., Run]

SMALL = """
seconds = 8
[cluster]
servers = 4
nvlink = false
gpus_per_server = 2
[[job]]
name = "a"
pp = 2
dp = 4
micro_batches = 3
start_s = 0.5
"""


def _run(scenario: Scenario | str, seed: int = 3, seconds: float | None = None) -> Run:
    if isinstance(scenario, str):
        scenario = parse_scenario("test", scenario)
    if seconds is not None:
        scenario = replace(scenario, seconds=seconds)
    simulation = Simulation(scenario, seed, trace=True)
    batches: list[Transfers] = []
    records: list[CollectedRecords] = []
    for transfers, made in simulation.batches():
        batches.append(transfers)
        records += made
    return Run(simulation, trace_of(batches), records)


@pytest.fixture(scope="session")
def run_scenario() -> RunScenario:
    return _run


@pytest.fixture(scope="session")
def small() -> Run:
    return _run(SMALL)
