"""Two layouts whose records are the same, and reports that know it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from llmprism.score.document import GroupFact, LayoutFacts, ScoredJob
from llmprism.score.truth import Truth
from llmprism.sim import simulate
from llmprism.sim.scenario import ClusterSpec, JobSpec, Scenario
from robust_twins import HEDGED, hedged_truth, twin_of

QUIET = {"step_jitter": 0.0, "compute_jitter": 0.0, "stall_probability": 0.0, "byte_noise": 0.0, "gradient_norm": False}
CLUSTER = ClusterSpec(servers=2, gpus_per_server=2, nvlink=True, storage_nodes=1)


def spec(**settings):
    return JobSpec(**({"name": "j", "tp": 2, "dp": 2, "micro_batches": 2, "start_s": -1.0} | QUIET | settings))


def records(folder: Path, job: JobSpec, cluster: ClusterSpec) -> list[tuple[str, str, int]]:
    """Ends and bytes of all messages, pair by pair in the order of time."""
    simulate(Scenario(name="x", seconds=4.0, seed=1, cluster=cluster, jobs=(job,)), folder)
    query = f"SELECT src, dst, bytes FROM '{folder}/flows.parquet' WHERE bytes > 4000 ORDER BY src, dst, start_ns"
    return duckdb.sql(query).fetchall()


@pytest.mark.parametrize("sharding", ["none", "zero1", "fsdp"])
def test_the_twin_leaves_the_same_messages(tmp_path: Path, sharding: str) -> None:
    job, cluster = spec(sharding=sharding), ClusterSpec(**{**_settings(CLUSTER), "nvlink": sharding != "fsdp"})
    twin = twin_of(job, cluster)
    assert twin is not None
    one, other = records(tmp_path / "a", job, cluster), records(tmp_path / "b", *twin)
    assert [row[:2] for row in one] == [row[:2] for row in other]
    assert [row[2] for row in one] == pytest.approx([row[2] for row in other], rel=1e-4, abs=8)


def _settings(cluster: ClusterSpec) -> dict[str, object]:
    return {name: getattr(cluster, name) for name in ("servers", "gpus_per_server", "nvlink", "storage_nodes")}


@pytest.mark.parametrize(
    "settings",
    [{"pp": 2}, {"cp": 2}, {"ep": 2}, {"host_jitter_ms": 0.1}, {"collective": "tree"}, {"tp": 1, "dp": 4}],
    ids=lambda changed: next(iter(changed)),
)
def test_what_shows_who_works_together_has_no_twin(settings: dict[str, object]) -> None:
    assert twin_of(spec(), CLUSTER) is not None
    assert twin_of(spec(**settings), CLUSTER) is None


def said(confidence: float, tp: int, alternatives: list[dict[str, int]]) -> dict[str, object]:
    layout = {"tp": tp, "dp": 4 // tp, "confidence": confidence, "alternatives": alternatives}
    return {"jobs": [{"members": list("abcd"), "layout": layout}]}


@pytest.mark.parametrize(
    ("report", "right"),
    [
        (said(0.6, 1, [{"tp": 2, "dp": 2}]), True),
        (said(HEDGED + 0.05, 1, [{"tp": 2, "dp": 2}]), False),  # it does not know, and is sure
        (said(0.6, 1, []), False),  # it does not say what else
        (said(0.6, 2, [{"tp": 1, "dp": 4}]), False),  # it says what is true: nothing to replace
        (said(0.6, 4, [{"tp": 2, "dp": 2}]), False),
    ],
)
def test_a_report_that_knows_what_it_cannot_know_is_right(report: dict[str, object], right: bool) -> None:
    groups = (GroupFact("dp", ("a", "c")), GroupFact("dp", ("b", "d")))
    job = ScoredJob("j", frozenset("abcd"), LayoutFacts(tp=2, pp=1, dp=2), groups, (), None, (), ())
    scenario = Scenario(name="x", cluster=CLUSTER, jobs=(spec(),))
    (found,) = hedged_truth(Truth((job,), ()), report, scenario).jobs
    assert (found.groups == (GroupFact("dp", ("a", "b", "c", "d")),)) is right
    assert (found.layout.tp == 1) is right
    other = Scenario(name="x", cluster=CLUSTER, jobs=(spec(pp=2),))
    assert hedged_truth(Truth((job,), ()), report, other).jobs == (job,)
