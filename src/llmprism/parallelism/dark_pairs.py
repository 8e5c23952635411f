"""Pairs whose exporter was dark for a while.

Bytes per step are conserved only as long as all of them are seen. When the exporter of one switch falls silent, its
pairs stop in the records while all others go on, and steps counted by the bytes of all pairs run late until it is back.
So pairs that are silent for several steps while most are not leave the counting to the others.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable

Bool = NDArray[np.bool_]

__all__ = ["without_dark_pairs"]

DARK_STEPS: Final = 3.0
"""Steps of silence that no pair of a running job keeps."""

OFTEN: Final = 0.5
"""Messages per step from which a pair's silence says anything: others send only now and then."""

MOST: Final = 0.6
"""Share of the pairs that must be free of such silences: a pause of the whole job darkens no exporter."""


def without_dark_pairs(transfers: TransferTable, pairs: Bool, clock: StepClock) -> Bool:
    """Those of the pairs that were seen throughout; all where too few were."""
    rows = np.flatnonzero(transfers.messages_of(pairs))
    if rows.size < 2 or not clock.steps:
        return pairs
    pair = transfers.pair_of_row[rows]
    silence = np.where(pair[1:] == pair[:-1], transfers.start_ns[rows[1:]] - transfers.end_ns[rows[:-1]], 0)
    dark = np.zeros(transfers.pair_count, dtype=np.bool_)
    stepping = transfers.end_ns[rows[:-1]] >= clock.boundary_ns[1]  # not the set-up before and in the first step
    dark[pair[1:][stepping & (silence > DARK_STEPS * clock.period_ns)]] = True
    dark &= np.bincount(pair, minlength=transfers.pair_count) >= OFTEN * clock.steps
    steady: Bool = pairs & ~dark
    return steady if dark.any() and steady.sum() >= MOST * pairs.sum() else pairs
