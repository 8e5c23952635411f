"""Collectives that share a link with the activations of a pipeline.

Tied embeddings are reduced between the first and the last stage at the end of every step. With two stages that is the
link of the activations too: a step of it is then a number of equal messages, one per micro-batch, and one large
message. In byte-space, taken round from one step to the next, the equal messages leave silences at equal distances.
What is left of the round is the large one, of any size, with or without pauses of its own. Its rows are the
collective's, and must not be counted as activations. Links that are too noisy to show it take the arcs of the others.

With two micro-batches, or where records are too ragged for that, the collective shows in time: it is the one burst of a
step in which both directions send the same, and far more than together at any other time. A collective is sent without
computing in between; many micro-batches that pass each other are not.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules

_Arc = tuple[float, float]

__all__ = ["after_collectives", "collective_rows"]


def collective_rows(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> Bool:
    """The rows of these links, given as their two pairs, that belong to a large message of every step.

    Both directions must show it, of one size and at the same time, as the two directions of a collective do.
    """
    result = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    if len(links) > rules.stages.shared_links or clock.steps < 3:
        return result
    probed = (
        np.unique(np.linspace(0, len(links) - 1, min(rules.stages.shared_probes, len(links))).astype(int)).tolist()
        if links
        else []
    )
    found: list[tuple[_Arc, _Arc]] = []
    missed = [link for i, link in enumerate(links) if i not in probed]
    for link in (links[i] for i in probed):
        arcs = _arc(transfers, link[0], clock, rules), _arc(transfers, link[1], clock, rules)
        if (
            arcs[0] is not None
            and arcs[1] is not None
            and _taken(transfers, link, (arcs[0], arcs[1]), clock, result, rules)
        ):
            found.append((arcs[0], arcs[1]))
        else:
            missed.append(link)
    if 3 * len(found) < len(probed):
        return _by_bursts(transfers, [links[i] for i in probed], links, clock, rules)
    for link in missed:
        either = (way for there, back in found[: rules.stages.arcs_tried] for way in ((there, back), (back, there)))
        any(_taken(transfers, link, arcs, clock, result, rules) for arcs in either)
    return result


def _by_bursts(
    transfers: TransferTable, probed: list[tuple[int, int]], links: list[tuple[int, int]], clock: StepClock,
    rules: LayoutRules,
) -> Bool:  # fmt: skip
    """The rows of the bursts that stand out, where they do so on most of the probed links."""
    result = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    found = {link: _burst_rows(transfers, link, clock, rules) for link in probed}
    seen = sum(rows is not None for rows in found.values())
    if seen >= rules.stages.burst_links * len(probed) and seen:
        for link in links:
            rows = found[link] if link in found else _burst_rows(transfers, link, clock, rules)
            if rows is not None:
                result[rows] = True
    return result


def _burst_rows(transfers: TransferTable, link: tuple[int, int], clock: StepClock, rules: LayoutRules) -> Int64 | None:
    """The rows of the burst of each step in which the two directions of a link send the most together; None where it
    does not stand out, or the directions differ."""
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
    alike = np.abs(one - other) <= rule.same_size * np.maximum(one, other)
    same = np.abs(together - usual) <= rule.same_size * usual
    if (
        usual < rule.burst_share * total
        or (alike & same & dense & (second <= rule.burst_second * usual)).mean() < rule.burst_steps
    ):
        return None
    return rows[np.isin(burst, np.concatenate([best[same], early[same & (early >= 0)]]))]


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

    `shared` marks the rows of these collectives, which have no bytes in `transfers`.
    """
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
    transfers: TransferTable,
    link: tuple[int, int],
    arcs: tuple[_Arc, _Arc],
    clock: StepClock,
    result: Bool,
    rules: LayoutRules,
) -> bool:
    """Whether the two arcs of a link are a collective; if so, `result` marks their rows."""
    sizes = [end - begin for begin, end in arcs]
    if abs(sizes[0] - sizes[1]) > rules.stages.same_size * max(sizes):
        return False
    rows = [slice(int(transfers.pair_offsets[p]), int(transfers.pair_offsets[p + 1])) for p in link]
    cycles = [_cycle(transfers, own, clock, *arc, rules=rules) for own, arc in zip(rows, arcs, strict=True)]
    when = [_middles(transfers, own, cycle) for own, cycle in zip(rows, cycles, strict=True)]
    if _apart(*when) > rules.stages.same_time * clock.period_ns:
        return False
    for own, cycle in zip(rows, cycles, strict=True):
        result[own] = cycle >= 0
    return True


def _middles(transfers: TransferTable, rows: slice, cycle: Int64) -> Float64:
    """Mean start of the rows of each cycle, by bytes; of those with most of the usual bytes."""
    inside = cycle >= 0
    if not inside.any():
        return np.zeros(0)
    start, size = transfers.start_ns[rows][inside], transfers.bytes[rows][inside].astype(np.float64)
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


