from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from llmprism.cli.simulate import simulate as simulate_command
from llmprism.errors import InputError, UsageError
from llmprism.score import read_truth, score_report
from llmprism.sim import parse_scenario, read_scenario, scaled, scenario_names, simulate
from support.perfect_report import truth_as_report

COLUMNS = ["start_ns", "end_ns", "src", "dst", "sport", "dport", "protocol", "bytes", "packets", "switches"]

FAULTY = """
seconds = 12
[cluster]
servers = 4
[[job]]
name = "a"
tp = 4
pp = 2
dp = 4
micro_batches = 4
gradient_mb = 900
[[fault]]
kind = "{kind}"
job = "a"
rank = 6
at_s = 5
for_s = {seconds}
factor = 4
"""


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    return duckdb.sql(query.format(flows=f"'{path / 'flows.parquet'}'")).fetchall()


def test_files_are_as_the_contract_says(tmp_path: Path) -> None:
    summary = simulate(replace(read_scenario("lab-pipeline"), seconds=10), tmp_path, events=True)
    assert [row[0] for row in rows(tmp_path, "DESCRIBE SELECT * FROM {flows}")] == COLUMNS
    count, bad = rows(tmp_path, "SELECT count(*), count(*) FILTER (end_ns < start_ns OR bytes <= 0) FROM {flows}")[0]
    assert (count, bad) == (summary.records, 0)
    topology = json.loads((tmp_path / "topology.json").read_text())
    known = {nic["address"] for server in topology["servers"] for nic in server["nics"]}
    truth = read_truth(tmp_path / "truth.json.gz")
    assert set(truth.jobs[0].members) <= known
    events = duckdb.sql(f"SELECT kind, count(*) FROM '{tmp_path / 'events.parquet'}' GROUP BY 1").fetchall()
    assert {"compute", "pp_send", "pp_recv", "dp"} <= {kind for kind, _ in events}
    assert not list(tmp_path.glob("spool-*"))


def test_events_and_truth_agree_on_the_steps(tmp_path: Path) -> None:
    simulate(replace(read_scenario("slow-gpu"), seconds=15), tmp_path, events=True)
    truth = read_truth(tmp_path / "truth.json.gz")
    ends = duckdb.sql(
        f"SELECT step, max(end_ns) FROM '{tmp_path / 'events.parquet'}' WHERE kind = 'dp' GROUP BY 1 ORDER BY 1"
    ).fetchall()
    seen = np.array([end for _, end in ends])
    for boundary in truth.jobs[0].step_end_ns:
        assert np.abs(seen - boundary).min() < 20_000


def test_the_same_seed_gives_the_same_rows_and_another_does_not(tmp_path: Path) -> None:
    scenario = replace(read_scenario("poor-collector"), seconds=6)
    digest = "SELECT count(*), sum(hash(start_ns, end_ns, src, dst, bytes, sport)) FROM {flows}"
    results = []
    for name, seed in (("one", 5), ("two", 5), ("three", 6)):
        simulate(scenario, tmp_path / name, seed)
        results.append(rows(tmp_path / name, digest)[0])
    assert results[0] == results[1]
    assert results[0] != results[2]
    first, second = ((tmp_path / name / "truth.json.gz").read_bytes() for name in ("one", "two"))
    assert first == second


@pytest.mark.parametrize(
    "name", ["many-tenants", "stall-and-restart", "mixture-of-experts", "long-context", "hybrid-fsdp"]
)
def test_the_truth_rewritten_as_a_report_scores_one(name: str, tmp_path: Path) -> None:
    simulate(replace(read_scenario(name), seconds=8), tmp_path)
    truth = read_truth(tmp_path / "truth.json.gz")
    score = score_report(truth_as_report(truth), truth)
    assert score.jobs.exact.f1 == score.jobs.adjusted_rand_index == score.pairs.accuracy == 1.0
    assert score.structure.groups.f1 == score.steps.boundaries.f1 == 1.0
    assert score.faults.false_alarms == 0
    assert score.faults.exact.right == score.faults.exact.total


@pytest.mark.parametrize(
    ("kind", "seconds", "slower"),
    [("slow_gpu", 4, 1.5), ("slow_nic", 4, 1.04), ("imbalance", 4, 1.5), ("slow_group", 4, 1.04), ("stall", 3, None)],
)
def test_faults_slow_the_steps_while_they_last(kind: str, seconds: int, slower: float | None, tmp_path: Path) -> None:
    simulate(parse_scenario("f", FAULTY.format(kind=kind, seconds=seconds)), tmp_path)
    truth = read_truth(tmp_path / "truth.json.gz")
    fault = truth.faults[0]
    ends = np.array(truth.jobs[0].step_end_ns)
    periods = np.diff(ends)
    assert fault.end_ns is not None
    during = (ends[:-1] >= fault.start_ns) & (ends[1:] <= fault.end_ns)
    clean = np.median(periods[ends[1:] <= fault.start_ns])
    if slower is None:
        assert periods.max() > 2e9
    else:
        assert np.median(periods[during]) > slower * clean
        assert np.median(periods[ends[:-1] > fault.end_ns]) < 1.1 * clean


@pytest.mark.parametrize(("kind", "state"), [("crash", "crashed"), ("hang", "hung")])
def test_dead_jobs_stop(kind: str, state: str, tmp_path: Path) -> None:
    simulate(parse_scenario("f", FAULTY.format(kind=kind, seconds=0)), tmp_path)
    truth = read_truth(tmp_path / "truth.json.gz")
    fault = truth.faults[0]
    assert truth.jobs[0].state == state
    assert max(truth.jobs[0].step_end_ns) < fault.start_ns + 310_000_000
    last = rows(tmp_path, "SELECT max(end_ns) FROM {flows} WHERE bytes > 100000")[0][0]
    assert last < fault.start_ns + 2_000_000_000


