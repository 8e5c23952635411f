"""Layouts that no flow record tells apart, and reports that say so.

A tensor-parallel group that fills its server leaves the same records as replicas of the server that reach each other
over NVLink: one ring of gradients per rail, over the servers, with the same number of messages of the same sizes
(`twin_of` gives the settings that make them so; a test compares the records). All that differs is how long a server
computes, of which nobody knows the law. This holds without pipelines, contexts and experts, which show who works
together, for rings (of replicas that reduce in a tree one rail shows), and where tensor peers have no delays of their
own.

In such a job the report cannot know. It is right where it says what it could be: either of the two, no surer than
three in four, with the other among the alternatives. A report that is surer has guessed, and is right only where the
guess is (docs/decisions/0005-layouts-nobody-can-tell-apart.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from llmprism.score.document import GroupFact, ScoredJob
from llmprism.score.truth import Truth
from llmprism.sim.scenario import ClusterSpec, JobSpec, Scenario

__all__ = ["HEDGED", "hedged_truth", "twin_of"]

HEDGED: Final = 0.75
"""A layout that might as well be its twin is stated with no more than this."""


def twin_of(job: JobSpec, cluster: ClusterSpec) -> tuple[JobSpec, ClusterSpec] | None:
    """The job without tensor parallelism that leaves the same records, on which cluster; None where there is none."""
    fills_servers = job.tp == cluster.gpus_per_server > 1 and job.dp > 1
    nothing_else = job.pp == job.cp == job.ep == 1 and not job.host_jitter_ms and job.sharding != "hsdp"
    seen = job.sharding == "fsdp" or (cluster.nvlink and job.collective == "ring")
    if not (fills_servers and nothing_else and seen):
        return None
    members = job.dp * job.tp
    share = (1 - 1 / job.dp) / (1 - 1 / members) * job.tp
    return (
        replace(job, tp=1, dp=members, gradient_mb=job.gradient_mb * share),
        replace(cluster, nvlink=True),
    )


def hedged_truth(truth: Truth, report: dict[str, Any], scenario: Scenario) -> Truth:
    """The truth, with the twin in place of each job that the report calls the twin and says that it may not be."""
    specs = {job.name: job for job in scenario.jobs}
    jobs = []
    for job in truth.jobs:
        spec = specs.get(job.id)
        said = next((one for one in report["jobs"] if set(one["members"]) == job.members), None)
        open_ = spec is not None and twin_of(spec, scenario.cluster) is not None
        jobs.append(_twin(job) if open_ and said is not None and _hedges(job, said) else job)
    return replace(truth, jobs=tuple(jobs))


def _twin(job: ScoredJob) -> ScoredJob:
    layout = replace(job.layout, tp=1, dp=(job.layout.tp or 1) * (job.layout.dp or 1))
    return replace(job, layout=layout, groups=(GroupFact("dp", tuple(sorted(job.members))),))


def _hedges(true: ScoredJob, said: dict[str, Any]) -> bool:
    """Does the report state the twin's degrees, without being sure, and name the true ones?"""
    layout, twin = said.get("layout") or {}, _twin(true).layout
    others = [(one.get("tp"), one.get("dp")) for one in layout.get("alternatives") or []]
    return (
        (layout.get("tp"), layout.get("dp")) == (twin.tp, twin.dp)
        and float(layout.get("confidence") or 0.0) <= HEDGED
        and (true.layout.tp, true.layout.dp) in others
    )
