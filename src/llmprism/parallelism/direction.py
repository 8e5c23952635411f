"""Which end of a pipeline is the first stage?

Follow the balance of a pipeline: bytes sent one way along it minus bytes sent the other way. Taken the right way round
it counts the activations that are *outstanding*, not yet answered by a gradient. It is lowest between steps, when
gradients are synchronised, the optimizer runs and the first activation is computed: one long rest. When the pipeline is
full it is highest, but never rests there for longer than one computation. So the end from which the balance has its
longest rest low is the first stage.

Other traffic may cut that rest in two (tied embeddings), and with few micro-batches others are as long. The gradients
of the first stage are synchronised last (`gradient_order`). Both are times of about one pass, and are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.kernel import kernel
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable, ranges
from llmprism.parallelism.gradient_order import later_gradients
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.integer_order import stable_order

__all__ = ["StageOrder", "in_stage_order", "rests_of_paths"]


@dataclass(frozen=True, slots=True)
class StageOrder:
    """Paths with their first stage first. `clear`: by how much of all times that were compared the way that was chosen
    leads, at the two sides where it is least clear; 1 is clear, 0 is a guess."""

    paths: tuple[tuple[int, ...], ...]
    clear: float


def in_stage_order(
    transfers: TransferTable,
    paths: tuple[tuple[int, ...], ...],
    pair_of: dict[tuple[int, int], int],
    side_of: dict[int, str],
    boundary_ns: Int64,
    rules: LayoutRules = RULES,
    gradient: Bool | None = None,
    *,
    ring: bool = False,
) -> StageOrder:
    """Which end of each path is the first stage. In a ring the last stage hands on to the first.

    `pair_of` finds pairs by their ends. `side_of` names the side that an end belongs to (its servers, its group): paths
    between the same two sides run the same way, so they decide together. `gradient` marks the pairs of gradients.
    """
    votes: dict[tuple[str, str], list[float]] = {}
    turned = [_turned(path, side_of) for path in paths]
    links = [_links_of(path, pair_of, ring=ring) for path in turned]
    shared = all(len(path) == 2 for path in paths)  # elsewhere tied embeddings have a link of their own
    rests = rests_of_paths(transfers, links, boundary_ns, rules, with_collectives=shared)
    later = np.zeros(len(turned))
    if gradient is not None:
        later = later_gradients(transfers, gradient, [(path[0], path[-1]) for path in turned], boundary_ns, rules)
    for path, (low, high), after in zip(turned, rests, later.tolist(), strict=True):
        vote = (low - high + after) / max(low + high + abs(after), 1e-12)
        votes.setdefault(_sides(path, side_of), []).append(vote)
    decided = {sides: sum(listed) / len(listed) for sides, listed in votes.items()}
    ordered = tuple(sorted(path if decided[_sides(path, side_of)] >= 0 else path[::-1] for path in turned))
    return StageOrder(ordered, min((abs(vote) for vote in decided.values()), default=1.0))


def _sides(path: tuple[int, ...], side_of: dict[int, str]) -> tuple[str, str]:
    return side_of.get(path[0], str(path[0])), side_of.get(path[-1], str(path[-1]))


def _turned(path: tuple[int, ...], side_of: dict[int, str]) -> tuple[int, ...]:
    """The path with its sides in a fixed order, so that all paths between two sides point the same way."""
    first, last = _sides(path, side_of)
    return path if first <= last else path[::-1]


_Links = tuple[list[int], list[int]]
"""The pairs along a path, and those against it."""


def _links_of(path: tuple[int, ...], pair_of: dict[tuple[int, int], int], *, ring: bool) -> _Links:
    links = list(pairwise((*path, path[0]) if ring else path))
    along = [pair_of[link] for link in links if link in pair_of]
    against = [pair_of[late, early] for early, late in links if (late, early) in pair_of]
    return along, against


def rests_of_paths(
    transfers: TransferTable, paths: list[_Links], boundary_ns: Int64, rules: LayoutRules, *,
    with_collectives: bool = False,
) -> list[tuple[float, float]]:  # fmt: skip
    """See `_rests`, for each of the paths; `with_collectives`: some may share their links."""
    momentary = rules.stages.momentary if with_collectives else 0.0
    pairs = np.array([pair for along, against in paths for pair in (*along, *against)], dtype=np.int64)
    rows = int((transfers.pair_offsets[pairs + 1] - transfers.pair_offsets[pairs]).sum())
    if _median_rests.interprets(rows):
        return [_rests(transfers, along, against, boundary_ns, rules, momentary) for along, against in paths]
    sign = [one for along, against in paths for one in (*[1] * len(along), *[-1] * len(against))]
    ends = np.cumsum([0, *(len(along) + len(against) for along, against in paths)])
    found = _median_rests.machine_code(
        transfers.pair_offsets, transfers.end_ns, transfers.bytes, pairs, np.array(sign, dtype=np.int64), ends,
        boundary_ns, rules.stages.resting_band, momentary, MESSAGE_FLOOR_BYTES,
    )  # fmt: skip
    return [(low, high) for low, high in found.tolist()]


def _rests(
    transfers: TransferTable, along: list[int], against: list[int], boundary_ns: Int64, rules: LayoutRules,
    momentary: float = 0.0,
) -> tuple[float, float]:  # fmt: skip
    """Longest time in a step that the balance rests at its lowest and at its highest; medians over the steps."""
    pairs = np.array([*along, *against], dtype=np.int64)
    first, after = transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1]
    rows, sign = ranges(first, after), np.repeat([1] * len(along) + [-1] * len(against), after - first)
    message = transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES
    rows, sign = rows[message], sign[message]
    when, signed = transfers.end_ns[rows], sign * transfers.bytes[rows]
    order = stable_order(when)
    low, high = _longest_rests(when[order], signed[order], boundary_ns, rules.stages.resting_band, momentary)
    return (float(np.median(low)), float(np.median(high))) if low.size else (0.0, 0.0)


@kernel
def _longest_rests(
    when: Int64, signed: Int64, boundary: Int64, band: float, momentary: float
) -> tuple[Float64, Float64]:
    """Longest rests of the balance of signed bytes in the lowest and in the highest band, for each step that has any.
    A level that is passed once in a step and for a moment only, a share of the longest rest, is no end of its range.

    `when` ascends. A rest goes on until the next message, be it of the next step; what lies outside all steps is cut.
    """
    balance = np.cumsum(signed)
    low, high = np.zeros(boundary.size), np.zeros(boundary.size)
    first, end = np.searchsorted(when, boundary[0]), np.searchsorted(when, boundary[-1])
    count, step = 0, 0
    while first < end:
        while when[first] >= boundary[step + 1]:
            step += 1
        last, longest = first, 0
        while last < end and when[last] < boundary[step + 1]:
            longest = max(longest, when[last + 1] - when[last] if last + 1 < end else 0)
            last += 1
        lowest = _extreme_level(when[first : last + 1], balance[first:last], band, momentary * longest)
        highest = -_extreme_level(when[first : last + 1], -balance[first:last], band, momentary * longest)
        for i in range(first, last):
            level = (balance[i] - lowest) / max(highest - lowest, 1)
            stay = when[i + 1] - when[i] if i + 1 < end else 0
            if level <= band:
                low[count] = max(low[count], stay)
            if level >= 1.0 - band:
                high[count] = max(high[count], stay)
        first, count = last, count + 1
    return low[:count], high[:count]


@kernel
def _extreme_level(when: Int64, balance: Int64, band: float, moment: float) -> int:
    """The lowest level of a step, without those that it visits once and for a moment: while two ends reduce something,
    now one of them is ahead and now the other. Passes visit a level with every micro-batch. `when` may go on by one."""
    lowest = balance.min()
    near = lowest + band * (balance.max() - lowest)
    visits, stay, other = 0, 0, balance.max()
    for i in range(balance.size):
        if balance[i] > near:
            other = min(other, balance[i])
            continue
        visits += i == 0 or balance[i - 1] > near
        stay += when[i + 1] - when[i] if i + 1 < when.size else 0
    return int(other if visits == 1 and stay < moment else lowest)


@kernel
def _median_rests(
    offsets: Int64, end: Int64, size: Int64, pairs: Int64, sign: Int64, cuts: Int64, boundary: Int64, band: float,
    momentary: float, floor: int,
) -> Float64:  # fmt: skip
    """Paths x 2: medians of the rests of each path (`_longest_rests`), whose pairs are those between two cuts."""
    found = np.zeros((cuts.size - 1, 2))
    for path in range(cuts.size - 1):
        when, signed = _merged(offsets, end, size, pairs[cuts[path] : cuts[path + 1]], sign[cuts[path] :], floor)
        if when.size == 0:
            continue
        low, high = _longest_rests(when, signed, boundary, band, momentary)
        if low.size:
            found[path, 0], found[path, 1] = np.median(low), np.median(high)
    return found


@kernel
def _merged(offsets: Int64, end: Int64, size: Int64, pairs: Int64, sign: Int64, floor: int) -> tuple[Int64, Int64]:
    """Ends and signed sizes of the messages of these pairs, ascending by end; equal ones in the order of the pairs."""
    rows = 0
    for pair in pairs:
        rows += offsets[pair + 1] - offsets[pair]
    when, signed = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    runs = np.zeros(pairs.size + 1, dtype=np.int64)
    count = 0
    for i in range(pairs.size):
        for row in range(offsets[pairs[i]], offsets[pairs[i] + 1]):
            if size[row] < floor:
                continue
            place = count
            while place > runs[i] and when[place - 1] > end[row]:  # transfers of a pair do not overlap: hardly ever
                when[place], signed[place] = when[place - 1], signed[place - 1]
                place -= 1
            when[place], signed[place] = end[row], sign[i] * size[row]
            count += 1
        runs[i + 1] = count
    other_when, other_signed = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    width = 1
    while width < pairs.size:
        for first in range(0, pairs.size, 2 * width):
            i, middle = runs[first], runs[min(first + width, pairs.size)]
            j, last = middle, runs[min(first + 2 * width, pairs.size)]
            for place in range(i, last):
                if i < middle and (j >= last or when[i] <= when[j]):
                    other_when[place], other_signed[place] = when[i], signed[i]
                    i += 1
                else:
                    other_when[place], other_signed[place] = when[j], signed[j]
                    j += 1
        when, other_when, signed, other_signed = other_when, when, other_signed, signed
        width *= 2
    return when[:count], signed[:count]
