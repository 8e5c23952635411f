"""Are the parts of a step unlike in their messages, in bits?

A step that gathers, reduces and gathers again may consist of parts that carry the same bytes, so that each part passes
for a step of its own: the bytes between the ticks of the finer clock repeat, and the pauses inside a collective are
chance. But a collective cuts its messages by its own size and kind. Whole steps do the same and send messages of the
same sizes; the parts of a step do not. So the sizes are coded twice: with one distribution for all parts, and with one
for each part, every distribution at the price of its parameters (Krichevsky and Trofimov). What the second saves is
what a clock that takes the parts for steps leaves unexplained.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import repeat

import numpy as np

from llmprism.arrays import Float64, Int64, median
from llmprism.parallelism.clock_score import Pauses, sent_by_ticks
from llmprism.parallelism.pause_code import counts_by_part
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["bits_of_unlike_parts"]


def bits_of_unlike_parts(pauses: Pauses, ticks: Int64, parts: int, rules: LayoutRules = RULES) -> float:
    """Bits per message that it saves to know in which part of the step, cut into equal shares of its bytes, each was
    sent. Below 0.08 where the ticks are several equal steps apart, 0.2 to 0.9 for the parts of sharded steps.

    Messages outside of the ticks save nothing. The parts of fewer steps than there are parts are moments of the job's
    history rather than places in its step: they say nothing.
    """
    if ticks.size - 1 < parts:
        return 0.0
    sorts, by_tick = int(pauses.size_sort.max(initial=-1)) + 1, sent_by_ticks(pauses, ticks)
    counts = counts_by_part(
        pauses.offsets, pauses.start_ns, pauses.sent, by_tick, ticks, pauses.size_sort, parts, sorts,
        _weights(pauses, ticks),
    )  # fmt: skip
    counts = counts[:, counts.any(axis=0)]
    if not counts.size:
        return 0.0
    return (
        float(_code_length(counts.sum(axis=0), rules) - sum(_code_length(row, rules) for row in counts))
        / pauses.start_ns.size
    )


def _weights(pauses: Pauses, ticks: Int64) -> Float64:
    """What a message of each step counts: less than one where the step has more messages than usual. A fault that cuts
    the messages of a few steps into many tells nothing about the places of a step."""
    step = np.searchsorted(ticks, pauses.start_ns, side="right") - 1
    count = np.bincount(step[(step >= 0) & (step < ticks.size - 1)], minlength=ticks.size - 1)
    weight: Float64 = np.minimum(1.0, median(count) / np.maximum(count, 1))
    return weight


def _code_length(counts: Float64, rules: LayoutRules) -> float:
    """Bits of a sequence with these counts under the distribution learned from it on the way."""
    prior = rules.clock.size_prior * counts.size
    nats = math.lgamma(float(counts.sum()) + prior) - math.lgamma(prior)
    nats -= sum(map(_nats_of_sort, counts[counts > 0].tolist(), repeat(rules.clock.size_prior)))
    return nats / math.log(2.0)


@lru_cache(maxsize=1 << 16)
def _nats_of_sort(count: float, prior: float) -> float:
    """What so many messages of one size add: most parts of most clocks have the same few counts."""
    return math.lgamma(count + prior) - math.lgamma(prior)
