"""How far apart GPUs of one server hand on their messages, one message at a time.

Tensor-parallel peers compute every layer together, so whenever one of them hands on an activation (or its gradient) the
other does, too. Replicas run their pipelines on their own between two synchronisations: what one of them sends is as
far from the nearest message of the other as it is from that of a GPU of the same stage on another server, which is no
peer. Each message is compared with the nearest one of the other GPU in the same direction. That needs no clock, no
count of messages and no step that begins for all of them in the same silence: a mean over the step mixes passes that
peers take together with those in which a queue of the network keeps them apart, and moves by a whole message where one
of them falls on the other side of the tick.

Queues disturb one direction more than the other (all activations of a step may be sent at once, while gradients come
one by one), and only ever keep apart what was together. So the nearer of the two directions is the sign of a pair.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from llmprism.arrays import Float64, Int64, evenly_spread, median
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.parallelism.rules import RULES, LayoutRules

Pair = tuple[int, int]
_Place = tuple[int, int]
"""A stage, and 1 for what it sends to the next one, -1 for what it sends back."""

__all__ = ["from_nearest", "relative", "sends_apart"]


def sends_apart(
    job: Job, pairs: list[Pair], pipelines: tuple[tuple[int, ...], ...], rules: LayoutRules = RULES,
    rounding_ns: float = 0.0,
) -> tuple[Float64, float]:  # fmt: skip
    """For each two members of a stage on one server: logarithm of how far apart they send, relative to members of that
    stage on different servers; NaN where too few messages or no other server tell. And what stamps that are rounded so
    make of members that send together, the same way: clocks whose ticks are apart by a part of a unit put anything from
    none to half of two GPUs' messages into different units."""
    sent = _StageSends(job.transfers, _stages(pipelines), rules)
    usual: dict[_Place, float] = {}
    result = np.full(len(pairs), np.nan)
    for number, pair in enumerate(pairs):
        signs = []
        for place in sent.places(*pair):
            if place not in usual:
                usual[place] = _usual(job, sent, place, rules)
            signs.append(float(relative(sent.apart(*pair, place[1]), usual[place], rules, rounding_ns)))
        known = [sign for sign in signs if np.isfinite(sign)]
        result[number] = min(known, default=np.nan)
    rounded = [float(relative(rounding_ns, far, rules)) for far in usual.values() if np.isfinite(far)]
    return result, float(median(np.array(rounded))) if rounded else float("nan")


def _stages(pipelines: tuple[tuple[int, ...], ...]) -> dict[int, tuple[int, tuple[int, ...]]]:
    """The stage and the pipeline of each member."""
    return {member: (stage, pipeline) for pipeline in pipelines for stage, member in enumerate(pipeline)}


class _StageSends:
    """When members of pipelines send to the next stage and to the one before; each is compared with many others."""

    def __init__(self, transfers: TransferTable, stage: dict[int, tuple[int, tuple[int, ...]]], rules: LayoutRules):
        self.stage, self.rules, self._transfers = stage, rules, transfers
        self._starts: dict[tuple[int, int], tuple[Int64, Int64]] = {}

    def places(self, one: int, other: int) -> list[_Place]:
        """Where both of two members of one stage send to."""
        if one not in self.stage or other not in self.stage:
            return []
        (stage, pipeline), (same, other_pipeline) = self.stage[one], self.stage[other]
        last = min(len(pipeline), len(other_pipeline)) - 1
        return [(stage, way) for way in (1, -1) if stage == same and 0 <= stage + way <= last]

    def starts(self, member: int, way: int) -> tuple[Int64, Int64]:
        """Starts of its messages, in order: some of them, spread over all, and all."""
        if (member, way) not in self._starts:
            stage, pipeline = self.stage[member]
            all_ = self._between(member, pipeline[stage + way])
            some = all_[evenly_spread(all_.size, self.rules.peers.compared_messages)] if all_.size else all_
            self._starts[member, way] = some, all_
        return self._starts[member, way]

    def _between(self, sender: int, receiver: int) -> Int64:
        transfers = self._transfers
        pair = int(transfers.pairs_between(np.array([sender]), np.array([receiver]))[0])
        if pair < 0:
            return np.zeros(0, dtype=np.int64)
        rows = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
        return np.sort(transfers.start_ns[rows][transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES])

    def apart(self, one: int, other: int, way: int) -> float:
        """Mean deviation, the farthest left out, of the time from a message of one to the nearest of the other: clocks
        of servers may be apart."""
        (some, _), (_, all_) = self.starts(one, way), self.starts(other, way)
        if min(some.size, all_.size) < self.rules.peers.least_messages:
            return float("nan")
        nearest = from_nearest(some, all_)
        away = np.sort(np.abs(nearest - median(nearest)))
        near = math.ceil(self.rules.peers.compared_share * away.size)
        return float(np.add.reduce(away[:near]) / near)


def from_nearest(times: Int64, others: Int64) -> Int64:
    """The time from each to the nearest of the others, which are two at least and in order."""
    after = np.minimum(np.maximum(np.searchsorted(others, times), 1), others.size - 1)
    late, early = others[after] - times, others[after - 1] - times
    return np.where(np.abs(early) < np.abs(late), early, late)


def _usual(job: Job, sent: _StageSends, place: _Place, rules: LayoutRules) -> float:
    """How far apart members of one stage on different servers send one way; NaN where there is one server only."""
    stage, way = place
    server = dict(zip(job.members, job.places, strict=False))
    first: dict[str, int] = {}
    for member, (own, _) in sorted(sent.stage.items()):
        if own == stage and server.get(member):
            first.setdefault(server[member], member)
    members = list(first.values())
    chosen = [members[i] for i in evenly_spread(len(members), rules.peers.usual_servers)] if members else []
    apart = [sent.apart(one, other, way) for one, other in combinations(chosen, 2) if place in sent.places(one, other)]
    known = [value for value in apart if np.isfinite(value)]
    return float(median(known)) if known else float("nan")


def relative(
    apart: ArrayLike, usual: float, rules: LayoutRules = RULES, rounding_ns: float = 0.0
) -> Float64:  # fmt: skip
    """Logarithm of how far apart two are, against what is usual; NaN where either is not known, or rounded stamps hide
    both."""
    finest = rules.peers.finest_ns
    ratio = np.asarray(np.log(np.maximum(apart, finest) / np.maximum(usual, finest)))
    hidden = (rounding_ns > finest) & (np.maximum(apart, usual) < rounding_ns)
    return np.where(hidden, np.nan, ratio)
