"""How many messages make up a step, counted one by one: bursts in units of the usual one.

A direction of a link rests between two messages, while a stage computes, and hardly within one. So its rows, joined
over short rests, are messages, but for those that a stall cut in two or that followed each other at once. What most of
them carry is a message; each burst is so many of these as its bytes say, and a step as many as its bursts. Nothing adds
up: bytes that differ from message to message (sequences of many lengths, sampled records, padding) shift no place of a
later message, and a record that was lost takes one message from one step of one pair. Where most steps of most pairs
have the same number, and most bytes pass in single messages or in whole numbers of them (a collector joins messages
that are closer than its idle time), that is the number. A clock that ticks among the passes gives one step a message
that it takes from the next: where the usual number is also the most common one, and the bytes of a step are as many
messages, that is enough.

How long the rest between messages is, is not known before. The longest of a step may be another one (gradients are
synchronised where the clock ticks among the passes), or, with two micro-batches, the only one: both are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.rows_in_steps import rows_in_steps
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.robust import half_of_sum

__all__ = ["bursts_of_steps", "counted_messages"]


def counted_messages(
    transfers: TransferTable, pairs: Int64, clock: StepClock, rules: LayoutRules = RULES
) -> Iterator[int]:
    """Messages per step and direction that most steps of these pairs have, without the longest rest of each step and
    with it; nothing where they do not agree."""
    rests = _rests(transfers, pairs, clock)
    if rests is None:
        return
    for left_out in (_longest_of_each(rests.rest, rests.cell[1:]), ~rests.inside):
        messages = _most_common(*rests.bursts(left_out, rules), rules=rules)
        if messages is not None:
            yield messages


def bursts_of_steps(
    transfers: TransferTable, pairs: Int64, clock: StepClock, rules: LayoutRules = RULES
) -> tuple[Float64, Int64] | None:
    """The bytes of what these pairs send between two rests, and the step of a pair that it is in (a number); the
    longest rest of each step does not say how long rests are. None where nothing rests."""
    rests = _rests(transfers, pairs, clock)
    return None if rests is None else rests.bursts(_longest_of_each(rests.rest, rests.cell[1:]), rules)


@dataclass(frozen=True, slots=True)
class _RestsInSteps:
    """Rows of some pairs, their bytes and the step of a pair (`cell`) that each is in; the rest before each row but the
    first, and whether it is `inside` a step."""

    size: Float64
    cell: Int64
    rest: Float64
    inside: Bool

    def bursts(self, left_out: Bool, rules: LayoutRules) -> tuple[Float64, Int64]:
        """The bytes and the cells of bursts; rests that are left out do not say how long rests between messages are."""
        usual = half_of_sum(np.where(left_out, 0.0, self.rest))
        begun = np.append(True, ~self.inside | (self.rest > rules.stages.message_pause * usual))
        return np.bincount(np.cumsum(begun) - 1, self.size).astype(np.float64), self.cell[begun]


def _rests(transfers: TransferTable, pairs: Int64, clock: StepClock) -> _RestsInSteps | None:
    """The rests of these pairs within steps; None where there are none."""
    own = rows_in_steps(transfers, pairs, clock)
    kept = clock.regular[own.step] & (transfers.bytes[own.rows] >= MESSAGE_FLOOR_BYTES)
    rows, cell = own.rows[kept], own.cell[kept]
    inside = np.diff(cell) == 0
    if not inside.any():
        return None
    rest = np.where(inside, np.maximum(transfers.start_ns[rows[1:]] - transfers.end_ns[rows[:-1]], 0), 0).astype(float)
    return _RestsInSteps(transfers.bytes[rows].astype(np.float64), cell, rest, inside)


def _longest_of_each(rest: Float64, cell: Int64) -> Bool:
    """The longest rest of each cell."""
    order = np.lexsort((-rest, cell))
    longest = np.zeros(rest.size, dtype=np.bool_)
    longest[order[np.flatnonzero(np.diff(cell[order], prepend=-1))]] = True
    return longest


def _most_common(size: Float64, cell: Int64, rules: LayoutRules) -> int | None:
    """Messages that most cells have, from the bytes of their bursts; None where few bytes pass in whole messages, or
    few cells agree, unless half have more and half less, and the bytes of a step are as many messages."""
    message = float(np.median(size))
    for _ in range(rules.stages.counted_rounds):
        single = np.round(size / message) == 1.0
        message = float(np.median(size[single])) if single.any() else message
    parts = np.round(size / message)
    off = np.abs(size / message - parts)
    whole = (parts > 0) & (off <= np.where(parts == 1, rules.stages.counted_alike, rules.stages.whole_messages))
    if size[whole].sum() < rules.stages.counted_share * size.sum():
        return None
    of_cell = np.unique(cell, return_inverse=True)[1]
    counts = np.bincount(of_cell, parts).astype(np.int64)
    messages = int(np.argmax(np.bincount(counts)))
    if messages < 2:
        return None
    sums = float(np.median(np.bincount(of_cell, size))) / message
    same = messages == np.median(counts) and abs(sums - messages) <= rules.stages.fitted_step * messages
    return messages if same or (counts == messages).mean() > rules.stages.counted_share else None
