"""Collectives that share a link with the activations of a pipeline.

Tied embeddings are reduced between the first and the last stage at the end of every step. With two stages that is the
link of the activations too: a step of it is a number of equal messages, one per micro-batch, and one large message. In
byte-space, taken round from one step to the next, equal messages leave silences at equal distances. What is left of the
round is the large one, of any size, with or without pauses of its own: rows that must not be counted as activations.
Links that are too noisy to show it take the arcs of the others.

With two micro-batches, or where records are too ragged for that, the collective shows in time: it is the one burst of a
step in which both directions send the same, and far more than together at any other time. A collective is sent without
computing in between; many micro-batches that pass each other are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Bool, Float64, Int64, evenly_spread, median, medians, quantile
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules

_Arc = tuple[float, float]

__all__ = ["after_collectives", "between_two", "collective_rows"]


def collective_rows(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> Bool:
    """The rows of these links, given as their two pairs, that belong to a large message of every step. Both directions
    must show it, of one size and at the same time, as the two directions of a collective do."""
    links = between_two(transfers, links)
    if not links or len(links) > rules.stages.shared_links or clock.steps < 3:
        return np.zeros(transfers.start_ns.size, dtype=np.bool_)
    probed = evenly_spread(len(links), rules.stages.shared_probes).tolist()
    for evened in (True, False):
        result = _by_arcs(transfers, links, probed, clock, rules, evened=evened)
        if result is not None:
            return result
    return _by_bursts(transfers, [links[i] for i in probed], links, clock, rules)


def _by_arcs(
    transfers: TransferTable, links: list[tuple[int, int]], probed: list[int], clock: StepClock, rules: LayoutRules, *,
    evened: bool,
) -> Bool | None:  # fmt: skip
    """The rows of the large messages in the bytes of a step, where a third of the probed links show them; the others
    take the arcs of these."""
    result = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    of_pair = cache(lambda pair: _BytesOfSteps.of(transfers, pair, clock, rules, evened=evened))
    found: list[tuple[_Arc, _Arc]] = []
    missed = [link for i, link in enumerate(links) if i not in probed]
    for left, link in zip(range(len(probed), 0, -1), (links[i] for i in probed), strict=True):
        if 3 * (len(found) + left) < len(probed):
            return None
        arcs = _both_arcs(of_pair, link, clock, rules)
        if arcs is not None and _taken(of_pair, link, arcs, clock, result, rules):
            found.append(arcs)
        else:
            missed.append(link)
    if 3 * len(found) < len(probed):
        return None
    for link in missed:
        either = (way for there, back in found[: rules.stages.arcs_tried] for way in ((there, back), (back, there)))
        any(_taken(of_pair, link, arcs, clock, result, rules) for arcs in either)
    return result


def _both_arcs(
    of_pair: Callable[[int], _BytesOfSteps], link: tuple[int, int], clock: StepClock, rules: LayoutRules
) -> tuple[_Arc, _Arc] | None:
    """The arcs of both directions; None where one has none."""
    there = _arc(of_pair(link[0]), clock, rules)
    back = None if there is None else _arc(of_pair(link[1]), clock, rules)
    return None if there is None or back is None else (there, back)


@dataclass(frozen=True, slots=True)
class _BytesOfSteps:
    """The rows of a pair, and the bytes that it had sent after each of them and when the clock ticked; `whole` are the
    steps that count."""

    rows: slice
    start_ns: Int64
    end_ns: Int64
    size: Int64
    sent: Int64
    ticks: Float64
    whole: Bool

    @classmethod
    def of(
        cls, transfers: TransferTable, pair: int, clock: StepClock, rules: LayoutRules, *, evened: bool
    ) -> _BytesOfSteps:
        """With `evened` every step sends the same, and a tick that falls into a message now and then before it is moved
        to where its neighbours are. Without, a tick is where it is, and steps of which records were lost do not
        count."""
        rows = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
        start, size = transfers.start_ns[rows], transfers.bytes[rows]
        sent = np.cumsum(size)
        at = np.concatenate([[0], sent])[np.searchsorted(start, clock.boundary_ns)].astype(np.float64)
        usual = float(median(np.diff(at)[clock.regular])) if clock.regular.any() else 0.0
        whole = clock.regular
        if not evened:
            whole = whole & (np.abs(np.diff(at) - usual) <= rules.stages.complete_step * usual)
        ticks = _evened(at, usual, rules) if evened else at
        return cls(rows, start, transfers.end_ns[rows], size, sent, ticks, whole)

    def place(self, sent: Float64) -> Float64:
        """The step, and the place in it, at which the pair has sent so many bytes; -1 outside all."""
        return np.interp(sent, self.ticks, np.arange(self.ticks.size), left=-1.0, right=-1.0)


def between_two(transfers: TransferTable, links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The links neither of whose ends has another one: embeddings of more than two stages take a link of their own."""
    ends = np.array([(transfers.pair_src[there], transfers.pair_dst[there]) for there, _ in links], dtype=np.int64)
    count = np.bincount(ends.ravel(), minlength=len(transfers.addresses))
    return [link for link, both in zip(links, ends, strict=True) if (count[both] == 1).all()]