def test_a_restarted_job_is_one_job_with_a_second_set_up_step(tmp_path: Path) -> None:
    text = FAULTY.format(kind="crash_restart", seconds=0) + "restart_s = 2\n"
    simulate(parse_scenario("f", text), tmp_path)
    truth = read_truth(tmp_path / "truth.json.gz")
    assert len(truth.jobs) == 1
    fault = truth.faults[0]
    assert fault.end_ns == fault.start_ns + 2_000_000_000
    assert max(truth.jobs[0].step_end_ns) > fault.end_ns
    assert not [end for end in truth.jobs[0].step_end_ns if fault.start_ns + 310_000_000 < end < fault.end_ns]


def test_records_look_like_the_real_captures(tmp_path: Path) -> None:
    """Several connections per pair, messages in pieces, control mice, a long set-up step."""
    simulate(replace(read_scenario("lab-pipeline"), seconds=30), tmp_path)
    truth = read_truth(tmp_path / "truth.json.gz")
    job = truth.jobs[0]
    src, dst = next((s, d) for s, d, kind in job.pairs or () if kind == "pp")
    sizes = [size for (size,) in rows(tmp_path, f"SELECT bytes FROM {{flows}} WHERE src = '{src}' AND dst = '{dst}'")]
    large = np.array([size for size in sizes if size > 5_000])
    assert 0.1 < np.mean(np.abs(large - 1_048_500) > 2_000) < 0.8
    ports = rows(tmp_path, f"SELECT count(DISTINCT sport) FROM {{flows}} WHERE src = '{src}' AND dst = '{dst}'")[0][0]
    assert ports >= 2
    small = rows(tmp_path, "SELECT count(*) FILTER (bytes < 1000) / count(*) FROM {flows}")[0][0]
    assert 0.005 < small < 0.5
    lengths = np.array(job.step_end_ns) - np.array(job.step_start_ns)
    assert 4 < lengths[0] / np.median(lengths[1:]) < 25


def test_at_least_24_scenarios_of_every_level_are_in_the_package() -> None:
    scenarios = [read_scenario(name) for name in scenario_names()]
    assert len(scenarios) >= 24
    assert {scenario.level for scenario in scenarios} == {"easy", "medium", "hard", "brutal"}
    sizes = {scenario.cluster.servers * scenario.cluster.gpus_per_server for scenario in scenarios}
    assert {2880, 16384} <= sizes
    assert all(scenario.title for scenario in scenarios)


def test_scaling_changes_the_data_parallel_degree() -> None:
    scenario = scaled(read_scenario("clean-dp-pp"), gpus=256, minutes=2)
    assert (scenario.cluster.servers, scenario.jobs[0].dp, scenario.seconds) == (32, 8, 120)
    with pytest.raises(UsageError):
        scaled(scenario, gpus=4)


@pytest.mark.parametrize(
    "text",
    [
        "seconds = ",
        "nonsense = 1",
        "seconds = -1",
        "level = 'silly'",
        "[cluster]\nservers = 'many'",
        "[[job]]\ntp = 0",
        "[[job]]\nschedule = 'magic'",
        "[[job]]\nname = 'a'\n[[job]]\nname = 'a'",
        "[[fault]]\nkind = 'gremlin'",
        "[[fault]]\nfactor = 2",
        "[[fault]]\nkind = 'crash'\njob = 'nobody'",
        "cluster = 3",
        "[cluster]\nservers = 1000000000",
        "[cluster]\nnic_gbps = 0",
        "[collector]\nloss = 1.5",
        "seconds = 1e12",
        "[[job]]\nsharding = 'hsdp'\npp = 2",
        "[[job]]\nring_pieces = 61",
        "[[job]]\nchannels = 0",
        "[collector]\ncuts = 2.0",
        "[cluster]\nping_mesh_s = -1.0",
        "[[job]]\nep = 3\ndp = 4",
    ],
)
def test_a_wrong_scenario_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="scenario bad"):
        parse_scenario("bad", text)


def test_a_job_too_large_for_the_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="GPUs"):
        simulate(parse_scenario("big", "[[job]]\ntp = 8\ndp = 100"), tmp_path)


@pytest.mark.parametrize(
    "fault",
    [
        "kind = 'slow_leaf'\nleaf = 99",
        "kind = 'slow_link'\nspine = 99",
        "kind = 'imbalance'\nstage = 9",
        "kind = 'slow_group'",
    ],
)
def test_a_fault_at_a_place_that_is_not_there_is_refused(fault: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fault"):
        simulate(parse_scenario("f", f"[[job]]\nname = 'a'\npp = 2\n[[fault]]\n{fault}"), tmp_path)


def test_the_command_simulates_and_lists(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(simulate_command)
    listed = CliRunner().invoke(app, ["--list"])
    assert "cluster-2880" in listed.output
    done = CliRunner().invoke(app, ["crash", "-o", str(tmp_path / "out"), "--minutes", "0.1", "--seed", "9"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "flows.parquet").exists()
    assert isinstance(CliRunner().invoke(app, []).exception, UsageError)
    assert isinstance(CliRunner().invoke(app, ["nobody", "-o", str(tmp_path)]).exception, UsageError)
