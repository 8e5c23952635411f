"""What each directed pair looks like within a step: the evidence that survives split, merged and noisy records.

All of it is integrated over bytes or time, so that it does not matter where a collector ended its records:
bytes per step, *when* in the step they flow (the profile), and for the two directions of a link whether they flow at
the same time (collectives) or take turns (activations, then gradients).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int32, Int64
from llmprism.kernel import kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["Links", "PairFeatures", "links_of", "pair_features", "simultaneity"]

_SAMPLES: Final = 16
"""A long transfer is spread over this many points of its duration."""


@dataclass(frozen=True, slots=True)
class PairFeatures:
    """Per directed pair. `profile` rows sum to 1 (0 for pairs silent in all steps)."""

    step_bytes: Float64
    step_spread: Float64
    profile: Float64
    total_bytes: Float64


@dataclass(frozen=True, slots=True)
class Links:
    """Undirected links: `there` and `back` are pair indices (-1 where that direction is absent)."""

    low: Int32
    high: Int32
    there: Int32
    back: Int32

    def only(self, chosen: Bool | Int64) -> Links:
        """The chosen links, marked or listed."""
        return Links(self.low[chosen], self.high[chosen], self.there[chosen], self.back[chosen])

    def numbered_ends(self) -> tuple[int, Int64, Int64]:
        """How many members the links have, and their low and high ends with these numbered from 0 on."""
        members, ends = np.unique(np.concatenate([self.low, self.high]), return_inverse=True)
        return members.size, ends[: self.low.size], ends[self.low.size :]


def _spread_by_arrays(
    offsets: Int64, start: Int64, end: Int64, size: Int64, boundary: Int64, regular: Bool, bins: int
) -> tuple[Float64, Float64]:
    """The kernel below without a loop; sums are taken in the same order."""
    pairs, steps = offsets.size - 1, boundary.size - 1
    step = np.searchsorted(boundary, start, side="right") - 1
    rows = np.flatnonzero((step >= 0) & (step < steps))
    pair = np.repeat(np.arange(pairs), np.diff(offsets))[rows]
    amount = size[rows].astype(np.float64)
    by_step = np.bincount(pair * steps + step[rows], amount, minlength=pairs * steps)
    length = (end - start)[rows, None]
    when = start[rows, None] + length * (2 * np.arange(_SAMPLES) + 1) // (2 * _SAMPLES)
    slot = np.searchsorted(boundary, when, side="right") - 1
    inside = slot < steps
    inside[inside] = regular[slot[inside]]
    row = np.broadcast_to(np.arange(rows.size)[:, None], when.shape)[inside]
    when, slot = when[inside], slot[inside]
    phase = (when - boundary[slot]) / np.maximum(boundary[slot + 1] - boundary[slot], 1)
    place = pair[row] * bins + np.minimum((phase * bins).astype(np.int64), bins - 1)
    profile = np.bincount(place, amount[row] / _SAMPLES, minlength=pairs * bins)
    return by_step.reshape(pairs, steps).astype(np.float64), profile.reshape(pairs, bins).astype(np.float64)


@kernel(small=_spread_by_arrays)
def _spread_over_steps(
    offsets: Int64, start: Int64, end: Int64, size: Int64, boundary: Int64, regular: Bool, bins: int
) -> tuple[Float64, Float64]:
    """Bytes of each pair by step, and by slot of the regular steps.

    The samples of a transfer ascend, so they are taken slot by slot; most transfers lie in one. Sums are exact: their
    terms are multiples of 1 / _SAMPLES.
    """
    pairs, steps = offsets.size - 1, boundary.size - 1
    by_step = np.zeros((pairs, steps))
    profile = np.zeros((pairs, bins))
    for p in range(pairs):
        step = 0
        for i in range(offsets[p], offsets[p + 1]):
            while step < steps and start[i] >= boundary[step + 1]:
                step += 1
            if step >= steps:
                break
            if start[i] < boundary[0]:
                continue
            by_step[p, step] += size[i]
            length = end[i] - start[i]
            latest = start[i] + length * (2 * _SAMPLES - 1) // (2 * _SAMPLES)
            sample, k = 0, step
            while sample < _SAMPLES:
                when = start[i] + length * (2 * sample + 1) // (2 * _SAMPLES)
                while k < steps and when >= boundary[k + 1]:
                    k += 1
                if k >= steps:
                    break
                width = boundary[k + 1] - boundary[k]
                slot = int((when - boundary[k]) / width * bins)
                slot_end = boundary[k] - (-(slot + 1) * width) // bins
                before = sample
                sample = _SAMPLES if latest < slot_end else sample + 1
                while sample < _SAMPLES and start[i] + length * (2 * sample + 1) // (2 * _SAMPLES) < slot_end:
                    sample += 1
                if regular[k]:
                    profile[p, slot] += size[i] * (sample - before) / _SAMPLES
    return by_step, profile


@kernel
def _overlap(start_a: Int64, end_a: Int64, start_b: Int64, end_b: Int64) -> int:
    i, j, total = 0, 0, 0
    while i < start_a.size and j < start_b.size:
        total += max(0, min(end_a[i], end_b[j]) - max(start_a[i], start_b[j]))
        if end_a[i] < end_b[j]:
            i += 1
        else:
            j += 1
    return total


@kernel
def _simultaneity(offsets: Int64, start: Int64, end: Int64, there: Int32, back: Int32) -> Float64:
    result = np.zeros(there.size)
    for link in range(there.size):
        a, b = there[link], back[link]
        if a < 0 or b < 0:
            continue
        rows_a, rows_b = slice(offsets[a], offsets[a + 1]), slice(offsets[b], offsets[b + 1])
        busy = min((end[rows_a] - start[rows_a]).sum(), (end[rows_b] - start[rows_b]).sum())
        result[link] = _overlap(start[rows_a], end[rows_a], start[rows_b], end[rows_b]) / max(busy, 1)
    return result


def pair_features(transfers: TransferTable, clock: StepClock, rules: LayoutRules = RULES) -> PairFeatures:
    whole = clock.whole
    by_step, profile = _spread_over_steps(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns, transfers.bytes,
        clock.boundary_ns, whole, rules.kinds.profile_slots,
    )  # fmt: skip
    steady = by_step[:, whole]
    median = np.median(steady, axis=1) if steady.shape[1] else np.zeros(steady.shape[0])
    spread = np.median(np.abs(steady - median[:, None]), axis=1) if steady.shape[1] else np.zeros(steady.shape[0])
    weight = profile.sum(axis=1, keepdims=True)
    return PairFeatures(
        step_bytes=median,
        step_spread=spread / np.maximum(median, 1.0),
        profile=profile / np.maximum(weight, 1.0),
        total_bytes=by_step.sum(axis=1),
    )


def links_of(transfers: TransferTable, wanted: Bool) -> Links:
    """The undirected links among the wanted pairs."""
    pairs = np.flatnonzero(wanted)
    src, dst = transfers.pair_src[pairs].astype(np.int64), transfers.pair_dst[pairs].astype(np.int64)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    key = low * len(transfers.addresses) + high
    _, first, link_of = np.unique(key, return_index=True, return_inverse=True)
    there = np.full(first.size, -1, dtype=np.int32)
    back = np.full(first.size, -1, dtype=np.int32)
    forward = src < dst
    there[link_of[forward]] = pairs[forward]
    back[link_of[~forward]] = pairs[~forward]
    return Links(low[first].astype(np.int32), high[first].astype(np.int32), there, back)


def simultaneity(transfers: TransferTable, links: Links) -> Float64:
    """Share of the less busy direction's time during which the other direction is busy too; 0 for one-way links."""
    result: Float64 = _simultaneity(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns, links.there, links.back
    )
    return result
