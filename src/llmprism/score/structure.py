"""Groups, pipelines and the layout's degrees.

A group is right when kind and member set are exactly right; a pipeline when its stages are, in order. Both are found
wherever the report put them. Degrees are compared on matched jobs; a true job without a match has them all wrong.
Micro-batches and the schedule are visible only where there is a pipeline and are scored only there; ep and cp only
where the truth or the report says more than 1; the sharding only where the truth states it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from llmprism.score.document import LayoutFacts, ScoredJob
from llmprism.score.jobs import JobMatch
from llmprism.score.measures import Rate, SetScore

__all__ = ["StructureScore", "score_structure"]

NOTHING = Rate(0, 0)
SILENT = LayoutFacts()


@dataclass(frozen=True, slots=True)
class StructureScore:
    groups: SetScore
    pipelines: SetScore
    micro_batches: Rate
    degrees: Rate
    schedule: Rate
    sharding: Rate
    state: Rate


def score_structure(truth: tuple[ScoredJob, ...], reported: tuple[ScoredJob, ...], match: JobMatch) -> StructureScore:
    micro_batches, degrees, schedule, sharding, state = (NOTHING,) * 5
    for job, found in zip(truth, match.reported_of, strict=True):
        said = found.layout if found is not None else SILENT
        degrees += _degrees(job.layout, said)
        if (job.layout.pp or 1) > 1:
            micro_batches += _rate(job.layout.micro_batches, said.micro_batches, unstated=None)
            schedule += _rate(job.layout.schedule, said.schedule, unstated="unknown")
        sharding += _rate(job.layout.sharding, said.sharding, unstated="unknown")
        state += _rate(job.state, found.state if found is not None else "unknown", unstated="unknown")
    return StructureScore(
        groups=_same(_groups(truth), _groups(reported)),
        pipelines=_same(_pipelines(truth), _pipelines(reported)),
        micro_batches=micro_batches,
        degrees=degrees,
        schedule=schedule,
        sharding=sharding,
        state=state,
    )


def _degrees(true: LayoutFacts, said: LayoutFacts) -> Rate:
    result = NOTHING
    for name in ("tp", "pp", "dp"):
        result += _rate(getattr(true, name), getattr(said, name), unstated=None)
    for expected, stated in ((true.ep, said.ep), (true.cp, said.cp)):
        if (expected or 1) > 1 or (stated or 1) > 1:
            result += Rate(int((expected or 1) == (stated or 1)), 1)
    return result


def _rate(true: object, said: object, unstated: object) -> Rate:
    """One comparison, or none where the truth states nothing."""
    return NOTHING if true == unstated else Rate(int(true == said), 1)


def _groups(jobs: tuple[ScoredJob, ...]) -> Iterable[Hashable]:
    return ((group.kind, frozenset(group.members)) for job in jobs for group in job.groups if len(group.members) > 1)


def _pipelines(jobs: tuple[ScoredJob, ...]) -> Iterable[Hashable]:
    return (pipeline for job in jobs for pipeline in job.pipelines if len(pipeline) > 1)


def _same(true: Iterable[Hashable], said: Iterable[Hashable]) -> SetScore:
    expected, claimed = Counter(true), Counter(said)
    return SetScore((expected & claimed).total(), claimed.total(), expected.total())
