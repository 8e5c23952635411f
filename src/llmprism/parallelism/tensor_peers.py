"""Which GPUs of a server are tensor-parallel peers, which are replicas.

Neither talks to the other over the network: peers share NVLink, replicas on one server do too. But peers compute each
layer together and hand on their activations at the same times, step after step, while replicas run their pipelines
independently between two synchronisations. Where the members of one stage on one server fall into tight sets of equal
size that are loose among each other, a set is a tensor-parallel group, and corresponding members of the sets belong to
one data-parallel group. Where none is tight but all keep step closely, each is a replica of its own. Where all are
tight, or they do not keep step, nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.model.flows import Int64, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.features import PairFeatures
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.robust import known_median

Float64 = NDArray[np.float64]

__all__ = ["join_replicas"]

TIGHT: Final = 0.1
"""Distance in time of tensor peers, relative to that of replicas: peers differ by microseconds, replicas by jitter."""

TIGHT_FLOOR: Final = 3e-4
"""Share of a step below which two members are together: how a collector cuts messages moves their mean as much."""

REPLICA_JITTER: Final = 0.03
"""Distance in time of replicas at most, as a share of the step: they start it together and do equal work."""

EXACT: Final = 0.005
"""Spread of the bytes per step below which the collector sees whole messages, and their times."""

COARSE_NS: Final = 50_000
"""Time stamps in units from 50 us on are too coarse to tell peers from replicas."""

MAX_STAMPS: Final = 1_000
"""Time stamps looked at to find their unit."""

MIN_STEPS: Final = 5
"""Steps before timing can tell."""


def join_replicas(
    job: Job,
    groups: tuple[Group, ...],
    pipelines: tuple[tuple[int, ...], ...],
    pair_kind: NDArray[np.int8],
    features: PairFeatures,
    clock: StepClock,
) -> tuple[Group, ...]:
    """The groups, those of replicas that share servers joined into one."""
    if not pipelines or not groups or clock.steps < MIN_STEPS or not any(job.places):
        return groups
    group_of = {member: index for index, group in enumerate(groups) for member in group.members}
    stage_of = {member: stage for pipeline in pipelines for stage, member in enumerate(pipeline)}
    cells: dict[tuple[str, int], list[int]] = {}
    for member, place in zip(job.members, job.places, strict=True):
        if place and member in stage_of and member in group_of:
            cells.setdefault((place, stage_of[member]), []).append(member)
    left, right = [], []
    pipelined = job.transfers.select_pairs(np.flatnonzero(pair_kind == PairKind.PP).astype(np.int32))
    fine = int(np.gcd.reduce(pipelined.start_ns[:MAX_STAMPS] - pipelined.start_ns[0])) < COARSE_NS
    exact = fine and float(np.median(features.step_spread[pair_kind == PairKind.PP])) <= EXACT
    centres = _centres(pipelined, clock)
    for members in cells.values():
        for peers in _corresponding(centres, members, clock, singles=exact):
            left += [group_of[peer] for peer in peers[:-1]]
            right += [group_of[peer] for peer in peers[1:]]
    labels = component_labels(len(groups), left, right)
    joined = [[groups[i] for i in np.flatnonzero(labels == label)] for label in range(int(labels.max()) + 1)]
    return tuple(parts[0] if len(parts) == 1 else _joined(parts) for parts in joined)


def _joined(parts: list[Group]) -> Group:
    return Group(PairKind.DP, tuple(sorted(member for part in parts for member in part.members)), ring=False)


def _corresponding(centres: _Centres, members: list[int], clock: StepClock, *, singles: bool) -> list[list[int]]:
    """Members at the same place of each tight set; empty when there are not several sets of one size.

    Sets of one member count only with `singles`: a collector that blurs times makes peers look apart.
    """
    if len(members) < 4:
        return []
    distance = _distances(centres, members)
    upper = distance[np.triu_indices(len(members), 1)]
    loose = float(np.nanmax(upper))
    close = distance <= max(TIGHT * loose, TIGHT_FLOOR * clock.period_ns)
    i, j = np.nonzero(np.triu(close, 1))
    labels = component_labels(len(members), i, j)
    sets = [[members[k] for k in np.flatnonzero(labels == label)] for label in range(int(labels.max()) + 1)]
    sizes = {len(tight) for tight in sets}
    if len(sets) < 2 or len(sizes) != 1:
        return []
    if sizes == {1} and not (singles and loose <= REPLICA_JITTER * clock.period_ns):
        return []
    return [list(peers) for peers in zip(*(sorted(tight) for tight in sets), strict=True)]


def _distances(centres: _Centres, members: list[int]) -> Float64:
    """Median variation of the difference of the mean time of a step's pipeline messages between each two members."""
    centre = centres.time[np.searchsorted(centres.member, members)]
    one, other = np.triu_indices(len(members), 1)
    apart = centre[one] - centre[other]
    apart -= known_median(apart, axis=1)[:, None]  # clocks of two switches may differ
    distance = np.zeros((len(members), len(members)))
    distance[one, other] = distance[other, one] = known_median(np.abs(apart), axis=1)
    return distance


@dataclass(frozen=True, slots=True)
class _Centres:
    """Of each member (ascending) that sends, and each step: mean start of its messages after the step's, weighted by
    bytes; NaN where it sent none."""

    member: Int64
    time: Float64


def _centres(transfers: TransferTable, clock: StepClock) -> _Centres:
    steps = clock.boundary_ns.size - 1
    member, sender = np.unique(np.concatenate([transfers.pair_src, transfers.pair_dst]), return_inverse=True)
    step = clock.step_at(transfers.start_ns)
    rows = np.flatnonzero(step >= 0)
    step = step[rows]
    place = sender[transfers.pair_of_row[rows]] * steps + step
    after = (transfers.start_ns[rows] - clock.boundary_ns[step]).astype(np.float64)
    weight = transfers.bytes[rows].astype(np.float64)
    total = np.bincount(place, weight, minlength=member.size * steps)
    moment = np.bincount(place, weight * after, minlength=member.size * steps)
    time = np.where(total > 0, moment / np.maximum(total, 1.0), np.nan)
    return _Centres(member.astype(np.int64), time.reshape(member.size, steps))
