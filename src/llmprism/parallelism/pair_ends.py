"""Pairs found by their ends, a few at a time; `TransferTable.pairs_between` finds many at once."""

from __future__ import annotations

from llmprism.model.flows import TransferTable

__all__ = ["pair_index"]


def pair_index(transfers: TransferTable) -> dict[tuple[int, int], int]:
    """(source, destination) → pair."""
    ends = zip(transfers.pair_src.tolist(), transfers.pair_dst.tolist(), strict=True)
    return {end: pair for pair, end in enumerate(ends)}
