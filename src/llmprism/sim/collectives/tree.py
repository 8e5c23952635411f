"""A binary tree: everything goes up to the root and down again."""

from __future__ import annotations

from typing import Final

from llmprism.sim.collectives.collective import Collective, PairOf
from llmprism.sim.ops import INVISIBLE, OpType

__all__ = ["TREE", "tree_lane"]


def tree_lane(pair: PairOf, nics: list[int]) -> list[int]:
    """A binary heap: the parent of position i is (i - 1) // 2; the root has none. First all ways up, then down."""
    up = [pair(nic, nics[(i - 1) // 2]) if i else INVISIBLE for i, nic in enumerate(nics)]
    down = [pair(nics[(i - 1) // 2], nic) if i else INVISIBLE for i, nic in enumerate(nics)]
    return up + down


TREE: Final = Collective("tree", OpType.TREE, tree_lane, volume=lambda size, _members, _half: size, halves=False)
