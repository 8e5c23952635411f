"""What a collective of the passes serves: the pass that it ends, or the one that it begins.

Between two messages a stage computes one pass. What the pass itself needs of its peers (contexts, sums of tensor
groups, tokens) comes after what it has computed, and the message that it hands on has to wait for it:

```
 exchange   received ─── computes ─── exchange ▌sent        little time behind the exchange
 gather     received ▌ gather ─── computes ──── sent        little time before the gather
```

Parameters of a sharded stage are gathered before anything is computed, and gradients are scattered when the message
has left. So in the time before each message, from the last thing that the stage sent or received, the rest before the
collective is compared with the rest behind it. Only collectives of one burst in a pass show either; layers that
exchange one by one rest as long on both sides.

What leads into messages may be followed by gradients, of a size of their own, or by nothing but the passes that hand
on no message, in the size of all others: those of weights alone in a zero-bubble schedule, and the last one of the
first stage.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int64, evenly_spread
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable, ranges
from llmprism.parallelism.in_passes import last_of_step
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.robust import half_of_sum

__all__ = ["lead_into_messages", "rest_behind", "same_follow"]


def lead_into_messages(
    transfers: TransferTable, pairs: Int64, forward: list[tuple[int, int]], steps: int, rules: LayoutRules = RULES
) -> bool:
    """Do these collectives lead into the messages between stages?"""
    behind = rest_behind(transfers, pairs, forward, steps, rules)
    return behind is not None and behind <= rules.exchanges.leads_behind


def rest_behind(
    transfers: TransferTable, pairs: Int64, forward: list[tuple[int, int]], steps: int, rules: LayoutRules = RULES
) -> float | None:
    """Of the rests around these collectives in the time before each message, the share that is behind them: the mean
    over that time. None where there are too few messages."""
    passing = np.unique(np.array(forward, dtype=np.int64))
    members = np.intersect1d(transfers.pair_src[passing], _ends(transfers, pairs))
    if not members.size:
        return None
    weight, share = [np.zeros(0)], [np.zeros(0)]
    for member in members[evenly_spread(members.size, rules.exchanges.even_links)].tolist():
        length, behind = _rests(transfers, member, pairs, passing, steps, rules)
        weight.append(length)
        share.append(behind)
    length, behind = np.concatenate(weight), np.concatenate(share)
    if length.size < rules.exchanges.least_exchanges:
        return None
    inside = np.sort(length)[: -steps * len(weight) or None]  # the first pass of a step has waited for all of the rest
    usual = half_of_sum(inside if inside.size else length)  # one wait of a hundred passes says no more than a pass
    kept = np.minimum(length, 2.0 * usual)
    return float((kept * behind).sum() / kept.sum())


def same_follow(
    transfers: TransferTable, pairs: Int64, forward: list[tuple[int, int]], clock: StepClock,
    rules: LayoutRules = RULES,
) -> bool:  # fmt: skip
    """Is what these pairs send after the last message of their sender in a step as large, burst by burst, as what they
    send in the passes? Not where nothing follows; lengths may vary as they do in the passes."""
    rule = rules.exchanges
    last = last_of_step(transfers, np.unique(np.array(forward, dtype=np.int64)), clock)
    late, early = [np.zeros(0)], [np.zeros(0)]
    for pair in pairs[evenly_spread(pairs.size, rule.even_links)].tolist():
        size, begins = _bursts(transfers, _rows(transfers, np.array([pair])), clock.steps, rules)
        step = np.searchsorted(clock.boundary_ns, begins, side="right") - 1
        known = (step >= 0) & (step < last.shape[1])
        after = begins[known] > last[int(transfers.pair_src[pair]), step[known]]
        late.append(size[known][after])
        early.append(size[known][~after])
    followed, usual = np.concatenate(late), np.concatenate(early)
    if not (followed.size and usual.size):
        return False
    least, most = (float(np.quantile(usual, share)) for share in (1.0 - rule.in_turn, rule.in_turn))
    alike = (followed >= least * (1.0 - rule.same_hop)) & (followed <= most * (1.0 + rule.same_hop))
    return float(alike.mean()) >= rule.in_turn


def _bursts(transfers: TransferTable, rows: Int64, steps: int, rules: LayoutRules) -> tuple[Float64, Int64]:
    """Bytes and begin of each burst of these rows."""
    begins = _begins(transfers, rows, steps, rules)
    which = np.searchsorted(begins, transfers.start_ns[rows], side="right") - 1
    size: Float64 = np.bincount(which, transfers.bytes[rows], minlength=begins.size).astype(np.float64)
    return size, begins


def _rests(
    transfers: TransferTable, member: int, pairs: Int64, passing: Int64, steps: int, rules: LayoutRules
) -> tuple[Float64, Float64]:
    """Of one member: the time before each message in which a collective is busy, and of what it rests in that time the
    share behind the collective."""
    sent = _rows(transfers, passing[transfers.pair_src[passing] == member])
    received = _rows(transfers, passing[transfers.pair_dst[passing] == member])
    touching = (transfers.pair_src[pairs] == member) | (transfers.pair_dst[pairs] == member)
    own = _rows(transfers, pairs[touching])
    own = own[np.argsort(transfers.start_ns[own], kind="stable")]
    start, until = transfers.start_ns[own], np.maximum.accumulate(transfers.end_ns[own]) if own.size else own
    messages = _begins(transfers, sent, steps, rules)
    events = np.sort(np.concatenate([transfers.end_ns[sent], transfers.end_ns[received]]))
    before = np.searchsorted(events, messages) - 1
    messages, since = messages[before >= 0], events[before[before >= 0]]
    share = np.full(messages.size, 0.5)  # nothing was busy, or is while the message leaves: neither ends nor begins it
    if not own.size:
        return np.zeros(0), np.zeros(0)
    first = np.minimum(np.searchsorted(until, since, side="right"), own.size - 1)
    last = np.maximum(np.searchsorted(start, messages) - 1, 0)
    ahead = np.maximum(start[first] - since, 0).astype(np.float64)
    behind = (messages - until[last]).astype(np.float64)
    clear = (first <= last) & (until[last] > since) & (behind >= 0) & (ahead + behind > 0)
    share[clear] = behind[clear] / (ahead + behind)[clear]
    return (messages - since).astype(np.float64), share


def _begins(transfers: TransferTable, rows: Int64, steps: int, rules: LayoutRules) -> Int64:
    """When messages begin that these rows are pieces of: after rests like those between most of them, the longest rest
    of each step left out."""
    rows = rows[np.argsort(transfers.start_ns[rows], kind="stable")]
    start, until = transfers.start_ns[rows], np.maximum.accumulate(transfers.end_ns[rows]) if rows.size else rows
    gap = start[1:] - until[:-1]
    inside = np.sort(gap[gap > 0])[: -steps or None]
    apart = gap > rules.exchanges.pass_silence * half_of_sum(inside)
    begins: Int64 = start[np.concatenate([np.ones(min(rows.size, 1), dtype=np.bool_), apart])]
    return begins


def _ends(transfers: TransferTable, pairs: Int64) -> Int64:
    return np.union1d(transfers.pair_src[pairs], transfers.pair_dst[pairs]).astype(np.int64)


def _rows(transfers: TransferTable, pairs: Int64) -> Int64:
    rows = ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])
    return rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