def _by_bursts(
    transfers: TransferTable, probed: list[tuple[int, int]], links: list[tuple[int, int]], clock: StepClock,
    rules: LayoutRules,
) -> Bool:  # fmt: skip
    """The rows of the bursts that stand out, where they do so on most of the probed links."""
    result = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    found: dict[tuple[int, int], Int64 | None] = {}
    seen = 0
    for left, link in zip(range(len(probed), 0, -1), probed, strict=True):
        if seen + left < rules.stages.burst_links * len(probed):
            return result
        found[link] = _burst_rows(transfers, link, clock, rules)
        seen += found[link] is not None
    if seen >= rules.stages.burst_links * len(probed) and seen:
        for link in links:
            rows = found[link] if link in found else _burst_rows(transfers, link, clock, rules)
            if rows is not None:
                result[rows] = True
    return result


def _burst_rows(transfers: TransferTable, link: tuple[int, int], clock: StepClock, rules: LayoutRules) -> Int64 | None:
    """The rows of each step's burst in which both directions send the most together; None where none stands out."""
    rule = rules.stages
    ways = [np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1]) for pair in link]
    rows = np.concatenate(ways)
    back = np.repeat([False, True], [way.size for way in ways])
    order = np.argsort(transfers.start_ns[rows], kind="stable")
    rows, back = rows[order], back[order]
    step = clock.step_at(transfers.start_ns[rows])
    rows, back, step = rows[step >= 0], back[step >= 0], step[step >= 0]
    if not rows.size:
        return None
    ended = np.maximum.accumulate(transfers.end_ns[rows])
    pause = transfers.start_ns[rows[1:]] - ended[:-1]
    burst = np.cumsum(np.append(0, (pause > rule.burst_pause * clock.period_ns) | (np.diff(step) != 0)))
    size = transfers.bytes[rows].astype(np.float64)
    weights = (np.where(back, 0.0, size), np.where(back, size, 0.0))
    sent = [np.bincount(burst, weight, minlength=int(burst[-1]) + 1).astype(np.float64) for weight in weights]
    of_step = step[np.searchsorted(burst, np.arange(int(burst[-1]) + 1))]
    best, second = _most_together(np.minimum(*sent), of_step)
    begin, end = (
        transfers.start_ns[rows[np.searchsorted(burst, best)]],
        ended[np.searchsorted(burst, best, "right") - 1],
    )
    busy = np.bincount(burst, (transfers.end_ns - transfers.start_ns)[rows])[best]
    dense = busy >= 2.0 * rule.burst_dense * (end - begin)
    early = _begun_by_one(sent, of_step, best, rules)
    one, other = (way[best] + np.where(early >= 0, way[early], 0.0) for way in sent)
    together = np.minimum(one, other)
    usual, total = float(median(together)), float(median(np.bincount(of_step, sum(sent))[of_step[best]]))
    if _is_message(sent, best, usual, rules):
        return None
    alike = np.abs(one - other) <= rule.same_size * np.maximum(one, other)
    same = np.abs(together - usual) <= rule.same_size * usual
    if (
        usual < rule.burst_share * total
        or (alike & same & dense & (second <= rule.burst_second * usual)).mean() < rule.burst_steps
    ):
        return None
    return rows[np.isin(burst, np.concatenate([best[same], early[same & (early >= 0)]]))]


