"""Degrees of a layout: how many members its groups have, and what is left over is tensor-parallel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from llmprism.model.job import Job
from llmprism.model.layout import Group

__all__ = ["copies_of", "degrees_of", "most_common"]


def copies_of(groups: tuple[Group, ...]) -> int:
    """Data-parallel degree of hybrid sharding: members of a shard group times replicas."""
    one = next(iter(groups)).members[0]
    return int(np.prod([len(group.members) for group in groups if one in group.members]))


def degrees_of(job: Job, copies: int, contexts: int, stages: int, lost_pipelines: bool) -> tuple[int | None, ...]:
    """(tp, pp, dp). Gradient groups count replicas times contexts; what is left over is tensor-parallel."""
    dp = copies // contexts if copies % contexts == 0 else None
    if lost_pipelines:
        return None, None, dp
    width = len(job.members) / (copies * stages)
    return (int(width) if width == int(width) else None), stages, dp


def most_common(sizes: Iterable[int]) -> int | None:
    """The size that is met most often, the larger one of two; None where there is none."""
    counted = Counter(sizes)
    return max(counted, key=lambda size: (counted[size], size)) if counted else None
