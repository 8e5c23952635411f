"""A job, its layout and its steps → facts of the job: size of the model, use of the network."""

from __future__ import annotations

from llmprism.model.facts import JobFacts
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, Sharding
from llmprism.model.timeline import Steps
from llmprism.timeline.gradient_traffic import gradient_traffic
from llmprism.timeline.gradient_volume import group_volumes, stage_volumes
from llmprism.timeline.model_size import model_sizes, phases_of
from llmprism.timeline.network_use import bus_bandwidth_gbps, exposed_synchronisation, pipeline_bubble
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["job_facts"]


def job_facts(job: Job, layout: JobLayout, steps: Steps, rules: TimelineRules = RULES) -> JobFacts:
    """What the evidence does not support is None."""
    traffic = gradient_traffic(job, layout, steps, rules)
    if traffic is None:
        return JobFacts(pipeline_bubble=pipeline_bubble(job, layout, steps, None, rules))
    sharded = layout.layout.sharding == Sharding.FSDP
    groups = group_volumes(job, layout, traffic, rules)
    volumes = stage_volumes(groups, largest_only=sharded)
    steady = all(one.spread <= rules.largest_spread for one in groups)
    steady = steady and traffic.unexplained <= rules.largest_unexplained
    optimizer_inside = phases_of(job, traffic, rules).gathers_after_optimizer(rules)
    exposed = exposed_synchronisation(job, layout, steps, traffic, rules, optimizer_inside=optimizer_inside)
    return JobFacts(
        sent_bytes_per_gpu=tuple(round(volumes[stage][1]) for stage in sorted(volumes)) or None,
        sizes=model_sizes(volumes, layout, optimizer_inside=optimizer_inside) if steady else (),
        exposed_communication=None if exposed is None else exposed.share(steps),
        pipeline_bubble=None if sharded else pipeline_bubble(job, layout, steps, exposed, rules),
        bus_bandwidth_gbps=bus_bandwidth_gbps(job, traffic),
    )
