"""Which GPUs of a server are tensor-parallel peers, which are replicas: rival partitions, the likeliest wins.

Neither talks to the other over the network: both share NVLink. Two things tell them apart all the same.

* *A collective ends for all of its members at once.* Replicas are in one data-parallel group, so their part of the
  synchronisation ends together, as it does for members of the group on other servers, between which it is seen. Tensor
  peers are in different groups, which end when they end.
* *Peers compute each layer together.* They hand on their activations at the same moments, while replicas run their
  pipelines independently between two synchronisations, as pipelines on different servers do.

Neither sign is there in every job: peers of real jobs may be milliseconds apart, because each has a process of its own,
and simulated groups may all end together. So every way to cut the GPUs of a server into tensor-parallel groups of equal
size is a hypothesis that says of each two GPUs whether they should end and send together, and is judged by the log
likelihood of what they do, relative to pairs on different servers of which the answer is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.pair_ends import natural_order
from llmprism.stats.disjoint_sets import component_labels

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

__all__ = ["TensorPeers", "find_tensor_peers", "joined_replicas"]

MIN_STEPS: Final = 5
"""Steps before timing can tell."""

SOME: Final = 6
"""Members of a group that are compared with one of them, halved."""

CELLS: Final = 24
"""Servers (and stages) that are looked at: all are cut alike."""

BEST: Final = 0.25
"""Quantile of the pairs on different servers that shows how close members of one group end: a congested spine keeps
some of them apart."""

FINEST_NS: Final = 2_000.0
"""Differences below two microseconds are those of time stamps."""

APART: Final = 2.5
"""Logarithm of how much farther apart than members of one group two others end, at least; 4 in the median of real
jobs, 7 in simulated ones."""

APART_SPREAD: Final = 1.5
"""Spread of that logarithm among pairs of different groups; 1 among those of one group."""

TOGETHER: Final = -2.0
"""Logarithm of how much closer than replicas peers send, at most; -7 in simulated jobs."""

TOGETHER_SPREAD: Final = 1.5
"""Spread of that logarithm among peers."""

LOOSE_SPREAD: Final = 0.8
"""Spread of that logarithm among replicas."""

LEVEL: Final = 0.3
"""Log likelihood for each unit by which replicas on one server are closer than those on different ones."""

FARTHEST: Final = 12.0
"""Deviations beyond this say no more."""

AS_SEEN: Final = 1.0
"""Log odds, before anything is measured, that groups are the rails that are seen; of sharded training, that there are
no peers at all: shards go over all GPUs."""

NEVER_TOGETHER: Final = 3e-4
"""Share of a step: where there is nobody to compare with, members that differ by more are not held for peers."""


@dataclass(frozen=True, slots=True)
class TensorPeers:
    """`width` tensor-parallel peers stand next to each other in the order of `cells`, the members of one stage on one
    server. `confidence` is the probability of this width against the next best."""

    width: int
    cells: tuple[tuple[int, ...], ...]
    confidence: float


def find_tensor_peers(
    job: Job, groups: tuple[Group, ...], pipelines: tuple[tuple[int, ...], ...], pair_kind: NDArray[np.int8],
    clock: StepClock, *, sharded: bool = False,
) -> TensorPeers | None:  # fmt: skip
    """How the GPUs of servers divide; None where no server has several of one stage, or nothing tells."""
    cells = _cells(job, pipelines)
    shared = [cell for cell in cells if len(cell) > 1]
    width = int(np.gcd.reduce([len(cell) for cell in cells])) if cells else 0
    if not shared or width < 2 or clock.steps < MIN_STEPS:
        return None
    asked = [shared[i] for i in np.unique(np.linspace(0, len(shared) - 1, min(CELLS, len(shared))).astype(int))]
    signs = _signs(job, asked, groups, pipelines, pair_kind, clock)
    if signs is None:
        return None
    widths = [w for w in range(1, width + 1) if width % w == 0]
    scores = np.array([_likelihood(signs, asked, w) for w in widths])
    scores[0 if sharded else -1] += AS_SEEN
    best = int(np.argmax(scores))
    margin = float(scores[best] - np.partition(scores, -2)[-2]) if len(widths) > 1 else 0.0
    return TensorPeers(widths[best], tuple(cells), 1.0 / (1.0 + float(np.exp(-min(margin, 30.0)))))


def joined_replicas(groups: tuple[Group, ...], peers: TensorPeers) -> tuple[Group, ...]:
    """The groups, those of replicas that share servers made one; replicas without a group of their own get one."""
    group_of = {member: index for index, group in enumerate(groups) for member in group.members}
    alone = sorted({m for cell in peers.cells for m in cell} - group_of.keys())
    parts = [*groups, *(Group(PairKind.DP, (member,)) for member in alone)]
    number = group_of | {member: len(groups) + i for i, member in enumerate(alone)}
    left, right = [], []
    for cell in peers.cells:
        for place in range(peers.width):
            same = [number[member] for member in cell[place :: peers.width]]
            left += same[:-1]
            right += same[1:]
    labels = component_labels(len(parts), left, right)
    joined = [[parts[i] for i in np.flatnonzero(labels == label)] for label in range(int(labels.max(initial=-1)) + 1)]
    made = (part[0] if len(part) == 1 else _one(part) for part in joined)
    return tuple(sorted((group for group in made if len(group.members) > 1), key=lambda group: min(group.members)))


def _one(parts: list[Group]) -> Group:
    return Group(PairKind.DP, tuple(sorted({member for part in parts for member in part.members})), ring=False)


def _cells(job: Job, pipelines: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Members of one stage on one server, in the order of their GPUs (or addresses)."""
    stage_of = {member: stage for pipeline in pipelines for stage, member in enumerate(pipeline)}
    slots = job.slots or (-1,) * len(job.members)
    cells: dict[tuple[str, int], list[tuple[int, list[tuple[int, str]], int]]] = {}
    for member, place, slot in zip(job.members, job.places, slots, strict=False):
        if place and (member in stage_of or not pipelines):
            key = (place, stage_of.get(member, 0))
            cells.setdefault(key, []).append((slot, natural_order(job.transfers.addresses[member]), member))
    return [tuple(member for _, _, member in sorted(cell)) for cell in cells.values()]


