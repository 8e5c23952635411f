"""Does one cluster work as a whole, or do its links serve requests that have nothing to do with each other?

Traffic that shows no steps may be training (a lossy collector hides them, a job has only begun) or something else that
is as heavy: inference servers hand caches of attention from one to the next, whenever somebody asks. Two explanations
are compared, in bits (log2 of how much likelier training makes what is seen):

* *One program.* Its collectives start on all links at once and its stages follow each other at a constant delay, and
  links of one kind carry the same bytes. So two halves of the links send at the same moments (`rhythm`), and each link
  has another one that carries what it does.
* *Requests.* They arrive by themselves, at random and of any size. The halves have no moments in common, and the
  totals of two links differ by what sums of so many independent messages differ by: the root of the sum of their
  squares (shot noise). And no size comes twice: each message is as far from the nearest other one, by size, as so many
  numbers drawn from one smooth range are. Training sends the same layers again. Sizes that do repeat say nothing, since
  requests may have a size of their own.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int32, median
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable, ranges
from llmprism.recognize.rhythm import rhythm_bits
from llmprism.recognize.rules import RULES, RecognitionRules

__all__ = ["coherence_bits"]


def coherence_bits(transfers: TransferTable, pairs: Int32, rules: RecognitionRules = RULES) -> float:
    """Bits for these pairs being those of one program, against requests that arrive by themselves.

    0 where there is one pair only: nothing can be compared with it. Clusters of training reach 2 to 40 over all
    sources, with or without steps; inference servers -9 to -2.
    """
    if pairs.size < 2:
        return 0.0
    size = _message_bytes(transfers, pairs)
    volume, noise = _volumes(transfers, pairs, size)
    order = np.argsort(volume, kind="stable")
    together = rhythm_bits(transfers, pairs[order[::2]], pairs[order[1::2]], 0.0, rules)
    together = min(together, rules.message_bits * float(np.count_nonzero(size)))
    alike = _likeness_bits(volume[order], noise[order], rules)
    return together + alike - _variety_bits(size, rules)


def _message_bytes(transfers: TransferTable, pairs: Int32) -> Float64:
    """Bytes of each row of these pairs, 0 where it is no message."""
    size = transfers.bytes[ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])]
    return np.where(size < MESSAGE_FLOOR_BYTES, 0, size).astype(np.float64)


def _variety_bits(size: Float64, rules: RecognitionRules) -> float:
    """Bits against training by how far messages are from the nearest other one, as logarithms of their sizes, in units
    of the range that they would share evenly; 0 where sizes repeat, or are all about the same."""
    ordered = np.sort(np.log(size[size > 0.0]))
    if ordered.size < rules.least_sizes:
        return 0.0
    apart = np.diff(ordered)
    nearest = np.minimum(np.append(apart, np.inf), np.append(np.inf, apart))
    low, high = np.quantile(ordered, (rules.outer_sizes, 1.0 - rules.outer_sizes))
    usual = float(median(nearest)) * ordered.size / max(float(high - low), rules.one_size)
    bits = rules.variety_bits * np.log2(max(usual, 1e-9) / rules.chance_variety)
    return float(np.clip(bits, 0.0, rules.variety_bits))


def _volumes(transfers: TransferTable, pairs: Int32, size: Float64) -> tuple[Float64, Float64]:
    """Bytes of each pair in messages (`size` of each row), and the sum of their squares."""
    pair = np.repeat(np.arange(pairs.size), transfers.pair_offsets[pairs + 1] - transfers.pair_offsets[pairs])
    total, squares = (np.bincount(pair, values, pairs.size).astype(np.float64) for values in (size, size**2))
    return total, squares


def _likeness_bits(volume: Float64, noise: Float64, rules: RecognitionRules) -> float:
    """Bits by how near each volume (ascending) is to the nearest other one, in units of what chance makes them differ
    by; of many volumes the nearest are nearer by their number."""
    apart = np.diff(volume) / np.sqrt(np.maximum(noise[1:] + noise[:-1], 1.0))
    nearest = np.minimum(np.append(apart, np.inf), np.append(np.inf, apart))
    usual = float(median(nearest)) * volume.size / 2.0
    bits = np.log2(rules.chance_distance / max(usual, 1e-9))
    return float(np.clip(bits, -rules.likeness_bits, rules.likeness_bits))
