"""The gradient traffic that the facts of a job are read from: a few groups of every pipeline stage, step by step.

Replicas do the same, so that a few groups of a kind are enough: the cost does not grow with the size of the job. A
group whose members are of several stages (tied embeddings) repeats parameters that other groups hold; it is left out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Int64, evenly_spread
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind
from llmprism.model.timeline import Steps
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["GradientTraffic", "gradient_traffic", "training_steps"]

_COUNTED: Final = (PairKind.DP, PairKind.UNKNOWN, PairKind.OTHER)


@dataclass(frozen=True, slots=True)
class GradientTraffic:
    """Rows of the job's transfers that synchronise gradients in `steps`, with the step and the group of each.

    `groups` are indices into the layout's groups, `stage[i]` is the pipeline stage of `groups[i]`; `group` of a row is
    an index into `groups`. `unexplained` is what the same pairs carry in these steps and nobody could name, over what
    the rows carry.
    """

    groups: tuple[int, ...]
    stage: tuple[int, ...]
    rows: Int64
    step: Int64
    group: Int64
    pair: Int64
    steps: Int64
    unexplained: float = 0.0


def training_steps(steps: Steps) -> Int64:
    """The steps that count: not the set-up step, nor the first one where there are others, which may be cut."""
    chosen = np.flatnonzero(~steps.setup)
    return chosen[chosen > 0] if chosen.size > 1 else chosen


def gradient_traffic(job: Job, layout: JobLayout, steps: Steps, rules: TimelineRules = RULES) -> GradientTraffic | None:
    """None where no gradients are seen."""
    counted = training_steps(steps)
    transfers = job.transfers
    groups, stages = _chosen_groups(layout, rules.groups_of_a_kind)
    if not counted.size or not groups or layout.transfer_kind.size != transfers.bytes.size:
        return None
    group_of_pair = _group_of_pairs(job, layout, groups)
    rows = np.flatnonzero(transfers.rows_of(group_of_pair >= 0))
    rows = rows[np.isin(layout.transfer_kind[rows], _COUNTED)]
    step = steps.at(transfers.start_ns[rows])
    usable = np.append(np.isin(np.arange(steps.count), counted), False)[step]  # of step -1: none
    rows, step = rows[usable], step[usable]
    own = layout.transfer_kind[rows] == PairKind.DP
    unnamed = float(transfers.bytes[rows[~own]].sum())
    rows, step = rows[own], step[own]
    if not rows.size:
        return None
    pair = np.searchsorted(transfers.pair_offsets, rows, side="right") - 1
    unexplained = unnamed / max(float(transfers.bytes[rows].sum()), 1.0)
    return GradientTraffic(groups, stages, rows, step, group_of_pair[pair], pair, counted, unexplained)


def _chosen_groups(layout: JobLayout, most: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    stage_of = layout.stage_of()
    kinds: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, group in enumerate(layout.groups):
        stages = {stage_of.get(member, 0) for member in group.members}
        if group.kind == PairKind.DP and len(group.members) > 1 and len(stages) == 1:
            kinds[stages.pop(), len(group.members)].append(index)
    chosen: list[tuple[int, int]] = []
    for (stage, _), found in kinds.items():
        chosen += [(found[place], stage) for place in evenly_spread(len(found), most).tolist()]
    chosen.sort()
    return tuple(index for index, _ in chosen), tuple(stage for _, stage in chosen)


def _group_of_pairs(job: Job, layout: JobLayout, groups: tuple[int, ...]) -> Int64:
    """For each pair the smallest chosen group (an index into `groups`) that holds both of its ends, -1: none does."""
    transfers = job.transfers
    found = np.full(transfers.pair_count, -1, dtype=np.int64)
    for number in sorted(range(len(groups)), key=lambda one: -len(layout.groups[groups[one]].members)):
        members = np.array(layout.groups[groups[number]].members, dtype=np.int32)
        inside = np.isin(transfers.pair_src, members)
        inside[inside] = np.isin(transfers.pair_dst[inside], members)
        found[inside] = number
    return found