@dataclass(frozen=True, slots=True)
class _Signs:
    """For each two members of a cell (low, high): how much farther apart than members of one group they end a
    synchronisation, and how much closer than replicas they send activations, as logarithms; NaN where not known."""

    ends: dict[tuple[int, int], float]
    sends: dict[tuple[int, int], float]


def _signs(
    job: Job, cells: list[tuple[int, ...]], groups: tuple[Group, ...], pipelines: tuple[tuple[int, ...], ...],
    pair_kind: NDArray[np.int8], clock: StepClock,
) -> _Signs | None:  # fmt: skip
    pairs = [pair for cell in cells for pair in combinations(cell, 2)]
    linked = _linked(job, cells, groups)
    stages = _across(job, cells, pipelines)
    members = sorted({m for pair in (*pairs, *linked, *stages) for m in pair})
    ends = _moments(job.transfers, pair_kind == PairKind.DP, members, clock, last=True)
    sends = _moments(job.transfers, pair_kind == PairKind.PP, members, clock, last=False)
    ends_by_pair = _relative(ends, pairs, linked, quantile=BEST, floor=None)
    floor = None if stages else NEVER_TOGETHER * clock.period_ns
    sends_by_pair = _relative(sends, pairs, stages, quantile=0.5, floor=floor)
    known = [*ends_by_pair.values(), *sends_by_pair.values()]
    return _Signs(ends_by_pair, sends_by_pair) if np.isfinite(known).any() else None


def _linked(job: Job, cells: list[tuple[int, ...]], groups: tuple[Group, ...]) -> list[tuple[int, int]]:
    """Pairs of members of one group on different servers, between which it is seen."""
    inside = {member for cell in cells for member in cell}
    place = dict(zip(job.members, job.places, strict=False))
    found: set[tuple[int, int]] = set()
    for group in groups:
        some = [member for member in group.members if member in inside][:2]
        peers = sorted(group.members)[: 2 * SOME]
        near = ((member, peer) for member in some for peer in peers if place.get(peer) != place.get(member))
        found.update((min(pair), max(pair)) for pair in near)
    return sorted(found)


def _across(job: Job, cells: list[tuple[int, ...]], pipelines: tuple[tuple[int, ...], ...]) -> list[tuple[int, int]]:
    """One pair of members of one stage on two servers, for neighbouring cells: they cannot be peers."""
    stage_of = {member: stage for pipeline in pipelines for stage, member in enumerate(pipeline)}
    place = dict(zip(job.members, job.places, strict=False))
    by_stage: dict[int, list[tuple[int, ...]]] = {}
    for cell in cells:
        by_stage.setdefault(stage_of.get(cell[0], 0), []).append(cell)
    return [
        (min(a, b), max(a, b))
        for same in by_stage.values()
        for one, other in combinations(same[:6], 2)
        for a, b in zip(one, other, strict=False)
        if pipelines and place[a] != place[b]
    ]


@dataclass(frozen=True, slots=True)
class _Moments:
    """Two times of each member (rows) in each step: when the messages that it sends lie in the mean, and when the last
    of them ended or the first began."""

    row: dict[int, int]
    mean: Float64
    edge: Float64


