"""Where a step of sharded stages ends.

The next step gathers before its first activation is sent, so a step does not end with the last collective. It ends
while the pipelines rest: the last gradient has arrived at the first stage, which computes its last backward pass,
scatters, updates its parameters, gathers them for the first forward pass, computes that, and wakes the others. Which of
these silences is the longest depends on how long a pass takes and an optimizer. Bytes tell them apart: as much as the
first stage gathers between its first two activations, for the second forward pass, it gathers before the first one. The
step ends in the silence before that. A stage that keeps its parameters gathers once in a step, as much as it scatters,
or half as much where gradients are of twice the width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.byte_time import bytes_at, time_at
from llmprism.parallelism.phase import longest_silence, message_silences
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.stage_links import Pipelines
from llmprism.stats.silences import Silences

__all__ = ["StageRests", "begins_of_gathers", "first_gather_clock", "longest_rest_clock", "rests_of_stages"]


@dataclass(frozen=True, slots=True)
class StageRests:
    """The rest of the pipelines that ends each step, from when the last of them fell `asleep` until the first `awake`;
    -1 where a tick has none."""

    asleep: Int64
    awake: Int64


def longest_rest_clock(
    transfers: TransferTable, pipelines: Bool, collectives: Bool, clock: StepClock, rules: LayoutRules = RULES
) -> StepClock:
    """The clock, its ticks at the longest silence of everybody while the pipelines rest."""
    rests, silences = (
        rests_of_stages(transfers, pipelines, clock, rules),
        message_silences(transfers, pipelines | collectives),
    )
    boundary = clock.boundary_ns.copy()
    for k, (asleep, awake) in enumerate(zip(rests.asleep.tolist(), rests.awake.tolist(), strict=True)):
        begin = longest_silence(silences, asleep, awake) if awake >= 0 else None
        boundary[k] = boundary[k] if begin is None else begin
    return StepClock(boundary, clock.regular, clock.dominance)


def first_gather_clock(
    transfers: TransferTable, pipes: Pipelines, collectives: Bool, micro_batches: int | None, clock: StepClock,
    rules: LayoutRules = RULES,
) -> StepClock:  # fmt: skip
    """The clock, its ticks where the first stage begins to gather for its first forward pass; as it is where that does
    not show."""
    first = np.isin(transfers.pair_src, [pipeline[0] for pipeline in pipes.members])
    links = np.isin(np.arange(transfers.pair_count), [pair for link in pipes.forward for pair in link])
    onward = first & np.isin(np.arange(transfers.pair_count), [there for there, _ in pipes.forward])
    shards, sent = message_silences(transfers, first & collectives), message_silences(transfers, onward)
    rests = rests_of_stages(transfers, links, clock, rules)
    known = np.flatnonzero(rests.awake >= 0)
    if micro_batches is None or micro_batches < 2 or not shards.count or not sent.count or known.size < 3:
        return clock
    asleep, awake = rests.asleep[known], rests.awake[known]
    boundary = clock.boundary_ns.copy()
    gathered = _gathered(shards, sent, asleep, awake, micro_batches, rules)
    boundary[known] = begins_of_gathers(shards, asleep, awake, gathered, rules) if gathered else boundary[known]
    if not gathered or (np.diff(boundary) <= 0).any():
        return clock
    moved = StepClock(boundary, clock.regular, clock.dominance)
    scattered = float(median(bytes_at(shards, boundary[known]) - bytes_at(shards, asleep)))
    return _without_unfinished(moved, shards, int(message_silences(transfers, links).begin_ns[-1]), scattered, rules)


def _without_unfinished(
    clock: StepClock, shards: Silences, asleep: int, scattered: float, rules: LayoutRules
) -> StepClock:
    """The clock without its last tick where the pipelines fell `asleep` for good before it and the first stage has not
    sent what it scatters after that: the step stopped in its last backward pass."""
    if clock.boundary_ns[-1] < asleep or clock.boundary_ns.size < 3:
        return clock
    sent = float(shards.bytes_before[-1] - bytes_at(shards, np.array([asleep]))[0])
    if sent >= (1.0 - rules.ends.first_gather_within) * scattered:
        return clock
    return StepClock(clock.boundary_ns[:-1], clock.regular[:-1], clock.dominance)


def rests_of_stages(transfers: TransferTable, pipelines: Bool, clock: StepClock, rules: LayoutRules) -> StageRests:
    """The rest of the pipelines in which each tick lies, unless others not long before it are far longer: two stages
    may rest as long between two passes. Else the longest of those."""
    rests = message_silences(transfers, pipelines)
    since = np.searchsorted(rests.begin_ns, clock.boundary_ns - int(rules.ends.look_back * clock.period_ns))
    until = np.searchsorted(rests.begin_ns, clock.boundary_ns, side="right")
    chosen = np.full(clock.boundary_ns.size, -1, dtype=np.int64)
    for k, (a, b) in enumerate(zip(since.tolist(), until.tolist(), strict=True)):
        if b > a:
            longest, last = a + int(np.argmax(rests.length_ns[a:b])), b - 1
            inside = clock.boundary_ns[k] <= rests.begin_ns[last] + rests.length_ns[last]
            alike = rests.length_ns[last] >= rules.ends.as_long_a_rest * rests.length_ns[longest]
            chosen[k] = last if inside and alike else longest
    return StageRests(
        np.where(chosen >= 0, rests.begin_ns[chosen], -1),
        np.where(chosen >= 0, (rests.begin_ns + rests.length_ns)[chosen], -1),
    )


def _gathered(
    shards: Silences, sent: Silences, asleep: Int64, awake: Int64, micro_batches: int, rules: LayoutRules
) -> tuple[float, ...]:
    """Bytes that the first stage may gather before its first activation: what it does before its second one; where
    that is nothing, a share of what it sends in the rest; none where it sends less in it than that and as much again,
    which it has to scatter."""
    rest = float(median(bytes_at(shards, awake) - bytes_at(shards, asleep)))
    before = bytes_at(sent, awake)
    activation = float(median(np.diff(before))) / micro_batches
    second = np.searchsorted(sent.bytes_before, before + rules.ends.most_of_one * activation)
    second = second[second < sent.count]
    until = sent.begin_ns[second] + sent.length_ns[second]
    between = float(median(bytes_at(shards, until) - bytes_at(shards, awake[: until.size]))) if until.size else 0.0
    if between > rules.ends.hardly_any * rest:
        return (between,) if 2.0 * between * (1.0 - rules.ends.first_gather_within) <= rest else ()
    return tuple(share * rest for share in rules.ends.gathered_of_rest)


def begins_of_gathers(
    shards: Silences, asleep: Int64, awake: Int64, gathered: tuple[float, ...], rules: LayoutRules
) -> Int64:
    """For each rest the begin of the longest silence of the first stage after which it gathers so much; where there is
    none, since gathers follow at once, when so much was left."""
    within, until = rules.ends.first_gather_within, bytes_at(shards, awake)
    best, most = time_at(shards, until - gathered[0]), 0
    for amount in gathered:
        found = [
            _longest_before(shards, rest, sent - amount, within * amount)
            for rest, sent in zip(zip(asleep.tolist(), awake.tolist(), strict=True), until.tolist(), strict=True)
        ]
        seen = np.array(found) >= 0
        if seen.sum() > most:
            best, most = np.where(seen, found, time_at(shards, until - amount)), int(seen.sum())
    return np.maximum(best, asleep)


def _longest_before(shards: Silences, rest: tuple[int, int], sent: float, reach: float) -> int:
    """Begin of the longest silence in a rest before which so much had been sent, within reach; -1 without."""
    first, last = np.searchsorted(shards.begin_ns, rest).tolist()
    near = first + np.flatnonzero(np.abs(shards.bytes_before[first:last] - sent) <= reach)
    return int(shards.begin_ns[near[int(np.argmax(shards.length_ns[near]))]]) if near.size else -1
