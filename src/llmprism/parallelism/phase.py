"""Where in the cycle a step ends.

The clock that a job was recognised by may tick at any fixed point of the step: the gradients of the last stage end
long before those of the first. In a job with pipelines the boundary is where nothing is *outstanding*: every activation
that went forward has been answered by a gradient. The last gradient synchronisation that began before the pipelines
woke up again marks the end of the step. Without pipelines the silence of the whole group does.

A sharded optimizer may gather the parameters under the next forward pass. Later stages then gather after the pipelines
woke up, one after the other, and nothing more until the last backward pass. The first stage, which wakes them, gathers
as much of its bytes before: the step ends with the reduction, in the longest silence before so many bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int8, Int64
from llmprism.kernel import kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.one_phase import Ticks, in_one_phase
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.by_moment import NEVER, first_from, latest_before, sums_until
from llmprism.stats.byte_steps import Chain, chain_at
from llmprism.stats.covered_time import silences_of_pairs
from llmprism.stats.robust import half_of_sum
from llmprism.stats.silences import Silences

__all__ = [
    "Outstanding",
    "gradient_clock",
    "longest_silence",
    "message_silences",
    "outstanding",
    "pipeline_clock",
    "replicas_rest_clock",
    "rests_after",
    "sent_by",
    "shifted_clock",
    "usable_clock",
]


def pipeline_clock(transfers: TransferTable, sign: Int8, gradient: Bool, step_bytes: float,
                   clock: StepClock, rules: LayoutRules = RULES) -> StepClock | None:  # fmt: skip
    """Boundaries of a job with pipelines; None when the pipelines' silences do not tell as many steps as `clock`.

    `sign` is +1 for pairs that carry activations, -1 for those that carry gradients, 0 for all others.
    """
    silences = message_silences(transfers, sign != 0)
    if silences.count < 3 or step_bytes <= 0:
        return None
    chain = _resting_chain(silences, outstanding(transfers, sign, silences.begin_ns, clock.period_ns), transfers, sign,
                           step_bytes, clock, rules)  # fmt: skip
    ticks = None if chain is None else in_one_phase(Ticks(chain.boundaries, chain.regular), silences, clock, rules)
    if chain is None or ticks is None:
        return None
    ticks = _with_earlier(ticks, chain, silences, rules)
    asleep = silences.begin_ns[ticks.silence]
    awake = asleep + silences.length_ns[ticks.silence]
    end = np.maximum(asleep, _last_end_before(transfers, gradient, awake))
    gathered = _gathered_later(transfers, gradient, asleep, awake, rules)
    if gathered > 0.0:
        everybody, within = message_silences(transfers, gradient | (sign != 0)), rules.ends.gathered_within * gathered
        for k, rest in enumerate(zip(asleep.tolist(), awake.tolist(), strict=True)):
            begin = longest_silence(everybody, *rest, (gathered - within, gathered + within))
            end[k] = end[k] if begin is None else begin
    end = _with_stragglers(transfers, gradient, end, rules)
    regular = ticks.regular
    if abs(silences.bytes_before[ticks.silence[0]] / chain.bytes_per_step - 1.0) <= rules.clock.step_tolerance:
        lead = int(np.median(awake[:-1] - end[:-1])) if end.size > 1 else 0
        first = int(transfers.start_ns[transfers.rows_of(sign != 0)].min()) - lead
        end, regular = np.concatenate([[first], end]), np.concatenate([[True], regular])
    return StepClock(end, regular, chain.dominance)


def _with_earlier(ticks: Ticks, chain: Chain, silences: Silences, rules: LayoutRules) -> Ticks:
    """The ticks, and before the first of them, if it is one of the chain's, those from which whole steps lead to it: at
    its own phase the clock knows of none before its own first tick."""
    apart = silences.bytes_before[chain.boundaries] - silences.bytes_before[ticks.silence[0]]
    same = int(np.argmin(np.abs(apart)))
    if abs(apart[same]) > rules.clock.step_tolerance * chain.bytes_per_step:
        return ticks
    broken = np.flatnonzero(~chain.regular[:same])
    earlier = chain.boundaries[int(broken[-1]) + 1 if broken.size else 0 : same]
    return Ticks(
        np.concatenate([earlier, ticks.silence]), np.concatenate([np.ones(earlier.size, np.bool_), ticks.regular])
    )


def _gathered_later(transfers: TransferTable, gradient: Bool, asleep: Int64, awake: Int64, rules: LayoutRules) -> float:
    """Bytes of a step that are gathered before the pipelines wake up where later stages gather after that; else 0."""
    pairs = np.flatnonzero(gradient)
    if asleep.size < 3 or not pairs.size:
        return 0.0
    length = asleep[1:] - awake[:-1]
    places = np.stack([awake[:-1] + length * eighths // 8 for eighths in range(6)], axis=1)  # ascending, step by step
    moments = np.append(places, awake[-1])
    sent = sent_by(transfers.pair_offsets, transfers.end_ns, transfers.bytes, pairs, moments)
    within = sent[:, :-1].reshape(pairs.size, -1, 6)
    parts = np.median(np.diff(within, axis=2), axis=1).T
    whole = np.median(np.diff(sent[:, ::6], axis=1), axis=1)
    until, then = np.cumsum(parts, axis=0)[:-1], parts[1:]
    done = (until >= rules.ends.gathered_at_least * whole) & (then <= rules.ends.gathered_once * until)
    later, first = done.any(axis=0), np.max(np.where(done, until, 0.0), axis=0)
    waits = parts.sum(axis=0)[~later] <= rules.ends.first_waits * whole[~later]
    if whole[later].sum() < rules.ends.gathering_stages * whole.sum() or later.all() or not waits.all():
        return 0.0
    return float(first[later].sum() / whole[later].sum() * whole[~later].sum())


def longest_silence(silences: Silences, asleep: int, awake: int, left: tuple[float, float] | None = None) -> int | None:
    """Begin of the longest silence while the pipelines rest; with `left`, of those after which so many bytes (at least,
    at most) are still to come before the rest ends. None where there is none."""
    first, last = np.searchsorted(silences.begin_ns, [asleep, awake]).tolist()
    if last <= first:
        return None
    length = silences.length_ns[first:last]
    if left is not None:
        coming = silences.bytes_before[min(last, silences.count - 1)] - silences.bytes_before[first:last]
        fits = (coming >= left[0]) & (coming <= left[1])
        if not fits.any():
            return None
        length = np.where(fits, length, -1)
    return int(silences.begin_ns[first + int(np.argmax(length))])


def replicas_rest_clock(
    transfers: TransferTable, replicas: Bool, everyone: Bool, clock: StepClock, rules: LayoutRules = RULES
) -> StepClock | None:
    """The clock of shards that have replicas: those are compared at the end of the last pass only, so a step ends when
    their longest rest begins and what had begun by then is sent. None where no rest stands out in most steps."""
    rests = message_silences(transfers, replicas)
    period = int(clock.period_ns)
    edge = np.concatenate([[clock.boundary_ns[0] - period], clock.boundary_ns, [clock.boundary_ns[-1] + period]])
    first, last = np.searchsorted(rests.begin_ns, edge[:-1]), np.searchsorted(rests.begin_ns, edge[1:])
    kept = np.flatnonzero(last > first)
    by_length = [a + np.argsort(rests.length_ns[a:b]) for a, b in zip(first[kept], last[kept], strict=True)]
    longest = np.array([order[-1] for order in by_length], dtype=np.int64)
    second = np.array([rests.length_ns[order[-2]] if order.size > 1 else 0 for order in by_length])
    stands_out = rests.length_ns[longest] >= rules.ends.rest_stands_out * second
    if not stands_out.size or stands_out.mean() < rules.sharding.kept_steps:
        return None
    begin = rests.begin_ns[longest]
    boundary = np.maximum(begin, _last_end_before(transfers, everyone, begin))
    regular = np.concatenate([clock.regular[:1], clock.regular, clock.regular[-1:]])
    return StepClock(boundary, (np.diff(kept) == 1) & regular[kept[:-1]], clock.dominance)


def _resting_chain(silences: Silences, waiting: Outstanding, transfers: TransferTable, sign: Int8, step_bytes: float,
                   clock: StepClock, rules: LayoutRules) -> Chain | None:  # fmt: skip
    """The steps, by silences in which less than half a message is outstanding; where a collector loses messages, and
    the count never comes back to nothing, in which little is; None where neither gives the steps of the clock."""
    few = 0.5 * _usual_message(transfers, sign != 0)
    best: Chain | None = None
    for settled in (waiting.bytes <= few, waiting.share <= rules.ends.settled):
        resting = Silences(silences.begin_ns, np.where(settled, silences.length_ns, 0), silences.bytes_before)
        chain = chain_at(resting, step_bytes, rules.clock.step_tolerance)
        if _agrees(chain, clock, rules) and (best is None or chain.steps > best.steps):
            best = chain
    return best


def _usual_message(transfers: TransferTable, pairs: Bool) -> float:
    """Size of the messages that most bytes of these pairs are sent in."""
    return half_of_sum(transfers.bytes[transfers.messages_of(pairs)])


@dataclass(frozen=True, slots=True)
class Outstanding:
    """Activations not yet answered: bytes above the least within a step, and as a share of the most."""

    bytes: Float64
    share: Float64


def outstanding(transfers: TransferTable, sign: Int8, when_ns: Int64, period_ns: float) -> Outstanding:
    """Activations not yet answered at these times (ascending)."""
    level = sums_until(transfers.pair_offsets, transfers.end_ns, transfers.bytes, sign, when_ns).astype(np.float64)
    lowest, highest = _sliding_extremes(when_ns, level, period_ns)
    return Outstanding(level - lowest, (level - lowest) / np.maximum(highest - lowest, 1.0))


@kernel
def _sliding_extremes(when: Int64, level: Float64, reach: float) -> tuple[Float64, Float64]:
    """Lowest and highest level within `reach` of each time, by queues of the levels that may still be one."""
    n = level.size
    lowest, highest = np.empty(n), np.empty(n)
    low_queue, high_queue = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    low_first, low_end, high_first, high_end, last = 0, 0, 0, 0, 0
    for i in range(n):
        while last < n and when[last] - when[i] <= reach:
            while low_end > low_first and level[low_queue[low_end - 1]] >= level[last]:
                low_end -= 1
            low_queue[low_end] = last
            low_end += 1
            while high_end > high_first and level[high_queue[high_end - 1]] <= level[last]:
                high_end -= 1
            high_queue[high_end] = last
            high_end += 1
            last += 1
        while when[i] - when[low_queue[low_first]] > reach:
            low_first += 1
        while when[i] - when[high_queue[high_first]] > reach:
            high_first += 1
        lowest[i], highest[i] = level[low_queue[low_first]], level[high_queue[high_first]]
    return lowest, highest


def gradient_clock(
    transfers: TransferTable, group: Bool, step_bytes: float, clock: StepClock, rules: LayoutRules = RULES
) -> StepClock | None:
    """Boundaries of a job without pipelines, from the silences of all of its groups together."""
    silences = message_silences(transfers, group)
    if silences.count < 3 or step_bytes <= 0:
        return None
    chain = chain_at(silences, step_bytes, rules.clock.step_tolerance)
    if not _agrees(chain, clock, rules):
        return None
    ticks = in_one_phase(Ticks(chain.boundaries, chain.regular), silences, clock, rules)
    if ticks is None:
        return None
    end = _with_stragglers(transfers, group, silences.begin_ns[ticks.silence], rules)
    return StepClock(end, ticks.regular, chain.dominance)


@kernel
def sent_by(offsets: Int64, end: Int64, size: Int64, pairs: Int64, boundary: Int64) -> Float64:
    """Bytes that each pair had sent by each boundary."""
    sent = np.zeros((pairs.size, boundary.size))
    for index in range(pairs.size):
        row, total = offsets[pairs[index]], 0.0
        for k in range(boundary.size):
            while row < offsets[pairs[index] + 1] and end[row] <= boundary[k]:
                total += size[row]
                row += 1
            sent[index, k] = total
    return sent


def _with_stragglers(transfers: TransferTable, gradient: Bool, boundary_ns: Int64, rules: LayoutRules) -> Int64:
    """The boundaries, moved to when the slowest pair had finished the step while others had gone on to the next.

    A pair's bytes at the boundaries form a straight line when its steps are exact; a pair that is below its line at a
    boundary is still sending for that step. Pairs whose steps are not exact are left out. What is sent again lifts the
    line for all that follows: a pair that never was on it before is not below it.
    """
    late = boundary_ns.astype(np.int64).copy()
    sums = transfers.pair_bytes
    pairs = np.flatnonzero(gradient & (sums >= MESSAGE_FLOOR_BYTES * boundary_ns.size))
    if boundary_ns.size < 4 or not pairs.size:
        return late
    level = sent_by(transfers.pair_offsets, transfers.end_ns, transfers.bytes, pairs, late)
    step = np.median(np.diff(level, axis=1), axis=1)
    exact = np.median(np.abs(np.diff(level, axis=1) - step[:, None]), axis=1) <= rules.clock.exact_bytes * step
    line = step[:, None] * np.arange(boundary_ns.size)
    due = np.minimum(np.median(level - line, axis=1)[:, None], np.maximum.accumulate(level - line, axis=1)) + line
    behind = (level < due - rules.ends.surely_behind * rules.clock.exact_bytes * step[:, None]) & (exact & (step > 0))[
        :, None
    ]
    following = np.append(np.diff(late), 0)
    farthest = max(rules.ends.whole_behind, rules.ends.far_behind, rules.ends.straggle) * following
    missing = (due - level) / np.maximum(step, 1.0)[:, None]
    last, rows, sent = -1, slice(0), np.zeros(0)
    for index, k in zip(*(place.tolist() for place in np.nonzero(behind[:, 1:-1])), strict=True):
        if index != last:
            last, pair = index, pairs[index]
            rows = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
            sent = np.cumsum(transfers.bytes[rows]).astype(np.float64)
        arrived = int(np.searchsorted(sent, due[index, k + 1] - rules.clock.exact_bytes * step[index]))
        ended = int(transfers.end_ns[rows][arrived]) if arrived < sent.size else 0
        if ended > late[k + 1] and ended - boundary_ns[k + 1] < farthest[k + 1]:
            start, end = transfers.start_ns[rows][: arrived + 1], transfers.end_ns[rows][: arrived + 1]
            share = _reach(float(missing[index, k + 1]), int(boundary_ns[k + 1]), start, end, rules)
            if ended - boundary_ns[k + 1] < share * following[k + 1]:
                late[k + 1] = ended
    return late


def _reach(missing: float, boundary_ns: int, start: Int64, end: Int64, rules: LayoutRules) -> float:
    """Share of the next step into which a pair may run that has such a share of its bytes to send at the boundary, and
    has sent them after messages of these times. One that goes on sending is slow; where it rests first, records of it
    are missing, and what follows is the next step's."""
    rule = rules.ends
    if missing >= rule.mostly_behind:
        first = int(np.searchsorted(end, boundary_ns, side="right"))
        until = np.append(boundary_ns, end[first:-1])
        rest = int((start[first:] - until).max(initial=0))
        return rule.whole_behind if rest <= rule.goes_on * (end[-1] - boundary_ns) else rule.far_behind
    return rule.far_behind if missing >= rule.left_behind else rule.straggle


