"""Contexts of one replica without pipelines: what the ring of the gradients carries after every pass.

Such contexts take the very pairs of the gradients, so neither bytes nor a contrast with other pairs shows them. But
gradients are added up once in a step, and contexts are exchanged in every pass, each time the same bytes. With
accumulated micro-batches passes take turns, one forward and one backward, which is longer:

```
 pause   short    long   short    long    long (optimizer, the next forward pass)
 bytes        c       c       c       c + gradients
```

A train of equal bursts whose pauses alternate, again and again, and then far more bytes: nothing else does that. Layers
that are gathered and scattered come in one even train after the other, buckets of gradients while the backward pass
lasts, and gradients that are reduced in two buckets after every pass leave no more than the parameters that are
gathered once: two of their bursts. Trains need no clock. One micro-batch has no alternating pauses, and stays with the
gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, evenly_spread, median
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.robust import half_of_sum

__all__ = ["PassExchanges", "pass_exchanges"]


@dataclass(frozen=True, slots=True)
class PassExchanges:
    """Per pair: is something exchanged after every pass? Per row of the table: is it of that?"""

    pairs: Bool
    rows: Bool


@dataclass(frozen=True, slots=True)
class _Trains:
    """Of one pair: its rows, the burst of each, and which bursts are of trains."""

    rows: Int64
    burst: Int64
    even: Bool


def pass_exchanges(transfers: TransferTable, pairs: Int64, rules: LayoutRules = RULES) -> PassExchanges | None:
    """What these pairs of gradients carry besides; None where not all of their members exchange it. Rings may add up
    gradients both ways round and exchange one way, so not all of the pairs need carry it."""
    some = pairs[evenly_spread(pairs.size, rules.exchanges.even_links)] if pairs.size else pairs
    if not any(_trains(transfers, pair, rules) is not None for pair in some.tolist()):
        return None
    inside = np.zeros(transfers.pair_count, dtype=np.bool_)
    rows = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    for pair in pairs.tolist():
        trains = _trains(transfers, pair, rules)
        if trains is not None:
            inside[pair] = True
            rows[trains.rows[trains.even[trains.burst]]] = True
    ends = [np.union1d(transfers.pair_src[of], transfers.pair_dst[of]).size for of in (np.flatnonzero(inside), pairs)]
    return PassExchanges(inside, rows) if ends[0] == ends[1] else None


def _trains(transfers: TransferTable, pair: int, rules: LayoutRules) -> _Trains | None:
    """The trains of a pair; None where they are too short, do not alternate, or little follows them."""
    rule = rules.exchanges
    every = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
    rows = every[transfers.bytes[every] >= MESSAGE_FLOOR_BYTES]
    if rows.size < rule.least_exchanges:
        return None
    rows = rows[np.argsort(transfers.start_ns[rows], kind="stable")]
    gap = transfers.start_ns[rows[1:]] - np.maximum.accumulate(transfers.end_ns[rows])[:-1]
    first = np.concatenate([[0], np.flatnonzero(gap > rule.pass_silence * half_of_sum(gap[gap > 0])) + 1])
    size = np.add.reduceat(transfers.bytes[rows], first).astype(np.float64)
    pause = gap[first[1:] - 1].astype(np.float64)
    even = np.abs(np.log(size / median(size))) <= rule.same_hop
    if not (_in_every_step(even, rules) and _alternate(even, pause, rules)):
        return None
    if _between(even, size) < rule.gradients_follow * float(median(size)):
        return None
    burst = np.repeat(np.arange(first.size), np.diff(np.append(first, rows.size)))
    return _Trains(rows, burst, even)


def _in_every_step(even: Bool, rules: LayoutRules) -> bool:
    """Are most trains as long as each other, but for one exchange that lies with the gradients? Buckets of gradients
    that a collector puts together now and then end a train anywhere."""
    edge = np.flatnonzero(np.diff(np.concatenate([[False], even, [False]]).astype(np.int8)))
    length = (edge[1::2] - edge[::2])[1:-1]  # the window may begin and end in a train
    if length.size < rules.exchanges.least_trains:
        return False
    return float((np.abs(length - median(length)) <= 1.0).mean()) >= rules.exchanges.in_turn


def _alternate(even: Bool, pause: Float64, rules: LayoutRules) -> bool:
    """Do the pauses of trains become longer and shorter in turn? That before the gradients is one of them where the
    last exchange lies with these, and is none where it does not."""
    led_out = even[:-1]
    return any(_in_turn(inside, pause, rules) for inside in (led_out & even[1:], led_out))


def _in_turn(inside: Bool, pause: Float64, rules: LayoutRules) -> bool:
    """Do these of the pauses, in the order of all, become longer and shorter in turn?"""
    rule = rules.exchanges
    change = np.log(np.maximum(pause[1:], 1.0) / np.maximum(pause[:-1], 1.0))
    known = inside[1:] & inside[:-1]
    turns = known[1:] & known[:-1]
    if int(turns.sum()) < rule.least_turns:
        return False
    clear = np.minimum(np.abs(change[1:]), np.abs(change[:-1])) >= np.log(rule.longer_backward)
    opposite = change[1:] * change[:-1] < 0.0
    return float((opposite & clear)[turns].mean()) >= rule.in_turn


def _between(even: Bool, size: Float64) -> float:
    """Bytes between two trains, as a rule."""
    number = np.cumsum(even[1:] & ~even[:-1])  # trains begun since the first burst
    other = ~even[1:]
    if not other.any():
        return 0.0
    follows = np.bincount(number[other], size[1:][other])
    return float(median(follows[follows > 0]))
