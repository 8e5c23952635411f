"""Captures that arrive second by second, on a clock that runs with them: the findings of `diagnose`, in time."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")

from llmprism.ingest import read_flows, read_topology
from llmprism.model import FindingKind
from llmprism.pipeline import diagnose
from llmprism.sim.run import simulate
from llmprism.sim.scenario import parse_scenario
from support.reports import EXAMPLES

S = 1_000_000_000
HANG = """
seconds = 40
seed = 3
[cluster]
servers = 6
gpus_per_server = 2
[[job]]
name = "hangs"
tp = 2
pp = 2
dp = 2
[[job]]
name = "works"
tp = 2
dp = 2
[[fault]]
kind = "hang"
job = "hangs"
rank = 2
at_s = 21.3
"""


@pytest.fixture(scope="module")
def replay():
    """The benchmark's own clockwork."""
    path = Path(__file__).parents[2] / "benchmarks" / "service_replay.py"
    spec = importlib.util.spec_from_file_location("service_replay", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["service_replay"] = module
    spec.loader.exec_module(module)
    return module


def test_a_hang_next_to_a_job_that_works_is_reported_within_15_s_of_the_silence(replay, tmp_path):
    simulate(parse_scenario("hang", HANG), tmp_path / "capture")
    flows = tmp_path / "capture" / "flows.parquet"
    result = replay.play(flows, tmp_path / "capture" / "topology.json", tmp_path, quiet_s=0)
    (tracked,) = result.findings
    assert tracked.finding.kind is FindingKind.HANG
    assert result.opened[tracked.id] - tracked.finding.start_ns < 15 * S
    assert tracked.finding.lost_gpu_seconds > 8 * 10, "what it costs grows while it lasts"
    assert {state for _, state in result.states} == {"started", "running", "hung"}


def test_a_crash_comes_out_as_from_diagnose(replay, tmp_path):
    capture = EXAMPLES / "crash"
    result = replay.play(capture / "flows.parquet", capture / "topology.json", tmp_path, quiet_s=20)
    whole = diagnose(
        read_flows([capture / "flows.parquet"]), read_topology(capture / "topology.json"), with_events=False
    )
    agree, missing, extra = replay.compare(result, whole.findings)
    assert (agree, missing, extra) == (1, [], [])
    (tracked,) = result.findings
    assert abs(tracked.finding.start_ns - whole.findings[0].start_ns) < S
    assert result.opened[tracked.id] - tracked.finding.start_ns < 15 * S


@pytest.mark.parametrize("phase_s", [0.25, 1.75, 3.25, 3.5])
def test_a_fault_of_seven_seconds_opens_once_wherever_windows_end(replay, tmp_path, phase_s):
    """At 3.25 s the windows that end during the fault take several steps for one and show too few of them."""
    capture = EXAMPLES / "slow_nic"
    result = replay.play(capture / "flows.parquet", capture / "topology.json", tmp_path, quiet_s=0, phase_s=phase_s)
    assert [(tracked.finding.kind.value, tracked.finding.where.id) for tracked in result.findings] == [
        ("slow_nic", "10.13.0.1")
    ]