def shifted_clock(transfers: TransferTable, sharded: Bool, gradient: Bool, clock: StepClock, shift: float,
                  collectives: int, rules: LayoutRules = RULES, *, every_step: bool = False) -> StepClock:  # fmt: skip
    """The clock moved on by a share of the bytes that the sharded pairs send in a step, to the longest silence next to
    that place, or to the end of the last gradient message that began before the silence ended. Steps without such a
    silence are left out, or with `every_step` end at the silence that is nearest by bytes. Without any the clock
    stays as it is."""
    silences = message_silences(transfers, sharded)
    if not silences.count:
        return clock
    position = silences.bytes_before.astype(np.float64)
    at = position[np.maximum(np.searchsorted(silences.begin_ns, clock.boundary_ns, side="right") - 1, 0)]
    step = np.diff(at, append=at[-1] + np.median(np.diff(at)))
    chosen = np.full(at.size, -1, dtype=np.int64)
    for k in range(at.size):
        centre, reach = at[k] + shift * step[k], rules.sharding.next_to_it * step[k] / collectives
        first, last = np.searchsorted(position, [centre - reach, centre + reach])
        if last > first:
            chosen[k] = first + int(np.argmax(silences.length_ns[first:last]))
    if every_step:
        chosen = _nearest_where_none(chosen, position, at + shift * step, rules.sharding.next_to_it * step)
    kept = np.flatnonzero(chosen >= 0)
    begin = silences.begin_ns[chosen[kept]]
    boundary = np.maximum(begin, _last_end_before(transfers, gradient, begin + silences.length_ns[chosen[kept]]))
    joined = np.diff(kept) == 1
    regular = joined & clock.regular[np.minimum(kept[:-1], clock.regular.size - 1)]
    return StepClock(boundary, regular, clock.dominance)


