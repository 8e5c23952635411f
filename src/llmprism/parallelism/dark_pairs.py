"""Pairs whose exporter was dark for a while.

Bytes per step are conserved only as long as all of them are seen. When the exporter of one switch falls silent, its
pairs stop in the records while all others go on, and steps counted by the bytes of all pairs run late until it is back.
So pairs that are silent for several steps while most are not leave the counting to the others.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.kernel import kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["without_dark_pairs"]


def without_dark_pairs(transfers: TransferTable, pairs: Bool, clock: StepClock, rules: LayoutRules = RULES) -> Bool:
    """Those of the pairs that were seen throughout; all where too few were."""
    if not clock.steps:
        return pairs
    stepping_ns = int(clock.boundary_ns[1])  # not the set-up before and in the first step
    messages, silence_ns = _longest_silences(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns, transfers.bytes, pairs, stepping_ns,
        MESSAGE_FLOOR_BYTES,
    )  # fmt: skip
    stepping = pairs & (messages >= rules.ends.messages_per_step * clock.steps)  # others say nothing by being silent
    dark = stepping & (silence_ns > rules.ends.dark_steps * clock.period_ns)
    lit: Bool = stepping & ~dark
    return pairs & ~dark if dark.any() and lit.sum() >= rules.ends.lit_pairs * stepping.sum() else pairs


@kernel
def _longest_silences(
    offsets: Int64, start: Int64, end: Int64, size: Int64, wanted: Bool, since: int, floor: int
) -> tuple[Int64, Int64]:
    """Messages of each wanted pair, and its longest silence between two of them that began at `since` or later."""
    messages, longest = np.zeros(wanted.size, dtype=np.int64), np.zeros(wanted.size, dtype=np.int64)
    for pair in np.flatnonzero(wanted):
        before = -1
        for row in range(offsets[pair], offsets[pair + 1]):
            if size[row] >= floor:
                if before >= 0 and end[before] >= since:
                    longest[pair] = max(longest[pair], start[row] - end[before])
                messages[pair] += 1
                before = row
    return messages, longest
