"""Drawn scenarios: the lab can run them, a seed always means the same one, and what was recorded can be drawn again."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from lab.draw import PLANTED, draw_scenario
from lab.scenario import FOLDER, parse_scenario

from llmprism.toml_text import toml_text


@pytest.mark.parametrize("gpu", [True, False])
def test_every_seed_is_a_scenario_of_the_lab(gpu: bool) -> None:
    kinds = set()
    for seed in range(200):
        scenario = parse_scenario("drawn", tomllib.loads(toml_text(draw_scenario(seed, gpu=gpu))))
        kinds |= {fault.kind for fault in scenario.faults} | {scenario.jobs[0].framework}
    assert {"fsdp", "pipelining", "slow_gpu", "hang", "killed"} <= kinds


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("kind", PLANTED)
def test_a_kind_of_fault_can_be_chosen(kind: str, gpu: bool) -> None:
    for seed in range(50):
        scenario = parse_scenario("drawn", tomllib.loads(toml_text(draw_scenario(seed, gpu=gpu, fault=kind))))
        assert [fault.kind for fault in scenario.faults] == [kind]


def test_a_healthy_scenario_can_be_chosen() -> None:
    assert not any("faults" in draw_scenario(seed, fault="none") for seed in range(20))


@pytest.mark.parametrize(
    "path", sorted([*FOLDER.glob("*drawn*.toml"), *FOLDER.glob("*planted*.toml")]), ids=lambda path: path.stem
)
def test_what_was_recorded_can_be_drawn_again(path: Path) -> None:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    gpu = not path.stem.startswith("gloo")
    kind, _, seed = table["about"].rpartition("drawn by seed ")
    assert draw_scenario(int(seed), gpu=gpu, fault=kind.rstrip(", ")) == table


def test_odd_seeds_are_for_judging() -> None:
    assert [draw_scenario(seed)["split"] for seed in (4, 5)] == ["dev", "test"]
