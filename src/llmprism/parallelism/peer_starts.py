"""Do the rails of a server begin their messages at the same moment?

The rails of one collective begin together: it starts when all of its members are there, and whoever waits for a part
that another rail has already waits for all of it. From there on every rail has queues of its own, so rails of one
collective may well end farther apart than members of one rail do; their ends tell little then. Processes of a
tensor-parallel group serve groups of their own, and each begins when its host gets to it, 50 us to milliseconds after
the others. So the share of the messages of one GPU that have a counterpart of another in the same moment is near
nothing or far from it, whatever the clock of the job is. Time stamps have to be fine enough to show it.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from llmprism.arrays import Bool, Int64, evenly_spread, median
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.peer_sends import from_nearest
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["starting_together"]


def starting_together(
    transfers: TransferTable, cells: list[tuple[int, ...]], pairs: Bool, rules: LayoutRules = RULES
) -> float:
    """Share of the messages on `pairs` that GPUs of one server start in the same moment: of the two that do so least,
    the median of all servers. NaN where none of them sends enough."""
    sent = _Starts(transfers, pairs)
    least = [_least_shared([sent.of(member) for member in cell], rules) for cell in cells]
    known = [share for share in least if np.isfinite(share)]
    return float(median(np.array(known))) if known else float("nan")


def _least_shared(starts: list[Int64], rules: LayoutRules) -> float:
    """The smallest share of one's starts that another has, too; NaN where no two have enough of them."""
    rule = rules.peers
    enough = [times for times in starts if times.size >= rule.least_messages]
    shares = []
    for one, other in combinations(enough, 2):
        nearest = from_nearest(one[evenly_spread(one.size, rule.compared_messages)], other)
        shares.append(float((np.abs(nearest - median(nearest)) <= rule.finest_ns).mean()))
    return min(shares, default=float("nan"))


class _Starts:
    """When members begin messages on some of their pairs, in order."""

    def __init__(self, transfers: TransferTable, pairs: Bool):
        self._transfers, self._pairs = transfers, np.flatnonzero(pairs)
        self._source = transfers.pair_src[self._pairs]

    def of(self, member: int) -> Int64:
        transfers, none = self._transfers, np.zeros(0, dtype=np.int64)
        own = self._pairs[self._source == member].tolist()
        rows = [slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1])) for pair in own]
        starts = [transfers.start_ns[part][transfers.bytes[part] >= MESSAGE_FLOOR_BYTES] for part in rows]
        return np.sort(np.concatenate([none, *starts]))
