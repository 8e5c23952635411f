"""A job and its layout → its timeline."""

from __future__ import annotations

from llmprism.model.job import Job
from llmprism.model.layout import JobLayout
from llmprism.model.timeline import Events, Timeline
from llmprism.timeline.events import events_of
from llmprism.timeline.job_facts import job_facts
from llmprism.timeline.rules import RULES, TimelineRules
from llmprism.timeline.steps import member_ends, steps_of

__all__ = ["reconstruct_timeline"]


def reconstruct_timeline(
    job: Job, layout: JobLayout, rules: TimelineRules = RULES, *, with_events: bool = True, with_facts: bool = True
) -> Timeline:
    """Steps and the members' ends always; per-GPU events on request, because they are as many as the transfers; the
    facts of the job unless nobody wants them."""
    steps = steps_of(job, layout, rules)
    return Timeline(
        steps=steps,
        member_end_ns=member_ends(job, layout, steps),
        events=events_of(job, layout, steps, rules) if with_events else Events.empty(),
        confidence=layout.clock.dominance if layout.clock is not None else 0.0,
        facts=job_facts(job, layout, steps, rules) if with_facts else None,
    )
