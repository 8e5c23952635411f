"""Scenarios: every file in the lab can be read, and what cannot be done is refused by name."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from lab.fabric import place_ranks
from lab.scenario import FOLDER, ScenarioError, parse_scenario, read_scenario

SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_is_valid(name: str) -> None:
    scenario = read_scenario(name)
    options = (FOLDER.parent / "ranks" / "options.py").read_text(encoding="utf-8")
    known = set(re.findall(r"^    (\w+): ", options, re.MULTILINE))
    assert scenario.about
    for job in scenario.jobs:
        assert set(job.options) <= known
    placed = place_ranks(scenario)
    hosts = [host for held in placed.values() for host in held]
    assert sorted(hosts) == list(range(scenario.hosts))
    assert all(len(placed[job.name]) == job.ranks for job in scenario.jobs)


def test_both_splits_have_scenarios() -> None:
    splits = [read_scenario(name).split for name in SCENARIOS]
    assert min(splits.count("dev"), splits.count("test")) > len(SCENARIOS) // 3


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "jobs: at least one"),
        ({"jobs": [{"ranks": 4, "speed": 1}]}, "jobs[0].speed: unknown key"),
        ({"jobs": [{"ranks": "4"}]}, "jobs[0].ranks: a int is expected"),
        ({"jobs": [{"framework": "jax"}]}, "jobs[0].framework"),
        ({"jobs": [{"ranks": 3}]}, "fabric.gpus_per_server"),
        ({"jobs": [{}], "faults": [{"rank": 4}]}, "faults[0].rank: no such rank"),
        ({"jobs": [{}], "faults": [{"kind": "slow_storage"}]}, "fabric.storage is false"),
        ({"jobs": [{}], "faults": [{"kind": "slow_uplink"}]}, "faults[0].leaf"),
        ({"jobs": [{}], "faults": [{"kind": "slow_uplink", "leaf": "leaf10"}]}, "is not one of ['leaf00', 'leaf01']"),
        ({"jobs": [{}, {}]}, "two have the same name"),
        ({"jobs": [{}], "weather": 1}, "weather: unknown key"),
    ],
)
def test_impossible_scenarios_are_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(message)):
        parse_scenario("bad", table)


def test_a_missing_file_is_an_error_of_the_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        read_scenario(str(tmp_path / "none.toml"))


def test_stride_puts_neighbouring_ranks_on_different_servers() -> None:
    scenario = parse_scenario("s", {"fabric": {"gpus_per_server": 2}, "jobs": [{"ranks": 6, "placement": "stride"}]})
    assert place_ranks(scenario)["train"] == [0, 2, 4, 1, 3, 5]


def test_jobs_share_servers_when_gpus_are_dealt_in_turn() -> None:
    jobs = [{"name": "a", "ranks": 2}, {"name": "b", "ranks": 2}]
    scenario = parse_scenario("s", {"interleave": "gpu", "jobs": jobs})
    assert place_ranks(scenario) == {"a": [0, 2], "b": [1, 3]}


def test_specs_are_frozen() -> None:
    scenario = parse_scenario("s", {"jobs": [{}]})
    with pytest.raises(dataclasses.FrozenInstanceError):
        scenario.name = "other"  # type: ignore[misc]
