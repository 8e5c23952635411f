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

from llmprism.arrays import Float64, Int64, evenly_spread, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import step_bytes
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.stage_links import Pipelines, find_pipelines
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.robust import half_of_sum, segment_medians

__all__ = ["closed_by_collectives", "without_false_closings", "without_light_closings"]


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
    rests = [_rests(transfers, pair) for link in inner for pair in link]
    usual = [half_of_sum(np.sort(rest)[: max(rest.size - clock.steps, 1)]) for rest in rests if rest.size]
    if not usual:
        return False
    pause = rule.message_pause * float(median(usual))
    messages = float(median([_bursts(transfers, pair, pause)[0].size / clock.steps for link in inner for pair in link]))
    chunks = max(messages / 2.0, float(len(pipes.members[0])))  # messages that interleaved stages send there at least
    together, counts = [], []
    for link in closing:
        both = [_bursts(transfers, pair, pause) for pair in link]
        counts += [begin.size / clock.steps for begin, _, _ in both]
        together.append(_at_one_time(both, clock.steps, rules))
    return float(median(counts)) <= chunks / 2.0 and float(median(together)) >= rule.burst_steps


def _rests(transfers: TransferTable, pair: int) -> Float64:
    rows = _messages(transfers, pair)
    rests: Float64 = np.maximum(transfers.start_ns[rows[1:]] - transfers.end_ns[rows[:-1]], 0).astype(np.float64)
    return rests


def _messages(transfers: TransferTable, pair: int) -> Int64:
    rows = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
    return rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]


def _bursts(transfers: TransferTable, pair: int, pause: float) -> tuple[Int64, Int64, Float64]:
    """When each burst of a pair begins and ends, and its bytes; bursts are apart by more than the pause."""
    rows = _messages(transfers, pair)
    if not rows.size:
        return rows, rows, np.zeros(0)
    first = np.append(0, np.flatnonzero(_rests(transfers, pair) > pause) + 1)
    size = np.add.reduceat(transfers.bytes[rows].astype(np.float64), first)
    return transfers.start_ns[rows[first]], np.maximum.reduceat(transfers.end_ns[rows], first), size


def _at_one_time(both: list[tuple[Int64, Int64, Float64]], steps: int, rules: LayoutRules) -> float:
    """Share of the largest bursts of one direction of a link, one for each step, that are at one time with one of the
    other's."""
    if min(size.size for _, _, size in both) < 2:
        return 0.0
    (begin, end, _), (other_begin, other_end, _) = ([part[_largest(one[2], steps)] for part in one] for one in both)
    found = np.zeros(begin.size, dtype=np.bool_)
    after = np.searchsorted(other_begin, begin)
    for near in (np.maximum(after - 1, 0), np.minimum(after, other_begin.size - 1)):
        shared = np.minimum(end, other_end[near]) - np.maximum(begin, other_begin[near])
        shorter = np.minimum(end - begin, other_end[near] - other_begin[near])
        found |= shared >= rules.stages.at_one_time * np.maximum(shorter, 1)
    return float(found.mean())


def _largest(size: Float64, count: int) -> Int64:
    """So many of the largest, in the order in which they come."""
    return np.sort(np.argsort(-size, kind="stable")[:count])
