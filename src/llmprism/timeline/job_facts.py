"""A job, its layout and its steps → facts of the job: size of the model, use of the network."""

from __future__ import annotations

from typing import Final

from llmprism.model.facts import JobFacts
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, Sharding
from llmprism.model.timeline import Steps
from llmprism.timeline.gradient_traffic import gradient_traffic
from llmprism.timeline.gradient_volume import group_volumes, stage_volumes
from llmprism.timeline.model_size import model_sizes, phases_of
from llmprism.timeline.network_use import bus_bandwidth_gbps, exposed_synchronisation, pipeline_bubble

__all__ = ["job_facts"]

LARGEST_SPREAD: Final = 0.05
"""Distance of the quartiles of the bytes per step over their median up to which the steps are held for steps: bytes are
conserved to 0.0015 in real jobs, to 0.02 with sharded parameters."""

LARGEST_UNEXPLAINED: Final = 0.05
"""Bytes that nobody could name over those of gradients, up to which the gradients are held for all: the accuracy that
the number of parameters is wanted with."""


def job_facts(job: Job, layout: JobLayout, steps: Steps) -> JobFacts:
    """What the evidence does not support is None."""
    traffic = gradient_traffic(job, layout, steps)
    if traffic is None:
        return JobFacts(pipeline_bubble=pipeline_bubble(job, layout, steps, None))
    sharded = layout.layout.sharding == Sharding.FSDP
    groups = group_volumes(job, layout, traffic)
    volumes = stage_volumes(groups, largest_only=sharded)
    steady = all(one.spread <= LARGEST_SPREAD for one in groups) and traffic.unexplained <= LARGEST_UNEXPLAINED
    phases = phases_of(job, traffic)
    optimizer_inside = phases.gathers_after_optimizer
    exposed = exposed_synchronisation(job, layout, steps, traffic, optimizer_inside=optimizer_inside)
    return JobFacts(
        sent_bytes_per_gpu=tuple(round(volumes[stage][1]) for stage in sorted(volumes)) or None,
        sizes=model_sizes(volumes, layout, phases) if steady else (),
        exposed_communication=None if exposed is None else exposed.share(steps),
        pipeline_bubble=None if sharded else pipeline_bubble(job, layout, steps, exposed),
        bus_bandwidth_gbps=bus_bandwidth_gbps(job, traffic),
    )