def _is_message(sent: list[Float64], best: Int64, size: float, rules: LayoutRules) -> bool:
    """Do the directions send as much in most other bursts, those of activations and gradients that meet by chance?"""
    others = np.ones(sent[0].size, dtype=np.bool_)
    others[best] = False
    single = np.concatenate([way[others & (way >= MESSAGE_FLOOR_BYTES)] for way in sent])
    return bool(single.size) and abs(float(median(single)) - size) <= rules.stages.same_size * size


def _most_together(together: Float64, of_step: Int64) -> tuple[Int64, Float64]:
    """Of each step the burst in which both directions send the most, and the bytes of the one after it."""
    order = np.lexsort((-together, of_step))
    first = np.flatnonzero(np.diff(of_step[order], prepend=-1))
    last = np.append(first[1:], order.size) == first + 1
    return order[first], np.where(last, 0.0, together[order[(first + 1) % order.size]])


def _begun_by_one(sent: list[Float64], of_step: Int64, best: Int64, rules: LayoutRules) -> Int64:
    """The burst before each of these, where its sender began the collective alone: it has what the other direction has
    more. -1 where there is none."""
    before = np.maximum(best - 1, 0)
    lacking = [other[best] - own[best] for own, other in (sent, sent[::-1])]
    size = np.maximum(sent[0][best], sent[1][best])
    fits = (best > 0) & (of_step[before] == of_step[best])
    one_way = [
        (np.abs(own[before] - lack) <= rules.stages.same_size * size) & (lack > rules.stages.same_size * size)
        & (other[before] <= rules.stages.same_size * size)
        for own, other, lack in zip(sent, sent[::-1], lacking, strict=True)
    ]  # fmt: skip
    return np.where(fits & (one_way[0] | one_way[1]), before, -1)


def after_collectives(
    transfers: TransferTable, links: list[tuple[int, int]], shared: Bool, clock: StepClock
) -> StepClock:
    """The clock with each step ending no sooner than the collective that follows the last gradient of its pipelines.
    `shared` marks the rows of these collectives, which have no bytes in `transfers`."""
    passing = np.isin(np.arange(transfers.pair_count), [pair for link in links for pair in link])
    start = np.sort(transfers.start_ns[transfers.messages_of(passing)])
    end = np.sort(transfers.end_ns[shared])
    if not start.size or not end.size:
        return clock
    following = np.searchsorted(start, clock.boundary_ns, side="right")
    awake = np.where(following < start.size, start[np.minimum(following, start.size - 1)], np.iinfo(np.int64).max)
    last = end[np.maximum(np.searchsorted(end, awake) - 1, 0)]
    boundary = np.where(last < awake, np.maximum(clock.boundary_ns, last), clock.boundary_ns)
    boundary[:-1] = np.minimum(boundary[:-1], clock.boundary_ns[1:])
    return StepClock(boundary, clock.regular, clock.dominance)


def _taken(
    of_pair: Callable[[int], _BytesOfSteps], link: tuple[int, int], arcs: tuple[_Arc, _Arc], clock: StepClock,
    result: Bool, rules: LayoutRules,
) -> bool:  # fmt: skip
    """Whether the two arcs of a link are a collective; if so, `result` marks their rows."""
    sizes = [end - begin for begin, end in arcs]
    if abs(sizes[0] - sizes[1]) > rules.stages.same_size * max(sizes):
        return False
    ways = [of_pair(pair) for pair in link]
    cycles = [_cycle(own, *arc) for own, arc in zip(ways, arcs, strict=True)]
    when = [_middles(own, cycle) for own, cycle in zip(ways, cycles, strict=True)]
    if _apart(*when) > rules.stages.same_time * clock.period_ns:
        return False
    for own, cycle in zip(ways, cycles, strict=True):
        result[own.rows] = cycle >= 0
    return True


