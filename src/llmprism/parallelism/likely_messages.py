"""How many messages make up a step, by the bytes of all bursts together.

A step of a link is so many messages. Whatever a collector did to them, what the link sends between two rests is one
message, several that followed each other at once, or a piece of one that a stall cut. So every number of messages
predicts the sizes of all bursts: in units of the step's bytes divided by that number most are one, some are two and
three, spread by as much as messages differ (sequences of many lengths, sampled packets), and the others lie anywhere
below one. All numbers are priced by that, in nats: how spread messages are, how often they follow each other, and how
many are cut, are fitted for each. No rest between two messages is needed, and neither do two steps have to carry the
same bytes.

Numbers that nobody sets cost the bits that it takes to say so, since those next to the true one explain bursts of many
lengths nearly as well: 32 micro-batches are likelier than 33, 192 messages (64 of two chunks) than 190.
"""

from __future__ import annotations

import math

import numpy as np

from llmprism.arrays import Float64, Int64, evenly_spread
from llmprism.kernel import compiled_kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.counted_messages import bursts_of_steps
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["likely_messages", "number_price", "odd_part"]


def likely_messages(
    transfers: TransferTable, pairs: Int64, clock: StepClock, stages: int, rules: LayoutRules = RULES, *, ring: bool
) -> list[tuple[int, float]]:
    """Messages per step and direction of these pairs, the likeliest first, as far as others are not behind by more than
    the margin, and by how many nats they are. `ring`: the pipelines of so many stages close to rings."""
    rule = rules.stages
    found = bursts_of_steps(transfers, pairs, clock, rules)
    if found is None:
        return []
    size, cell = found
    priced = _prices(stages, ring=ring, rules=rules)
    numbers = np.array(sorted(priced), dtype=np.int64)
    nats = np.full(numbers.size, -np.inf)
    for share in _shares(size, cell, rules):
        nats = np.maximum(nats, _nats_of_near(share[evenly_spread(share.size, rule.bursts_priced)], numbers, rules))
    if not np.isfinite(nats).any():
        return []
    telling = min(size.size, rule.bursts_that_tell)
    score = telling * (nats - nats.max()) - np.array([priced[number] for number in numbers.tolist()])
    order = np.argsort(-score, kind="stable")
    behind = score[order] - score[order[0]]
    kept = behind > -rule.schedule_margin
    return list(zip(numbers[order[kept]].tolist(), behind[kept].tolist(), strict=True))


def _shares(size: Float64, cell: Int64, rules: LayoutRules) -> tuple[Float64, Float64]:
    """Each burst as a share of the bytes of its step, and of those of steps of which nothing is missing. Steps with
    less than half of the usual bytes are left out."""
    of_cell = np.unique(cell, return_inverse=True)[1]
    total = np.bincount(of_cell, size)
    usual = float(np.median(total))
    kept = total[of_cell] >= 0.5 * usual
    complete = float(np.quantile(total, rules.stages.lossless_steps))
    return (size / total[of_cell])[kept], (size / complete)[kept]


def _prices(stages: int, *, ring: bool, rules: LayoutRules) -> dict[int, float]:
    """Nats that it takes to say each number of messages, by the micro-batches and chunks that make it cheapest."""
    prices: dict[int, float] = {}
    most = rules.stages.most_micro_batches
    for chunks in range(1, rules.stages.most_chunks + 1):
        if (chunks == 1 and ring) or (chunks > 1 and stages != 2 and not ring):
            continue
        passes = 2 * chunks - 1 if stages == 2 else chunks
        rounds = 1 if chunks == 1 else stages
        for batches in range(rounds, most // passes + 1, rounds):
            number = passes * batches
            prices[number] = min(number_price(batches, stages, chunks), prices.get(number, math.inf))
    return prices


def number_price(batches: int, stages: int, chunks: int) -> float:
    """Nats that it takes to say a number of micro-batches and chunks."""
    return math.log(odd_part(batches, stages)) + math.log(chunks)


def odd_part(batches: int, stages: int) -> int:
    """What is left of a number of micro-batches without the stages and powers of two: nobody sets 59."""
    rest = batches // math.gcd(batches, stages)
    return rest // (rest & -rest)


def _nats_of_near(share: Float64, numbers: Int64, rules: LayoutRules) -> Float64:
    """Nats per burst that each number of messages saves; nothing of those that a few bursts leave far behind."""
    rule, spreads = rules.stages, np.array(rules.stages.message_spreads)
    few = share[evenly_spread(share.size, rule.bursts_glanced)]
    glance = _nats(few, numbers, spreads, rule.single_messages)
    near = glance >= glance.max() - rule.glanced_margin
    nats = np.full(numbers.size, -np.inf)
    nats[near] = _nats(share, numbers[near], spreads, rule.single_messages)
    return nats


@compiled_kernel
def _nats(share: Float64, numbers: Int64, spreads: Float64, fewest: float) -> Float64:
    """Nats per burst that each number of messages saves, with the spread of messages that saves most."""
    result = np.full(numbers.size, -np.inf)
    for i in range(numbers.size):
        for spread in spreads:
            result[i] = max(result[i], _nats_of(share, float(numbers[i]), spread, fewest))
    return result


@compiled_kernel
def _nats_of(share: Float64, number: float, spread: float, fewest: float) -> float:
    """The same for one number and one spread. The shares of bursts that are pieces or anything at all, and how many
    messages follow each other, are fitted in a few rounds; a burst is so many messages as it is next to. Where fewer
    than the `fewest` are single messages the number is none of messages, but of packets."""
    anything, piece, following, nats, single = 0.05, 0.15, 0.2, 0.0, 0.0
    width = spread * np.sqrt(np.arange(int(share.max() * number + 0.5) + 1))
    level = np.zeros(width.size)  # of the density of so many messages, at its middle
    for _ in range(5):
        level[1:] = (1.0 - anything - piece) * (1.0 - following) / (np.sqrt(2.0 * np.pi) * width[1:])
        level[1:] *= following ** np.arange(level.size - 1)
        any_sum, piece_sum, whole_sum, messages, single = 0.0, 0.0, 0.0, 0.0, 0.0
        nats, product, as_any = np.log(number) * share.size, 1.0, anything / number
        for i in range(share.size):
            size = share[i] * number
            count = int(size + 0.5)
            as_piece = piece if size < 1.0 else 0.0
            as_whole = 0.0
            if count >= 1:
                off = (size - count) / width[count]
                as_whole = level[count] * np.exp(-0.5 * off * off) if abs(off) < 9.0 else 0.0  # 1e-18 beyond that
            total = as_any + as_piece + as_whole
            product *= total
            if i % 16 == 15:  # one logarithm for as many factors as no product of them leaves the range of numbers
                nats, product = nats + np.log(product), 1.0
            as_piece, as_whole = as_piece / total, as_whole / total
            any_sum += as_any / total
            piece_sum += as_piece
            whole_sum += as_whole
            single += as_whole if count == 1 else 0.0
            messages += count * as_whole
        nats += np.log(product)
        anything = min(max(any_sum / share.size, 0.001), 0.95)
        piece = min(max(piece_sum / share.size, 0.001), 0.95)
        most = max((anything + piece) / 0.97, 1.0)
        anything, piece = anything / most, piece / most
        following = min(max(1.0 - whole_sum / max(messages, 1e-9), 0.001), 0.9)
    return nats / share.size if single >= fewest * whole_sum else -np.inf