def _nearest_where_none(chosen: Int64, position: Float64, centre: Float64, reach: Float64) -> Int64:
    """The chosen silences, and where there is none next to its place, the one that is nearest by bytes within reach:
    what others send at the same time may fill the pause that ends a step."""
    after = np.searchsorted(position, centre).clip(0, position.size - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(centre - position[before] < position[after] - centre, before, after)
    near = np.abs(position[nearest] - centre) <= reach
    return np.where((chosen < 0) & near, nearest, chosen).astype(np.int64)


def _agrees(chain: Chain, clock: StepClock, rules: LayoutRules) -> bool:
    return abs(chain.steps - clock.steps) <= 1 + rules.ends.same_steps * clock.steps


def message_silences(transfers: TransferTable, pairs: Bool) -> Silences:
    """When none of these pairs sends a message."""
    return silences_of_pairs(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns, transfers.bytes, pairs, MESSAGE_FLOOR_BYTES
    )


def _last_end_before(transfers: TransferTable, pairs: Bool, limit_ns: Int64) -> Int64:
    """For each limit the latest end of a message of these pairs that began before it, or -1."""
    return latest_before(
        transfers.pair_offsets,
        transfers.start_ns,
        transfers.end_ns,
        transfers.bytes,
        MESSAGE_FLOOR_BYTES,
        pairs,
        limit_ns,
    )


def rests_after(transfers: TransferTable, pairs: Bool, boundary_ns: Int64) -> Int64:
    """How long these pairs send no message after each boundary; -1 where none follows."""
    following = first_from(
        transfers.pair_offsets, transfers.start_ns, transfers.bytes, MESSAGE_FLOOR_BYTES, pairs, boundary_ns
    )
    return np.where(following < NEVER, following - boundary_ns, -1)


def usable_clock(moved: StepClock | None, before: StepClock) -> StepClock:
    """A moved clock without a single step (a window shorter than a step) is of no use."""
    return moved if moved is not None and moved.boundary_ns.size > 1 else before