def _moments(transfers: TransferTable, pairs: Bool, members: list[int], clock: StepClock, *, last: bool) -> _Moments:
    steps = clock.boundary_ns.size - 1
    number = np.full(len(transfers.addresses), -1, dtype=np.int64)
    number[members] = np.arange(len(members))
    wanted = pairs & (number[transfers.pair_src] >= 0)
    rows = np.flatnonzero(transfers.rows_of(wanted) & (transfers.bytes >= MESSAGE_FLOOR_BYTES))
    step = clock.step_at(transfers.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    start = (transfers.start_ns[rows] - clock.boundary_ns[step]).astype(np.float64)
    weight = transfers.bytes[rows].astype(np.float64)
    cell = number[transfers.pair_src[transfers.pair_of_row[rows]]] * steps + step
    size = len(members) * steps
    total, moment = np.bincount(cell, weight, minlength=size), np.bincount(cell, weight * start, minlength=size)
    edge = np.full(size, -np.inf if last else np.inf)
    if last:
        np.maximum.at(edge, cell, (transfers.end_ns[rows] - clock.boundary_ns[step]).astype(np.float64))
    else:
        np.minimum.at(edge, cell, start)
    mean = np.where(total > 0, moment / np.maximum(total, 1.0), np.nan)
    known = np.where(np.isfinite(edge), edge, np.nan)
    row = {member: i for i, member in enumerate(members)}
    return _Moments(row, mean.reshape(-1, steps), known.reshape(-1, steps))


def _relative(
    moments: _Moments,
    pairs: list[tuple[int, int]],
    reference: list[tuple[int, int]],
    *,
    quantile: float,
    floor: float | None,
) -> dict[tuple[int, int], float]:
    """Logarithm of how much the times of the pairs vary against each other, relative to a quantile of the reference
    pairs; to the largest of the pairs themselves, and this floor, where there is a floor instead."""
    result = np.zeros(len(pairs))
    for times in (moments.mean, moments.edge):
        apart = _variation(times, moments.row, pairs)
        known = _variation(times, moments.row, reference)
        known = known[np.isfinite(known)]
        if known.size:
            usual = float(np.quantile(known, quantile))
        elif floor is not None and np.isfinite(apart).any():
            usual = max(float(np.nanmax(apart)), floor)
        else:
            usual = float("nan")
        result += np.log(np.maximum(apart, FINEST_NS) / max(usual, FINEST_NS))
    return dict(zip(pairs, result.tolist(), strict=True))


def _variation(times: Float64, row: dict[int, int], pairs: list[tuple[int, int]]) -> Float64:
    """Median deviation of the difference of two members' times from its median, for each pair; NaN if unknown."""
    if not pairs:
        return np.zeros(0)
    one, other = (np.array([row[pair[end]] for pair in pairs], dtype=np.int64) for end in (0, 1))
    apart = times[one] - times[other]
    known = np.isfinite(apart).sum(axis=1) >= MIN_STEPS
    result = np.full(len(pairs), np.nan)
    if known.any():
        part = apart[known]
        result[known] = np.nanmedian(np.abs(part - np.nanmedian(part, axis=1)[:, None]), axis=1)
    return result


def _likelihood(signs: _Signs, cells: list[tuple[int, ...]], width: int) -> float:
    """Log likelihood of the signs if so many neighbours are peers."""
    one_group, peers, neither = [], [], []
    for cell in cells:
        for i, j in combinations(range(len(cell)), 2):
            pair = (cell[i], cell[j])
            if i // width == j // width:
                peers.append(pair)
            elif i % width == j % width:
                one_group.append(pair)
            else:
                neither.append(pair)
    same, others = _known(signs.ends, one_group), _known(signs.ends, peers + neither)
    apart = max(APART, float(np.median(others)) if others.size else APART)
    tight, loose = _known(signs.sends, peers), _known(signs.sends, one_group + neither)
    close = min(TOGETHER, float(np.median(tight)) if tight.size else TOGETHER)
    usual = min(max(float(np.median(loose)), close - TOGETHER, -FARTHEST), 0.0) if loose.size else 0.0
    return (
        _heavy_tailed(same)
        + _heavy_tailed(np.minimum(others - apart, 0.0) / APART_SPREAD)
        + _heavy_tailed((tight - close) / TOGETHER_SPREAD)
        + _heavy_tailed((loose - usual) / LOOSE_SPREAD)
        + LEVEL * usual
    )


def _heavy_tailed(deviation: Float64) -> float:
    """Log likelihood of deviations in units of their spread, up to a constant; outliers cost their logarithm."""
    return float(-1.5 * np.log1p(0.5 * np.clip(deviation, -FARTHEST, FARTHEST) ** 2).sum())


def _known(signs: dict[tuple[int, int], float], pairs: list[tuple[int, int]]) -> Float64:
    values = np.array([signs[pair] for pair in pairs], dtype=np.float64)
    return values[np.isfinite(values)]
