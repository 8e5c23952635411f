"""A link that closes a pipeline to a ring and carries something else than interleaved stages do.

With v virtual stages per rank the link from the last stage back to the first carries v - 1 parts of the v that other
links carry: half of their bytes at least. A ring of links between stages one of which carries less is an open pipeline
whose first and last stage exchange something else, such as the gradients of tied embeddings. These may also be many
times as large as all activations of a step. But they are one exchange in a step, both ways at one time, where chunks
send half as many messages as other links do, and one for every stage at least.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.arrays import evenly_spread, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind, Schedule
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import step_bytes
from llmprism.parallelism.link_rests import bursts_of_pair, overlaps, usual_rest
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.schedule_fit import ScheduleFit
from llmprism.parallelism.stage_links import Pipelines, find_pipelines
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.robust import segment_medians

__all__ = ["closed_by_collectives", "with_closings", "without_false_closings", "without_light_closings"]


def without_light_closings(
    links: Links, kinds: LinkKinds, features: PairFeatures, rules: LayoutRules = RULES
) -> LinkKinds:
    """The kinds, the light link of each ring of stages `other`, where all rings have one: jobs have one schedule."""
    chosen = np.flatnonzero(kinds.kind == PairKind.PP)
    if chosen.size < 3:
        return kinds
    members, low, high = links.numbered_ends()
    low, high = low[chosen], high[chosen]
    degree = np.bincount(np.concatenate([low, high]), minlength=members)
    ring = component_labels(members, low, high)[low]
    sent = step_bytes(features, links.there[chosen]) + step_bytes(features, links.back[chosen])
    order = np.lexsort((sent, ring))
    offsets = np.append(np.flatnonzero(np.diff(ring[order], prepend=-1)), order.size)
    first = offsets[:-1]
    closed = np.logical_and.reduceat(((degree[low] == 2) & (degree[high] == 2))[order], first) & (np.diff(offsets) > 2)
    most = (0.5 - rules.clock.step_tolerance) * segment_medians(sent[order], offsets)
    if not closed.any() or (sent[order[first]] >= most)[closed].any():
        return kinds
    kind = kinds.kind.copy()
    kind[chosen[order[first[closed]]]] = PairKind.OTHER
    return replace(kinds, kind=kind)


def without_false_closings(
    job: Job, links: Links, kinds: LinkKinds, features: PairFeatures, groups: tuple[Group, ...],
    rules: LayoutRules = RULES,
) -> tuple[LinkKinds, Pipelines]:  # fmt: skip
    """The pipelines and the kinds of links, those that close pipelines `other` where they carry collectives only."""
    pipes = find_pipelines(job, links, kinds, features, groups, rules)
    assert job.clock is not None  # noqa: S101 - checked by the caller
    if not pipes.closing or not closed_by_collectives(job.transfers, pipes, job.clock, rules):
        return kinds, pipes
    closing = np.isin(links.there, [pair for link in pipes.closing for pair in link])
    kinds = replace(kinds, kind=np.where(closing, PairKind.OTHER, kinds.kind).astype(np.int8))
    return kinds, find_pipelines(job, links, kinds, features, groups, rules)


def with_closings(
    transfers: TransferTable, links: Links, kinds: LinkKinds, pipes: Pipelines, order: ScheduleFit,
    rules: LayoutRules = RULES,
) -> LinkKinds:  # fmt: skip
    """The kinds; where the moments of messages on the other links say that stages are interleaved, the links from last
    stages to first ones are theirs, whatever else they carry."""
    shown = order.schedule is Schedule.INTERLEAVED and order.played and order.misfit < rules.stages.schedule_chance
    if not shown or pipes.rings or len(pipes.members[0]) < 3:
        return kinds
    ends = np.array([(pipeline[-1], pipeline[0]) for pipeline in pipes.members], dtype=np.int64)
    between = np.concatenate([transfers.pairs_between(ends[:, way], ends[:, 1 - way]) for way in (0, 1)])
    closing = np.isin(links.there, between[between >= 0]) | np.isin(links.back, between[between >= 0])
    return replace(kinds, kind=np.where(closing, PairKind.PP, kinds.kind).astype(np.int8))


def closed_by_collectives(
    transfers: TransferTable, pipes: Pipelines, clock: StepClock, rules: LayoutRules = RULES
) -> bool:
    """Do the links from last to first stages carry nothing but one exchange of every step? Its messages are those of
    the pipeline's other links: what is apart by the rest between these."""
    rule = rules.stages
    inner, closing = (
        [links[i] for i in evenly_spread(len(links), rule.shared_probes).tolist()]
        for links in (pipes.forward, pipes.closing)
    )
    usual = [usual_rest(transfers, pair, clock.steps) for link in inner for pair in link]
    pause = rule.message_pause * float(median(usual))
    sent = [bursts_of_pair(transfers, pair, pause).size.size for link in inner for pair in link]
    chunks = max(float(median(sent)) / clock.steps / 2.0, float(len(pipes.members[0])))  # what interleaved ones send
    together, counts = [], []
    for link in closing:
        one, other = (bursts_of_pair(transfers, pair, pause) for pair in link)
        counts.append(min(one.size.size, other.size.size) / clock.steps)  # one exchange: a way may break off on its own
        one, other = one.largest(clock.steps), other.largest(clock.steps)
        together.append(
            float(overlaps(one, other, rules)[1].mean()) if min(one.size.size, other.size.size) > 1 else 0.0
        )
    return float(median(counts)) <= chunks / 2.0 and float(median(together)) >= rule.burst_steps
