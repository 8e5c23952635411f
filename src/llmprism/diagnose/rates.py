"""How fast each pair moved data in each step.

*Local rate.* How fast a pair moves one quantum of bytes, pauses inside it included, for its median byte. A peer that
waits for a slow NIC still passes on what it has got at full speed; only the pairs of the slow NIC itself take long for
every quantum. The rate while something flows would not tell: a throttled link sends short bursts at line rate.

*Coarse stamps.* A collector that counts milliseconds cannot time a quantum: it takes no time at all, or a whole unit.
Rounding errors cancel in sums, so there the rate is all bytes of the step over the time of all its transfers, and a
step in which these are too short to be distinguished from rounding has no rate.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.kernel import kernel
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.timeline import Steps

__all__ = ["pair_rates", "rates_of_quanta", "stamp_resolution_ns", "timed_pairs", "typical_size"]


def pair_rates(transfers: TransferTable, steps: Steps, judged: Bool, rules: FaultRules = RULES) -> Float64:
    """Gb/s (bits per ns) per pair and step; NaN where nothing was measured and for pairs that are not `judged`."""
    if not steps.count or not transfers.pair_count:
        return np.full((transfers.pair_count, steps.count), np.nan)
    rates = _rates(transfers, steps, rules)
    rates[~judged] = np.nan
    return rates


def rates_of_quanta(
    transfers: TransferTable, steps: Steps, quantum: Float64, judged: Bool, rules: FaultRules = RULES
) -> Float64:
    """Gb/s per pair and step for a quantum of bytes of each pair, pauses inside it included; NaN where a step has
    fewer, where they are too short to be timed and for pairs that are not `judged`."""
    rates = _local_rates(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns, transfers.bytes,
        steps.start_ns, steps.end_ns, quantum, rules.evidence.typical_byte,
    )  # fmt: skip
    short = 8.0 * quantum[:, None] < rules.evidence.timed_units * stamp_resolution_ns(transfers, rules) * rates
    rates[short | ~judged[:, None]] = np.nan
    return rates


def timed_pairs(transfers: TransferTable, rules: FaultRules = RULES) -> Bool:
    """Pairs whose messages are large enough to show that a link is slow: a throttle lets smaller ones pass at once."""
    rule = rules.evidence
    if not transfers.pair_count:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(typical_size(transfers) * rule.quantum_share >= rule.timed_share * rule.quantum_bytes)


def stamp_resolution_ns(transfers: TransferTable, rules: FaultRules = RULES) -> int:
    """The unit of the collector's clock: what divides the duration of every record and the time between records of the
    same pair; 1 where that is not known. Offsets of the exporters' clocks cancel in both."""
    if _common_divisor(transfers, rules.evidence.few_transfers) == 1:  # then nothing divides them all
        return 1
    single = transfers.records == 1
    if np.count_nonzero((transfers.end_ns != transfers.start_ns) & single) < rules.evidence.durations:
        return 1
    return max(_common_divisor(transfers, single.size), 1)


def _common_divisor(transfers: TransferTable, count: int) -> int:
    """Of the first transfers: what divides durations and distances of those that are one record; 0 without any."""
    single = np.flatnonzero(transfers.records[:count] == 1)
    duration = transfers.end_ns[single] - transfers.start_ns[single]
    between = np.diff(transfers.start_ns[single])[np.diff(transfers.pair_of_row[single]) == 0]
    return int(np.gcd.reduce(np.concatenate([duration, between])))


def _rates(transfers: TransferTable, steps: Steps, rules: FaultRules) -> Float64:
    unit = stamp_resolution_ns(transfers, rules)
    if unit == 1:
        return _quantum_rates(transfers, steps, rules)
    large = transfers.bytes >= MESSAGE_FLOOR_BYTES
    size, span = float(transfers.bytes[large].sum()), float((transfers.end_ns - transfers.start_ns)[large].sum())
    if rules.evidence.quantum_bytes * span >= rules.evidence.timed_units * unit * size:
        return _quantum_rates(transfers, steps, rules)
    return _summed_rates(transfers, steps, unit, 8.0 * size / max(span, unit), rules)


