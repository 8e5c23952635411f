"""A collective on the link of two stages that is larger than an activation: the one large burst both ways of each step.

Wherever the clock ticks, and whatever passes are sent at one time with those of the next micro-batch: tied embeddings
are a burst of both directions, of one size, that comes once in a step and is larger than any other such burst. Chunks
that follow each other at once make large bursts too, but of whole numbers of messages.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, evenly_spread, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.link_rests import PairBursts, bursts_of_pair, overlaps, usual_rest
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["large_bursts"]


def large_bursts(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> Bool | None:
    """The rows of such bursts of these links, given as their two pairs; None where most links do not show them."""
    rule = rules.stages
    probes = [links[i] for i in evenly_spread(len(links), rule.shared_probes).tolist()]
    found = [_once_a_step(_both(transfers, link, clock, rules), clock, rules) for link in probes]
    sizes = [size for size in found if size is not None]
    if not sizes or len(sizes) < rule.burst_links * len(probes):
        return None
    usual = float(median(sizes))
    result = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    for link in links:
        for way in _both(transfers, link, clock, rules):
            alike = np.abs(way.size - usual) <= rule.same_message * usual
            result[way.rows[alike[way.number]]] = True
    return result


def _both(
    transfers: TransferTable, link: tuple[int, int], clock: StepClock, rules: LayoutRules
) -> tuple[PairBursts, PairBursts]:
    one, other = (
        bursts_of_pair(transfers, pair, rules.stages.message_pause * usual_rest(transfers, pair, clock.steps))
        for pair in link
    )
    return one, other


def _once_a_step(both: tuple[PairBursts, PairBursts], clock: StepClock, rules: LayoutRules) -> float | None:
    """The size of the bursts both ways that come once in a step and are larger than the others; None if there is no
    such size."""
    rule = rules.stages
    one, other = both
    if min(one.size.size, other.size.size) < rule.equal_messages:
        return None
    near, shared = overlaps(one, other, rules)
    alike = np.abs(one.size - other.size[near]) <= rule.same_message * np.maximum(one.size, other.size[near])
    size, begin = one.size[shared & alike], one.begin[shared & alike]
    if size.size < rule.counted_share * clock.steps:
        return None
    usual = float(np.sort(size)[-max(clock.steps // 4, 1)])  # stalls cut that of some steps in two
    large = size >= (1.0 - 2.0 * rule.same_message) * usual
    if not rule.counted_share <= large.sum() / clock.steps <= 2.0 - rule.burst_steps or large.sum() < 2:
        return None
    even = (np.abs(size[large] - usual) <= rule.same_message * usual).mean() >= rule.burst_steps
    apart = float(median(np.diff(begin[large]))) / clock.period_ns
    if not even or apart < 0.5 or abs(apart - round(apart)) > rule.same_message:
        return None
    return usual if _no_messages(one, usual, rules) and _no_messages(other, usual, rules) else None


def _no_messages(way: PairBursts, usual: float, rules: LayoutRules) -> bool:
    """Are bursts of this size more than a message, and no whole number of them?"""
    others: Float64 = way.size[np.abs(way.size - usual) > rules.stages.same_message * usual]
    if others.size < rules.stages.equal_messages:
        return False
    messages = usual / float(median(others))
    countable = (
        messages * rules.stages.complete_step < rules.stages.whole_messages
    )  # else any number is as good as whole
    whole = countable and abs(messages - round(messages)) <= rules.stages.whole_messages
    return messages >= 1.0 + rules.stages.shared_arc and not whole