def _arc(transfers: TransferTable, pair: int, clock: StepClock, rules: LayoutRules) -> _Arc | None:
    """Where the large message begins and ends, as shares of the step's bytes (the end may lie beyond 1)."""
    rule = rules.stages
    place, length = _silences(transfers, pair, clock, rules)
    if place.size < rule.few_silences:
        return None
    length = np.minimum(length, _usual(length, clock.steps))
    ended = _places(place, length, rules)
    gaps = np.diff(np.append(ended, ended[:1] + 1.0))
    if gaps.size < rule.equal_messages:
        return None
    message = float(median(gaps))
    first, count = _longest_run(np.abs(gaps - message) <= rule.same_message * message)
    if count < rule.equal_messages or count == gaps.size or gaps.size - count - 1 > rule.noisy_pauses * count:
        return None
    begin, end = ended[(first + count) % gaps.size], ended[first]
    size = float((end - begin) % 1.0)
    return (float(begin), float(begin) + size) if size >= rule.shared_arc * message else None


def _places(place: Float64, length: Float64, rules: LayoutRules) -> Float64:
    """Where messages end, ascending: the middles of neighbouring slots with enough silence."""
    rule = rules.stages
    weight = np.bincount(
        (place * rule.byte_places).astype(np.int64) % rule.byte_places, length, minlength=rule.byte_places
    )
    near = weight + weight[_before(rule.byte_places)]
    enough = near >= rule.message_ends * np.quantile(near[near > 0], rule.silent_quantile) if near.any() else near > 0
    begun = enough & ~enough[_before(rule.byte_places)]
    starts = np.flatnonzero(begun)
    if not starts.size:
        return np.zeros(0)
    place_from_first = (np.arange(rule.byte_places) - starts[0]) % rule.byte_places
    run = (np.cumsum(np.concatenate([begun[starts[0] :], begun[: starts[0]]])) - 1)[place_from_first]
    angle = _circle(rule.byte_places) * np.where(enough, weight, 0.0)
    total = np.bincount(run, angle.real, starts.size) + 1j * np.bincount(run, angle.imag, starts.size)
    middle: Float64 = np.sort(np.angle(total) / (2 * np.pi) % 1.0)
    return middle


@cache
def _before(places: int) -> Int64:
    """The place before each of so many, taken round."""
    return np.arange(-1, places - 1)


@cache
def _circle(places: int) -> NDArray[np.complex128]:
    """The middles of so many places, on the unit circle."""
    return np.asarray(np.exp(2j * np.pi * (np.arange(places) + 0.5) / places))


def _longest_run(even: Bool) -> tuple[int, int]:
    """First and length of the longest run of true values, taken round."""
    if even.all():
        return 0, even.size
    turned = int(np.flatnonzero(~even)[0]) + 1
    values = np.roll(even, -turned)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], values.astype(np.int8), [0]])))
    if not edges.size:
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    best = int(np.argmax(lengths))
    return int((edges[2 * best] + turned) % even.size), int(lengths[best])


def _usual(length: Float64, steps: int) -> float:
    """The silence such that half of the time lies in longer ones, without the longest of each step."""
    ordered = np.sort(length)[: max(length.size - steps, 1)]
    return float(ordered[np.searchsorted(np.cumsum(ordered), 0.5 * ordered.sum())]) if ordered.any() else 1.0


def _silences(transfers: TransferTable, pair: int, clock: StepClock, rules: LayoutRules) -> tuple[Float64, Float64]:
    """Place in the bytes of a step and length of each silence of a pair in its usual steps."""
    rows = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
    start, end, sent = transfers.start_ns[rows], transfers.end_ns[rows], np.cumsum(transfers.bytes[rows])
    ticks = _ticks_in_bytes(start, sent, clock, rules)
    position = np.interp(sent[:-1], ticks, np.arange(ticks.size), left=-1.0, right=-1.0)
    inside = (position >= 0) & clock.regular[np.clip(position, 0, clock.regular.size - 1).astype(np.int64)]
    length = np.maximum(start[1:] - end[:-1], 0).astype(np.float64)
    return position[inside] % 1.0, length[inside]


def _ticks_in_bytes(start: Int64, sent: Int64, clock: StepClock, rules: LayoutRules) -> Float64:
    """The bytes that a pair has sent when the clock ticks, evened out: every step sends the same, and a tick that falls
    into a message now and then before it is moved to where its neighbours are."""
    at = np.concatenate([[0], sent])[np.searchsorted(start, clock.boundary_ns)].astype(np.float64)
    usual = float(median(np.diff(at)[clock.regular])) if clock.regular.any() else 0.0
    steady = np.arange(at.size) * usual
    window = min(rules.stages.tick_neighbours, at.size)
    beyond, half = at - steady, window // 2
    padded = np.concatenate([np.full(half, beyond[0]), beyond, np.full(half, beyond[-1])])
    off = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * (window // 2) + 1), axis=1)
    ticks: Float64 = np.maximum.accumulate(steady + off)
    return ticks


def _cycle(
    transfers: TransferTable, rows: slice, clock: StepClock, begin: float, end: float, rules: LayoutRules
) -> Int64:
    """The step in which the arc of a row begins, counted from 1, 0 for an arc that goes on from before the first, -1
    for rows outside the arc; the arc may go on in the next step."""
    size = transfers.bytes[rows]
    sent = np.cumsum(size)
    ticks = _ticks_in_bytes(transfers.start_ns[rows], sent, clock, rules)
    position = np.interp(sent - 0.5 * size, ticks, np.arange(ticks.size), left=-1.0, right=-1.0)
    step, place = np.floor(position).astype(np.int64), position % 1.0
    known = position >= 0
    own, goes_on = known & (place > begin) & (place < end), known & (place + 1.0 < end)
    return np.where(own, step + 1, np.where(goes_on, step, -1)).astype(np.int64)