def _middles(pair: _BytesOfSteps, cycle: Int64) -> Float64:
    """Mean start of the rows of each cycle, by bytes; of those with most of the usual bytes."""
    inside = cycle >= 0
    if not inside.any():
        return np.zeros(0)
    start, size = pair.start_ns[inside], pair.size[inside].astype(np.float64)
    total = np.bincount(cycle[inside], size)
    moment = np.bincount(cycle[inside], size * (start - start[0])) / np.maximum(total, 1.0)
    result: Float64 = moment[total >= 0.5 * total.max()] + float(start[0])
    return result


def _apart(one: Float64, other: Float64) -> float:
    """Median time from each of these moments to the nearest of the others."""
    if one.size < 3 or other.size < 3:
        return float("inf")
    after = np.searchsorted(other, one)
    nearest = np.minimum(
        np.abs(one - other[np.minimum(after, other.size - 1)]), np.abs(one - other[np.maximum(after - 1, 0)])
    )
    return float(median(nearest))


def _arc(pair: _BytesOfSteps, clock: StepClock, rules: LayoutRules) -> _Arc | None:
    """Where the large message begins and ends, as shares of the step's bytes (the end may lie beyond 1)."""
    rule = rules.stages
    place, length = _silences(pair)
    if place.size < rule.few_silences:
        return None
    ended, silent = _places(place, np.minimum(length, _usual(length, clock.steps)), rules)
    if ended.size < rule.equal_messages:
        return None
    for message in _message_sizes(ended, rules):
        chain = _longest_chain(ended, message, rule.same_message * message)
        size = float((ended[chain[0]] - ended[chain[-1]]) % 1.0)
        if len(chain) <= rule.equal_messages or silent[chain].sum() < rule.messages_explain * silent.sum():
            continue
        if size < rule.shared_arc * message or abs(size - message) <= rule.same_message * message:
            return None  # all messages are equal; one of them has a pause inside
        if _unseen_ends(size * (len(chain) - 1) / (1.0 - size), len(chain) - 1, rules):
            return None  # all messages are equal; some follow each other at once
        return float(ended[chain[-1]]), float(ended[chain[-1]]) + size
    return None


def _unseen_ends(messages: float, seen: int, rules: LayoutRules) -> bool:
    """Is what is left of a round a whole number of messages, no more than are seen? A collective is of any size."""
    return 2 <= round(messages) <= seen and abs(messages - round(messages)) <= rules.stages.whole_messages


def _message_sizes(ended: Float64, rules: LayoutRules) -> list[float]:
    """Distances of neighbouring places, taken round, that are met several times; the largest first."""
    gaps = np.sort(np.diff(np.append(ended, ended[:1] + 1.0)))[::-1]
    sizes = []
    while gaps.size >= rules.stages.equal_messages:
        alike = np.abs(gaps - gaps[0]) <= rules.stages.same_message * gaps[0]
        if alike.sum() >= rules.stages.equal_messages:
            sizes.append(float(median(gaps[alike])))
        gaps = gaps[~alike]
    return sizes


def _longest_chain(ended: Float64, message: float, within: float) -> list[int]:
    """The most places that follow each other at the distance of a message, taken round once, others between or not."""
    wanted = (ended + message) % 1.0
    after = np.searchsorted(ended, wanted) % ended.size
    off = [np.abs((ended[near] - wanted + 0.5) % 1.0 - 0.5) for near in (after, after - 1)]
    following = np.where(off[0] <= off[1], after, (after - 1) % ended.size)
    following = np.where(np.minimum(*off) <= within, following, -1).tolist()
    best: list[int] = []
    for first in range(ended.size):
        chain = [first]
        while (place := following[chain[-1]]) >= 0 and len(chain) * message < 1.0 and place != first:
            chain.append(place)
        best = chain if len(chain) > len(best) else best
    return best


