from __future__ import annotations

import numpy as np

from llmprism.sim.placement import place_jobs
from llmprism.sim.scenario import parse_scenario, read_scenario
from llmprism.sim.simulated_cluster import build_cluster


def placed(text: str) -> list[list[int]]:
    scenario = parse_scenario("p", text)
    return place_jobs(scenario, build_cluster(scenario.cluster), np.random.default_rng(1))


def test_servers_of_an_ended_job_are_used_again_but_not_before() -> None:
    jobs = "[[job]]\nname='a'\ndp=8\nstop_s=10\n[[job]]\nname='b'\ndp=8\n[[job]]\nname='c'\ndp=8\nstart_s=20"
    first, second, third = placed(f"[cluster]\nservers = 2\n{jobs}")
    assert first == third
    assert not set(first) & set(second)


def test_halves_share_their_servers() -> None:
    lower, upper = placed("[[job]]\nname='a'\ndp=8\nhalf='lower'\n[[job]]\nname='b'\ndp=8\nhalf='upper'")
    assert [nic // 8 for nic in lower] == [nic // 8 for nic in upper]
    assert not set(lower) & set(upper)


def test_scattered_jobs_keep_whole_servers_together() -> None:
    (nics,) = placed("[cluster]\nservers = 32\n[[job]]\ndp=64\nplacement='scattered'")
    servers = [nic // 8 for nic in nics]
    assert all(len(set(servers[i : i + 8])) == 1 for i in range(0, 64, 8))
    assert servers != sorted(servers)


def test_the_many_tenants_reuse_servers() -> None:
    scenario = read_scenario("many-tenants")
    by_name = dict(
        zip(
            [job.name for job in scenario.jobs],
            place_jobs(scenario, build_cluster(scenario.cluster), np.random.default_rng(scenario.seed)),
            strict=True,
        )
    )
    assert set(by_name["early"]) & set(by_name["late"])
