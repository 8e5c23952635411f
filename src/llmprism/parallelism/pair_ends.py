"""Pairs found by their ends, a few at a time (`TransferTable.pairs_between` finds many at once); order of ends."""

from __future__ import annotations

import re

from llmprism.model.flows import TransferTable

__all__ = ["natural_order", "pair_index"]


def pair_index(transfers: TransferTable) -> dict[tuple[int, int], int]:
    """(source, destination) → pair."""
    ends = zip(transfers.pair_src.tolist(), transfers.pair_dst.tolist(), strict=True)
    return {end: pair for pair, end in enumerate(ends)}


def natural_order(address: str) -> list[tuple[int, str]]:
    """A key that sorts addresses with their numbers as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", address)]