def _places(place: Float64, length: Float64, rules: LayoutRules) -> tuple[Float64, Float64]:
    """Where messages end, ascending: the middles of neighbouring slots with enough silence, and how much that is."""
    rule = rules.stages
    weight = np.bincount(
        (place * rule.byte_places).astype(np.int64) % rule.byte_places, length, minlength=rule.byte_places
    )
    near = weight + weight[_before(rule.byte_places)]
    enough = near >= rule.message_ends * quantile(near[near > 0], rule.silent_quantile) if near.any() else near > 0
    begun = enough & ~enough[_before(rule.byte_places)]
    starts = np.flatnonzero(begun)
    if not starts.size:
        return np.zeros(0), np.zeros(0)
    place_from_first = (np.arange(rule.byte_places) - starts[0]) % rule.byte_places
    run = (np.cumsum(np.concatenate([begun[starts[0] :], begun[: starts[0]]])) - 1)[place_from_first]
    angle = _circle(rule.byte_places) * np.where(enough, weight, 0.0)
    total = np.bincount(run, angle.real, starts.size) + 1j * np.bincount(run, angle.imag, starts.size)
    middle: Float64 = np.angle(total) / (2 * np.pi) % 1.0
    order = np.argsort(middle)
    return middle[order], np.abs(total)[order]


@cache
def _before(places: int) -> Int64:
    """The place before each of so many, taken round."""
    return np.arange(-1, places - 1)


@cache
def _circle(places: int) -> NDArray[np.complex128]:
    """The middles of so many places, on the unit circle."""
    return np.asarray(np.exp(2j * np.pi * (np.arange(places) + 0.5) / places))


def _usual(length: Float64, steps: int) -> float:
    """The silence such that half of the time lies in longer ones, without the longest of each step."""
    ordered = np.sort(length)[: max(length.size - steps, 1)]
    return float(ordered[np.searchsorted(np.cumsum(ordered), 0.5 * ordered.sum())]) if ordered.any() else 1.0


def _silences(pair: _BytesOfSteps) -> tuple[Float64, Float64]:
    """Place in the bytes of a step and length of each silence of a pair in its whole steps."""
    position = pair.place(pair.sent[:-1].astype(np.float64))
    inside = (position >= 0) & pair.whole[np.clip(position, 0, pair.whole.size - 1).astype(np.int64)]
    length = np.maximum(pair.start_ns[1:] - pair.end_ns[:-1], 0).astype(np.float64)
    return position[inside] % 1.0, length[inside]


def _evened(at: Float64, usual: float, rules: LayoutRules) -> Float64:
    """The bytes sent at each tick, each moved to where its neighbours are in steps of the usual bytes."""
    steady = np.arange(at.size) * usual
    window = min(rules.stages.tick_neighbours, at.size)
    beyond, half = at - steady, window // 2
    padded = np.concatenate([np.full(half, beyond[0]), beyond, np.full(half, beyond[-1])])
    off = medians(np.lib.stride_tricks.sliding_window_view(padded, 2 * (window // 2) + 1), axis=1)
    ticks: Float64 = np.maximum.accumulate(steady + off)
    return ticks


def _cycle(pair: _BytesOfSteps, begin: float, end: float) -> Int64:
    """The step in which the arc of a row begins, counted from 1, 0 for an arc that goes on from before the first, -1
    for rows outside the arc; the arc may go on in the next step."""
    position = pair.place(pair.sent - 0.5 * pair.size)
    step, place = np.floor(position).astype(np.int64), position % 1.0
    known = position >= 0
    own, goes_on = known & (place > begin) & (place < end), known & (place + 1.0 < end)
    return np.where(own, step + 1, np.where(goes_on, step, -1)).astype(np.int64)