def _quantum_rates(transfers: TransferTable, steps: Steps, rules: FaultRules) -> Float64:
    per_step = np.minimum(transfers.pair_bytes / (steps.count + 1), typical_size(transfers))
    quantum = np.minimum(rules.evidence.quantum_bytes, rules.evidence.quantum_share * per_step)
    return _local_rates(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns, transfers.bytes,
        steps.start_ns, steps.end_ns, quantum, rules.evidence.typical_byte,
    )  # fmt: skip


def typical_size(transfers: TransferTable) -> Float64:
    """Size of the transfer that holds the mean byte of a pair: a quantum that spans two of them times what lies
    between them. All-to-alls are made of many small ones."""
    weighted = np.add.reduceat(transfers.bytes.astype(np.float64) ** 2, transfers.pair_offsets[:-1])
    return np.asarray(weighted / np.maximum(transfers.pair_bytes, 1))


def _summed_rates(transfers: TransferTable, steps: Steps, unit: int, usual: float, rules: FaultRules) -> Float64:
    rows = np.flatnonzero(transfers.bytes >= MESSAGE_FLOOR_BYTES)
    step = steps.at(transfers.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    shape = (transfers.pair_count, steps.count)
    cell = transfers.pair_of_row[rows].astype(np.int64) * steps.count + step
    size = np.bincount(cell, transfers.bytes[rows], minlength=shape[0] * shape[1]).reshape(shape)
    took = (transfers.end_ns - transfers.start_ns)[rows]
    span = np.bincount(cell, took, minlength=shape[0] * shape[1]).reshape(shape)
    short = np.maximum(8.0 * size / usual, 0.5 * span) < rules.evidence.summed_units * unit
    return np.where((size > 0) & ~short, 8.0 * size / np.maximum(span, unit), np.nan)


@kernel
def _upper(values: Float64, weights: Float64, quantile: float) -> float:
    """The value below which this share of the weight lies, by repeated partition (both arrays change their order)."""
    wanted, below = quantile * weights.sum(), 0.0
    low, high = 0, values.size - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                weights[i], weights[j] = weights[j], weights[i]
                i += 1
                j -= 1
        left = below + weights[low : j + 1].sum()
        middle = left + weights[j + 1 : i].sum()
        if wanted < left:
            high = j
        elif wanted >= middle:
            if i > high:
                return float(values[high])
            low, below = i, middle
        else:
            return float(values[j + 1])
    return float(values[low])


@kernel
def _local_rates(
    offsets: Int64,
    start: Int64,
    end: Int64,
    size: Int64,
    begin: Int64,
    finish: Int64,
    quantum: Float64,
    quantile: float,
) -> Float64:
    """Bits per ns at which each pair moves a quantum, per step."""
    pairs, steps = offsets.size - 1, begin.size
    rates = np.full((pairs, steps), np.nan)
    longest = 0
    for p in range(pairs):
        longest = max(longest, offsets[p + 1] - offsets[p])
    found, weight = np.empty(longest), np.empty(longest)
    for p in range(pairs):
        i = offsets[p]
        for k in range(steps):
            while i < offsets[p + 1] and start[i] < begin[k]:
                i += 1
            j = i
            while j < offsets[p + 1] and start[j] < finish[k]:
                j += 1
            count, last, amount = 0, i, 0.0
            for first in range(i, j):
                while last < j and amount < quantum[p]:
                    amount += size[last]
                    last += 1
                if amount < quantum[p] or last <= first:
                    break
                found[count] = 8.0 * amount / max(end[last - 1] - start[first], 1)
                weight[count] = size[first]
                count += 1
                amount -= size[first]
            if count:
                rates[p, k] = _upper(found[:count], weight[:count], quantile)
            i = j
    return rates
