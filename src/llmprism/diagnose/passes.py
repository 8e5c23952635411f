"""Which pairs of a job pass which places: NICs, links both ways and one way, switches, and the group they belong to.

What lies on the way is a property of the path, so names are looked at once per path, and pairs know their paths by
number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.diagnose.evidence import JobEvidence
from llmprism.kernel import kernel
from llmprism.model.finding import WhereType
from llmprism.model.flows import Int64, TransferTable, ranges

Place = tuple[WhereType, str | tuple[str, ...]]

__all__ = ["ONE_WAY", "Passes", "Place", "passes_of"]

PATH_SHARE: Final = 0.1
"""Share of a pair's bytes from which a path is one of its own."""

ONE_WAY: Final = "one way"
"""Marks a link in one direction as a place of its own: what goes the other way need not be slow."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The pairs through place number `i` are `pairs[offsets[i]:offsets[i + 1]]`, ascending; every place has some."""

    number: dict[Place, int]
    pairs: Int64
    offsets: Int64

    @classmethod
    def none(cls) -> Passes:
        return cls({}, np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def through(self, place: Place) -> Int64:
        """The pairs that pass a place."""
        if place not in self.number:
            return self.pairs[:0]
        number = self.number[place]
        return self.pairs[self.offsets[number] : self.offsets[number + 1]]


def passes_of(evidence: JobEvidence, pairs: Int64) -> Passes:
    """The places that these pairs (ascending) of a job pass."""
    number: dict[Place, int] = {}
    parts = (
        _nics(evidence.job.transfers, pairs, number),
        _on_the_way(evidence.job.transfers, pairs, number),
        _groups(evidence, pairs, number),
    )
    pair, place = (np.concatenate(column) for column in zip(*parts, strict=True))
    offsets = np.zeros(len(number) + 1, dtype=np.int64)
    np.cumsum(np.bincount(place, minlength=len(number)), out=offsets[1:])
    return Passes(number, pair[np.lexsort((pair, place))], offsets)


def _numbers(places: Iterable[Place], number: dict[Place, int]) -> Int64:
    """The numbers of some places; new ones get the next."""
    return np.array([number.setdefault(place, len(number)) for place in places], dtype=np.int64)


def _nics(transfers: TransferTable, pairs: Int64, number: dict[Place, int]) -> tuple[Int64, Int64]:
    """Pairs and the numbers of the NICs at both of their ends."""
    ends, end = np.unique(np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]]), return_inverse=True)
    nics = _numbers(((WhereType.NIC, transfers.addresses[address]) for address in ends.tolist()), number)
    return np.tile(pairs, 2), nics[end]


def _groups(evidence: JobEvidence, pairs: Int64, number: dict[Place, int]) -> tuple[Int64, Int64]:
    """Pairs and the numbers of the groups whose collectives they carry."""
    addresses, groups = evidence.job.transfers.addresses, evidence.layout.groups
    pairs = pairs[evidence.group_of_pair[pairs] >= 0]
    used, group = np.unique(evidence.group_of_pair[pairs], return_inverse=True)
    members = (tuple(addresses[member] for member in groups[index].members) for index in used.tolist())
    return pairs, _numbers(((WhereType.GROUP, names) for names in members), number)[group]


def _on_the_way(transfers: TransferTable, pairs: Int64, number: dict[Place, int]) -> tuple[Int64, Int64]:
    """Pairs and the numbers of the links and switches on their paths; paths are numbered as the pairs come to them."""
    pair, path = _main_paths(transfers.pair_offsets, transfers.path, transfers.bytes, len(transfers.paths), PATH_SHARE)
    keep = np.isin(pair, pairs)
    pair, path = pair[keep], path[keep]
    order = np.lexsort((path, pair))
    pair, path = pair[order], path[order]
    used, first, index = np.unique(path, return_index=True, return_inverse=True)
    by_path = [np.zeros(0, dtype=np.int64)] * used.size
    for place in np.argsort(first).tolist():
        by_path[place] = _numbers(_along(transfers.paths[used[place]]), number)
    lengths = np.array([places.size for places in by_path], dtype=np.int64)
    ends = np.cumsum(lengths)
    rows = ranges((ends - lengths)[index], ends[index])
    passed = np.concatenate(by_path)[rows] if rows.size else rows
    once = np.unique(np.repeat(pair, lengths[index]) * max(len(number), 1) + passed)
    return once // max(len(number), 1), once % max(len(number), 1)


def _along(path: tuple[str, ...]) -> Iterable[Place]:
    """Links both ways, links one way and switches of a path."""
    return chain(
        ((WhereType.LINK, (min(hop), max(hop))) for hop in pairwise(path)),
        ((WhereType.LINK, (*hop, ONE_WAY)) for hop in pairwise(path)),
        ((WhereType.SWITCH, switch) for switch in path),
    )


@kernel
def _main_paths(offsets: Int64, path: NDArray[np.int32], size: Int64, paths: int, share: float) -> tuple[Int64, Int64]:
    """Pairs and the paths that carry this share of the pair's bytes: its connections may be spread over several."""
    carried = np.zeros(paths)
    touched = np.empty(paths, dtype=np.int64)
    room = (offsets.size - 1) * (int(1.0 / share) + 1)
    out_pair, out_path = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    count = 0
    for pair in range(offsets.size - 1):
        found, total = 0, 0.0
        for row in range(offsets[pair], offsets[pair + 1]):
            one = path[row]
            if one < 0:
                continue
            if carried[one] == 0.0:
                touched[found] = one
                found += 1
            carried[one] += size[row]
            total += size[row]
        for place in range(found):
            one = touched[place]
            if carried[one] >= share * total:
                out_pair[count], out_path[count] = pair, one
                count += 1
            carried[one] = 0.0
    return out_pair[:count], out_path[:count]
