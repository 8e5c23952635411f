"""Pairs found by their ends: many at once by a search, a few by a dictionary."""

from __future__ import annotations

import numpy as np

from llmprism.model.flows import Int32, Int64, TransferTable

__all__ = ["pair_index", "pairs_between"]


def pairs_between(transfers: TransferTable, src: Int32, dst: Int32) -> Int64:
    """The pairs with these ends, all of which the table has."""
    addresses = len(transfers.addresses)
    key = transfers.pair_src.astype(np.int64) * addresses + transfers.pair_dst
    return np.searchsorted(key, src.astype(np.int64) * addresses + dst, side="right") - 1


def pair_index(transfers: TransferTable) -> dict[tuple[int, int], int]:
    """(source, destination) → pair."""
    ends = zip(transfers.pair_src.tolist(), transfers.pair_dst.tolist(), strict=True)
    return {end: pair for pair, end in enumerate(ends)}
