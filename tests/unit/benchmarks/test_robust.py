"""Random scenarios are what their seed says, failures are made small without losing them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from llmprism.sim import Scenario, parse_scenario
from robust_case import Outcome
from robust_draw import as_toml, draw_scenario, with_normal_ends
from robust_shrink import shrink

drawn = cache(draw_scenario)
"""A scenario is measured while it is drawn, which takes a third of a second: once for all tests here."""


def test_a_seed_gives_one_scenario_and_its_file_reads_back() -> None:
    assert all(drawn(seed) == draw_scenario(seed) for seed in range(1, 9))
    for scenario in map(drawn, range(1, 40)):
        assert parse_scenario(scenario.name, as_toml(scenario)) == scenario


def test_seeds_reach_wide_ranges() -> None:
    jobs = [drawn(seed).jobs[0] for seed in range(1, 100)]
    assert {1, 2, 4, 8, 16} <= {job.pp for job in jobs}
    assert {2, 64} <= {job.micro_batches for job in jobs}
    assert {"none", "zero1", "zero2", "fsdp", "hsdp"} <= {job.sharding for job in jobs}
    assert min(job.compute_ms for job in jobs) < 2 < 1000 < max(job.compute_ms for job in jobs)


def test_a_fault_is_planted_where_one_is_wanted() -> None:
    assert all(drawn(seed, faults=True).faults for seed in range(1, 15))
    assert any(not drawn(seed).faults for seed in range(1, 40))


def test_jobs_that_are_to_end_do_so_inside_the_window_without_a_fault() -> None:
    for scenario in map(with_normal_ends, map(drawn, range(1, 15))):
        assert not scenario.faults
        assert all(job.start_s < job.stop_s < scenario.seconds for job in scenario.jobs)


def test_shrinking_keeps_the_setting_that_the_failure_needs() -> None:
    def run(scenario: Scenario) -> Outcome:
        fails = any(job.tied_embeddings_mb > 0 and job.pp > 1 for job in scenario.jobs)
        return Outcome(scenario.name, {"pairs": not fails}, true_jobs=1)

    scenario = next(s for s in map(drawn, range(1, 400)) if not run(s).verdicts["pairs"] and len(s.jobs) > 1)
    small = shrink(scenario, run(scenario), tries=300, run=run)
    job = small.scenario.jobs[0]
    assert len(small.scenario.jobs) == 1
    assert (job.pp, job.dp, job.micro_batches) == (2, 1, 2) or job.pp <= 3
    assert job.gpus < sum(item.gpus for item in scenario.jobs)
    assert "tied_embeddings_mb" in small.cause
    assert not small.outcome.verdicts["pairs"]


def test_shrinking_stops_at_its_budget() -> None:
    scenario = drawn(3)
    runs: list[Scenario] = []

    def run(candidate: Scenario) -> Outcome:
        runs.append(candidate)
        return Outcome(candidate.name, {"jobs": False}, true_jobs=1)

    shrink(replace(scenario), run(scenario), tries=5, run=run)
    assert len(runs) == 6


@pytest.mark.parametrize("seed", [2])
def test_a_case_runs_from_scenario_to_verdicts(seed: int) -> None:
    from robust import Case, summary
    from robust_case import run_case

    scenario = drawn(seed)
    outcome = run_case(scenario)
    assert outcome.error == ""
    assert outcome.verdicts["ran"]
    assert outcome.records > 1000
    assert any(line.startswith("| jobs |") for line in summary([Case(seed, scenario, outcome)]))
