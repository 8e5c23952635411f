"""The collectives that gradients may be added up by.

To add one: a file here that makes a `Collective` (see `collective`), and its name in `COLLECTIVES`. It is then accepted
in scenarios (`collective = "..."`), and `rings.Wiring` lays it over servers and rails. How the members of a lane take
turns is the operation's (`ops.OpType`, run by `engine`); rings and trees are there.
"""

from typing import Final

from llmprism.sim.collectives.collective import Collective
from llmprism.sim.collectives.ring import HIERARCHICAL, RING
from llmprism.sim.collectives.tree import TREE

__all__ = ["COLLECTIVES", "HIERARCHICAL", "RING", "TREE", "Collective"]

COLLECTIVES: Final[dict[str, Collective]] = {one.name: one for one in (RING, TREE, HIERARCHICAL)}
