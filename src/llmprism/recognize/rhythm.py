"""Do two clusters send at the same moments?

Step clocks say too little about jobs that hardly ever rest: in fully sharded training every rail may take another pause
for the end of a step, and a lossy collector moves boundaries. But a collective starts on all rails at once, and a
pipeline's stages follow each other at a constant distance. So the starts of messages are counted in short slots and the
two series are correlated at all delays. The best delay within one step is compared with the best ones within each
other step of distance, which are what chance and the common period give anyway:

* for one job the delay within one step is better than all others, because only it joins what happened together; the
  jitter of the steps smears the rest. In bits: how much likelier so high a correlation is than one of the others;
* two jobs drift through each other; no delay is better than the rest;
* rails send together: the best delay is none, of all that chance could have preferred.

Slow changes of the amount of traffic, in which any two jobs agree that start together, are taken away first.

Two jobs on the same servers answer each other faintly, because they wait for the same processors and links. So a second
question is put: what repeats in one must repeat in the other. Where both have a clear period of their own and neither
shows anything at the other's, they are two jobs, whatever their messages have in common.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int32, Int64, median
from llmprism.kernel import kernel
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable, ranges
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.stats.robust import MAD_TO_SIGMA

__all__ = ["rhythm_bits"]


def rhythm_bits(
    transfers: TransferTable, one: Int32, other: Int32, step_ns: float, rules: RecognitionRules = RULES
) -> float:
    """Bits for two sets of pairs being of one job, by the starts of their messages; 0 where there are too few to tell.

    `step_ns` is about one step, or 0 where none is known. Rails of one job reach 3 to 40 over all sources, other jobs
    -6 to 1.
    """
    first, second = _starts(transfers, one), _starts(transfers, other)
    if not (first.size and second.size):
        return 0.0
    begin, end = max(int(first.min()), int(second.min())), min(int(first.max()), int(second.max()))
    longest = (end - begin) / rules.delays_in_span
    step_ns = min(step_ns, longest) if step_ns > 0 else longest / 2.0
    if _periods_contradict(first, second, begin, end, step_ns, rules):
        return -rules.one_answer_bits
    scales = []
    for parts in rules.slots_per_step:
        slot_ns = max(int(step_ns / parts), rules.shortest_slot_ns)
        slots = _fast_length(min((end - begin) // slot_ns, rules.most_slots))
        width = int(step_ns / slot_ns)
        if slots >= rules.least_slots and width >= 4:
            scales.append((slot_ns, slots, width))
    best = -np.inf
    for slot_ns, slots, width in scales:
        one_side, other_side = (_counts(side, begin, slot_ns, slots, width, rules) for side in (first, second))
        best = max(best, _bits(one_side, other_side, width, rules))
        if best >= rules.most_bits:
            break  # none says more
    return best - np.log2(len(scales)) / 2.0 if scales else 0.0


def _bits(first: Float64, second: Float64, width: int, rules: RecognitionRules) -> float:
    """Bits by the correlation at delays of up to half a step (of `width` slots) and beyond."""
    slots, half = first.size, width // 2
    steps = (slots - 2 * half - 1) // width
    if steps < 3:
        return 0.0
    spectrum = np.fft.rfft(second)
    np.multiply(np.fft.rfft(first), np.conj(spectrum, out=spectrum), out=spectrum)
    at_delay = np.fft.irfft(spectrum, slots)
    near = np.concatenate([at_delay[-half:], at_delay[: half + 1]])
    others = at_delay[half + 1 : half + 1 + steps * width].reshape(steps, width).max(axis=1)
    usual = float(median(others))
    spread = max(MAD_TO_SIGMA * float(median(np.abs(others - usual))), rules.correlation_noise)
    spread *= 1.0 + 2.0 / steps  # of few it is not well known
    best = float(near.max())
    score = max(best - usual, 0.0) / spread
    coherent = np.log2(spread * np.sqrt(2.0 * np.pi) / max(1.0 - usual, spread)) + 0.5 * score**2 / np.log(2.0)
    by_rank = np.log2((steps + 1) / (int((others >= best).sum()) + 1)) - rules.rank_price
    by_rank += max(best - float(others.max()), 0.0) / spread / np.log(2.0)  # the tail of what chance gives
    at_once = abs(int(near.argmax()) - half) <= 1  # three of all delays
    together = np.log2(0.5 * near.size / 3 + 0.5) if at_once else -1.0
    return max(-rules.most_bits, min(float(min(coherent, by_rank) + together), rules.most_bits))


def _periods_contradict(
    first: Int64, second: Int64, begin: int, end: int, step_ns: float, rules: RecognitionRules
) -> bool:
    """Has each of them a clear period at which the other does not repeat itself?"""
    slot_ns = max((end - begin) // rules.repetition_slots, rules.repetition_slot_ns)
    slots = _fast_length((end - begin) // slot_ns)
    if slots < rules.least_slots:
        return False
    width = int(np.clip(2.0 * step_ns / slot_ns, 50, max(slots // 4, 50)))
    one = _repetition(_counts(first, begin, slot_ns, slots, width, rules))
    mine = _period(one)
    if one[mine] < rules.clear_repetition:
        return False
    other = _repetition(_counts(second, begin, slot_ns, slots, width, rules))
    theirs = _period(other)
    if other[theirs] < rules.clear_repetition:
        return False
    missed = max(_near(one, theirs, rules) / one[mine], _near(other, mine, rules) / other[theirs])
    return bool(missed < rules.no_repetition)


def _repetition(counts: Float64) -> Float64:
    """Correlation of a series with itself at delays of up to a quarter of its length: so much longer must the circle be
    on which it is computed."""
    delays = max(counts.size // 4, 2)
    size = counts.size + delays
    return np.fft.irfft(np.abs(np.fft.rfft(counts, size)) ** 2, size)[:delays]


def _period(repetition: Float64) -> int:
    """The delay at which a series repeats itself best, past the first at which it does not."""
    apart = np.flatnonzero(repetition < 0.0)
    first = max(int(apart[0]) if apart.size else 1, 1)
    return first + int(np.argmax(repetition[first:]))


def _near(repetition: Float64, delay: int, rules: RecognitionRules) -> float:
    """The best repetition next to a delay."""
    reach = max(round(rules.same_delay * delay), 1)
    return float(repetition[max(delay - reach, 1) : delay + reach + 1].max())


def _starts(transfers: TransferTable, pairs: Int32) -> Int64:
    return _message_starts(
        transfers.pair_offsets, transfers.start_ns, transfers.bytes, pairs.astype(np.int64), MESSAGE_FLOOR_BYTES
    )


def _message_starts_by_arrays(offsets: Int64, start: Int64, size: Int64, pairs: Int64, floor: int) -> Int64:
    """The kernel below without a loop."""
    rows = ranges(offsets[pairs], offsets[pairs + 1])
    return start[rows[size[rows] >= floor]]


@kernel(by_arrays=_message_starts_by_arrays)
def _message_starts(offsets: Int64, start: Int64, size: Int64, pairs: Int64, floor: int) -> Int64:
    """Starts of the messages of these pairs: transfers of at least `floor` bytes."""
    rows = 0
    for pair in pairs:
        rows += offsets[pair + 1] - offsets[pair]
    found, count = np.empty(rows, dtype=np.int64), 0
    for pair in pairs:
        for row in range(offsets[pair], offsets[pair + 1]):
            if size[row] >= floor:
                found[count] = start[row]
                count += 1
    return found[:count]


def _counts(start: Int64, begin: int, slot_ns: int, slots: int, width: int, rules: RecognitionRules) -> Float64:
    """Messages in each slot against what is usual within half a step of it, in units of its spread; of length one."""
    counts, usual = _with_usual(start, begin, slot_ns, slots, width // 2)
    if not usual.size:
        return counts
    quiet = rules.quiet_slot * _mean(counts)
    counts -= usual
    usual += quiet
    counts /= np.sqrt(usual, out=usual)
    counts -= _mean(counts)
    length = float(np.sqrt(np.add.reduce(np.square(counts, out=usual))))
    if length > 0:
        counts /= length
    return counts


def _mean(values: Float64) -> float:
    """That of NumPy, without its preparations, which take longer than adding the values up."""
    return float(np.add.reduce(values) / values.size)


def _with_usual_by_arrays(start: Int64, begin: int, slot_ns: int, slots: int, reach: int) -> tuple[Float64, Float64]:
    """The kernel below without a loop."""
    place = (start - begin) // slot_ns
    counts = np.bincount(place[(place >= 0) & (place < slots)], minlength=slots).astype(np.float64)
    busy = counts[counts > 0]
    if not busy.size:
        return counts, busy
    counts = np.minimum(counts, max(float(np.quantile(busy, 0.9)), 1.0))
    sums = np.concatenate([[0.0], np.cumsum(counts)])
    low, high = np.maximum(np.arange(slots) - reach, 0), np.minimum(np.arange(slots) + reach + 1, slots)
    return counts, (sums[high] - sums[low]) / (high - low)


@kernel(by_arrays=_with_usual_by_arrays)
def _with_usual(start: Int64, begin: int, slot_ns: int, slots: int, reach: int) -> tuple[Float64, Float64]:
    """Messages in each slot, none counted for more than the ninth decile of those that have any; and their mean over
    `reach` slots either way. Where there is no message the second is empty."""
    found = np.zeros(slots, dtype=np.int64)
    for moment in start:
        if moment >= begin:
            place = (moment - begin) // slot_ns
            if place < slots:
                found[place] += 1
    counts, sums = np.empty(slots), np.zeros(slots + 1)
    most = _ninth_decile(found)
    if most == 0.0:
        counts[:] = 0.0
        return counts, counts[:0]
    for slot in range(slots):
        counts[slot] = min(float(found[slot]), max(most, 1.0))
        sums[slot + 1] = sums[slot] + counts[slot]
    usual = np.empty(slots)
    inner = max(slots - reach, reach)  # from `reach` up to there nothing is cut off at either end
    for slot in range(min(reach, slots)):
        high = min(slot + reach + 1, slots)
        usual[slot] = (sums[high] - sums[0]) / high
    for slot in range(reach, slots - reach):
        usual[slot] = (sums[slot + reach + 1] - sums[slot - reach]) / (2 * reach + 1)
    for slot in range(inner, slots):
        usual[slot] = (sums[slots] - sums[slot - reach]) / (slots - slot + reach)
    return counts, usual


@kernel
def _ninth_decile(counts: Int64) -> float:
    """The ninth decile of the counts above none, as NumPy's quantile has it; 0 where all are none."""
    slots_with, busy = np.zeros(counts.max() + 1, dtype=np.int64), 0
    for count in counts:
        if count > 0:  # most are none
            slots_with[count] += 1
            busy += 1
    if busy == 0:
        return 0.0
    at = 0.9 * (busy - 1)
    below, value = slots_with[1], 1
    while below <= int(at):
        value += 1
        below += slots_with[value]
    after = value
    while below <= int(at) + 1 and after + 1 < slots_with.size:
        after += 1
        below += slots_with[after]
    share, apart = at - int(at), float(after - value)
    return float(value + apart * share) if share < 0.5 else float(after - apart * (1.0 - share))


def _fast_length(slots: int) -> int:
    """The largest length at most this one that is a power of two or five, six or seven quarters of one."""
    if slots < 8:
        return int(slots)
    power = 1 << (int(slots).bit_length() - 1)
    return max(size for size in (power, power * 5 // 4, power * 3 // 2, power * 7 // 4) if size <= slots)
