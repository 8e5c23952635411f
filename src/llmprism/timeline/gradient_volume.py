"""How many bytes of gradients each group synchronises in a step.

A ring over n members makes each of them send 2 (n - 1) / n times the buffer that is reduced, whatever the library does
with directions, channels and buckets; a tree makes all of them together send 2 (n - 1) buffers. Half of that is the
reduction and half the gathering, so that an exchange that only reduces or only gathers counts half. All is expressed as
the buffer of an all-reduce with the same traffic: the volume.

What passes inside a server (NVLink) may not show. Then the pairs that show do not connect the members of a group, and
the members of a server count as one sender: what leaves a server in a ring is what leaves a member of it. Bytes per
step repeat to a tenth of a percent; the median over the steps is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64, Int32, Int64, median
from llmprism.model.flows import MESSAGE_FLOOR_BYTES
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout
from llmprism.stats.disjoint_sets import component_labels
from llmprism.timeline.gradient_traffic import GradientTraffic
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["GroupVolume", "group_volumes", "stage_volumes"]


@dataclass(frozen=True, slots=True)
class GroupVolume:
    """`volume` is the all-reduce buffer, in bytes per step, that explains the traffic of the group, `sent` what one of
    the members then sends in a step. `spread` is the distance of the quartiles of the group's bytes per step over their
    median."""

    stage: int
    members: tuple[int, ...]
    volume: float
    spread: float = 0.0

    @property
    def sent(self) -> float:
        return 2.0 * (len(self.members) - 1) / len(self.members) * self.volume


def group_volumes(
    job: Job, layout: JobLayout, traffic: GradientTraffic, rules: TimelineRules = RULES
) -> list[GroupVolume]:
    """The volume of every group of the traffic that has one."""
    transfers = job.transfers
    pairs, place = np.unique(traffic.pair, return_inverse=True)
    column = np.searchsorted(traffic.steps, traffic.step)
    shape = (pairs.size, traffic.steps.size)
    sums = np.bincount(place * shape[1] + column, weights=transfers.bytes[traffic.rows], minlength=shape[0] * shape[1])
    per_step = sums.reshape(shape)
    per_pair = np.median(per_step, axis=1)
    group = np.zeros(pairs.size, dtype=np.int64)
    group[place] = traffic.group
    homes = dict(zip(job.members, job.places, strict=True)) if len(job.places) == len(job.members) else {}
    volumes = []
    for number, index in enumerate(traffic.groups):
        members = layout.groups[index].members
        own = (group == number) & (per_pair > 0.0)
        src, dst = (_numbers(members, ends[pairs[own]]) for ends in (transfers.pair_src, transfers.pair_dst))
        volume = _volume(src, dst, per_pair[own], [homes.get(member, "") for member in members], rules)
        if volume >= MESSAGE_FLOOR_BYTES:
            spread = _spread(per_step[group == number].sum(axis=0))
            volumes.append(GroupVolume(traffic.stage[number], members, volume, spread))
    return volumes


def _spread(values: Float64) -> float:
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float((high - low) / middle) if middle > 0.0 else np.inf


def _numbers(members: tuple[int, ...], addresses: Int32) -> Int64:
    """The place of each address among the members."""
    ids = np.array(members, dtype=np.int64)
    order = np.argsort(ids)
    return order[np.searchsorted(ids[order], addresses)]


def _volume(src: Int64, dst: Int64, sent: Float64, homes: list[str], rules: TimelineRules) -> float:
    """`src` and `dst` count the members of the group, `homes` names the server of each."""
    size = len(homes)
    if not sent.size:
        return 0.0
    sender = np.arange(size)
    if component_labels(size, src, dst).max() > 0 and all(homes) and 1 < len(set(homes)) < size:
        sender = np.unique(homes, return_inverse=True)[1]
    totals = np.bincount(sender[src], weights=sent, minlength=int(sender.max()) + 1)
    active = totals[totals > 0.0]
    if active.size == totals.size and active.max() > rules.even_senders * active.min():
        return float(totals.sum()) / (2.0 * (totals.size - 1))
    return float(median(active)) * size / (2.0 * (size - 1))


def stage_volumes(volumes: list[GroupVolume], *, largest_only: bool) -> dict[int, tuple[float, float]]:
    """Pipeline stage → (volume, bytes that a member sends in a step), both as the median over the members.

    A member of several groups synchronises other parameters in each of them, unless the groups shard and replicate the
    same ones (`largest_only`): then the largest volume is that of the shards.
    """
    of_member: dict[int, dict[int, list[tuple[float, float]]]] = {}
    for one in volumes:
        for member in one.members:
            of_member.setdefault(one.stage, {}).setdefault(member, []).append((one.volume, one.sent))
    result = {}
    for stage, members in of_member.items():
        whole = [
            max(parts) if largest_only else tuple(map(sum, zip(*parts, strict=True))) for parts in members.values()
        ]
        volume, sent = np.median(np.array(whole), axis=0)
        result[stage] = (float(volume), float(sent))
    return result
