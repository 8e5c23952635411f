"""Layout by the published rule: how many sizes of flow a pair shows within a step.

Per directed pair the gaps between flow starts are cut into steps by change-point detection; N_k is the number of
distinct flow sizes in step k. A pipeline pair always sends the same activation, so it is PP when the mode of N_k is 1
and DP otherwise. Then the refinement: the connected components of the graph of DP pairs are the DP groups, and a PP
pair between two members of one component becomes DP. Pipelines are the paths that the remaining PP pairs form; the
paper does not say which end is first, so the end that sends first is. Branching or closed sets of PP pairs give none.

Where it breaks is described in docs/explanation/paper-baseline.md.
Reference: LLMPrism, arXiv 2505.00342 (DSN'25), parallelism identification.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from llmprism.arrays import Float64, Int8, Int64
from llmprism.model import Group, Job, JobLayout, Layout, PairKind, PairRoles, TransferTable
from llmprism.stats.bursts import burst_labels
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["layout_paper"]


def layout_paper(job: Job) -> JobLayout:
    """The layout of a job whose transfers have one row per record."""
    flows = job.transfers
    kinds, agreement = _classify(flows)
    dp_pairs = kinds == PairKind.DP
    component = component_labels(len(flows.addresses), flows.pair_src[dp_pairs], flows.pair_dst[dp_pairs])
    flipped = (kinds == PairKind.PP) & (component[flows.pair_src] == component[flows.pair_dst])
    kinds[flipped] = PairKind.DP
    agreement[flipped] = 1.0
    groups = _groups(job, component)
    pipelines = _pipelines(flows, np.flatnonzero(kinds == PairKind.PP))
    return JobLayout(
        layout=_degrees(len(job.members), groups, pipelines, bool((kinds == PairKind.PP).any())),
        groups=groups,
        pipelines=pipelines,
        pairs=PairRoles(flows.pair_src, flows.pair_dst, kinds, agreement),
        transfer_kind=np.repeat(kinds, np.diff(flows.pair_offsets)),
        confidence=float(agreement.mean()) if agreement.size else 0.0,
    )


def _classify(flows: TransferTable) -> tuple[Int8, Float64]:
    """Kind of every pair before refinement, and the share of its steps that say the same."""
    sizes = _sizes_per_step(flows)
    pairs, counts = sizes // _SIZE_LIMIT, sizes % _SIZE_LIMIT
    verdicts, votes = np.unique(sizes, return_counts=True)
    # Sorted by pair, then by votes from many to few, then by N_k: the first row of a pair is its mode.
    order = np.lexsort((verdicts, -votes, verdicts // _SIZE_LIMIT))
    _, first = np.unique(verdicts[order] // _SIZE_LIMIT, return_index=True)
    single = verdicts[order][first] % _SIZE_LIMIT == 1
    kinds = np.where(single, np.int8(PairKind.PP), np.int8(PairKind.DP))
    agrees = (counts == 1) == single[pairs]
    steps = np.bincount(pairs, minlength=flows.pair_count)
    return kinds, np.bincount(pairs, weights=agrees, minlength=flows.pair_count) / steps


_SIZE_LIMIT = np.int64(1) << 32
"""Packs (pair, N_k) in one integer: N_k is at most the number of rows, which fits."""


def _sizes_per_step(flows: TransferTable) -> Int64:
    """For each step of each pair `pair * _SIZE_LIMIT + N_k`, N_k being the distinct sizes in it."""
    pair = flows.pair_of_row.astype(np.int64)
    step = burst_labels(flows.start_ns, flows.pair_offsets)
    order = np.lexsort((flows.bytes, step, pair))
    pair, step, size = pair[order], step[order], flows.bytes[order]
    new_step = np.ones(pair.size, dtype=np.bool_)
    new_step[1:] = (pair[1:] != pair[:-1]) | (step[1:] != step[:-1])
    new_size = new_step.copy()
    new_size[1:] |= size[1:] != size[:-1]
    opens = np.flatnonzero(new_step)
    if not opens.size:
        return np.zeros(0, dtype=np.int64)
    return pair[opens] * _SIZE_LIMIT + np.add.reduceat(new_size.astype(np.int64), opens)


def _groups(job: Job, component: Int64) -> tuple[Group, ...]:
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for member in job.members:
        groups[int(component[member])].append(member)
    return tuple(Group(PairKind.DP, tuple(members)) for members in groups.values() if len(members) > 1)


def _pipelines(flows: TransferTable, pp_pairs: Int64) -> tuple[tuple[int, ...], ...]:
    """Every simple path that PP pairs form, from the end that sends first."""
    neighbours: defaultdict[int, set[int]] = defaultdict(set)
    first_sent: dict[tuple[int, int], int] = {}
    for pair in pp_pairs.tolist():
        src, dst = int(flows.pair_src[pair]), int(flows.pair_dst[pair])
        neighbours[src].add(dst)
        neighbours[dst].add(src)
        first_sent[src, dst] = int(flows.start_ns[flows.pair_offsets[pair]])
    paths = []
    for end in sorted(member for member, others in neighbours.items() if len(others) == 1):
        path = _walk(end, neighbours)
        if path is not None and path[0] < path[-1]:  # each path is met from both of its ends
            paths.append(path if _sends_first(path, first_sent) else path[::-1])
    return tuple(sorted(paths))


def _walk(end: int, neighbours: dict[int, set[int]]) -> tuple[int, ...] | None:
    """The path from `end` to the other end, or None where it forks."""
    path, previous = [end], -1
    while True:
        onward = neighbours[path[-1]] - {previous}
        if not onward:
            return tuple(path)
        if len(onward) > 1:
            return None
        previous = path[-1]
        path.append(onward.pop())


def _sends_first(path: tuple[int, ...], first_sent: dict[tuple[int, int], int]) -> bool:
    never = np.iinfo(np.int64).max
    return first_sent.get((path[0], path[1]), never) <= first_sent.get((path[-1], path[-2]), never)


def _degrees(members: int, groups: tuple[Group, ...], pipelines: tuple[tuple[int, ...], ...], has_pp: bool) -> Layout:
    """Degrees where all groups, and all pipelines, are of one size; tensor parallelism is what is left over."""
    dp = _one_value([len(group.members) for group in groups]) if groups else 1
    pp = _one_value([len(path) for path in pipelines]) if has_pp else 1
    tp = members // (dp * pp) if dp and pp and members % (dp * pp) == 0 else None
    return Layout(tp=tp, pp=pp, dp=dp)


def _one_value(sizes: list[int]) -> int | None:
    return sizes[0] if len(set(sizes)) == 1 else None
