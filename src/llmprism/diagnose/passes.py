"""Which pairs of a job pass which places: NICs, links both ways and one way, switches, and the group they belong to.

What lies on the way is a property of the path, so names are looked at once per path, and pairs know their paths by
number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.kernel import kernel
from llmprism.model.finding import WhereType
from llmprism.model.flows import TransferTable, ranges
from llmprism.model.layout import PairKind

Place = tuple[WhereType, str | tuple[str, ...]]

__all__ = ["INTO", "ONE_WAY", "OUT_OF", "Passes", "Place", "both_ways", "passes_of", "switches_passed", "ways_of"]

ONE_WAY: Final = "one way"
"""Marks a link in one direction as a place of its own: what goes the other way need not be slow."""

OUT_OF: Final = "out of"
INTO: Final = "into"
"""Mark a NIC that sends, or receives, as a place of its own."""


def both_ways(place: Place) -> Place:
    """The link or NIC of a place that is one direction of it; other places as they are."""
    where, name = place
    if where is WhereType.LINK and name[-1] == ONE_WAY:
        return where, (min(name[:2]), max(name[:2]))
    if where is WhereType.NIC and not isinstance(name, str):
        return where, name[0]
    return place


@dataclass(frozen=True, slots=True)
class Passes:
    """The pairs through place number `i` are `pairs[offsets[i]:offsets[i + 1]]`, ascending; every place has some.

    `lanes` are, for groups of tensor-parallel ranks, the groups of single ranks that they consist of.
    """

    number: dict[Place, int]
    pairs: Int64
    offsets: Int64
    lanes: dict[Place, tuple[Place, ...]] = field(default_factory=dict)

    @classmethod
    def none(cls) -> Passes:
        return cls({}, np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def through(self, place: Place) -> Int64:
        """The pairs that pass a place."""
        if place not in self.number:
            return self.pairs[:0]
        number = self.number[place]
        return self.pairs[self.offsets[number] : self.offsets[number + 1]]


def passes_of(evidence: JobEvidence, pairs: Int64, rules: FaultRules = RULES) -> Passes:
    """The places that these pairs (ascending) of a job pass."""
    number: dict[Place, int] = {}
    lanes = _lanes(evidence)
    parts = (
        _nics(evidence.job.transfers, pairs, number),
        _on_the_way(evidence.job.transfers, pairs, number, rules),
        _groups(evidence, pairs, number, lanes),
    )
    pair, place = (np.concatenate(column) for column in zip(*parts, strict=True))
    offsets = np.zeros(len(number) + 1, dtype=np.int64)
    np.cumsum(np.bincount(place, minlength=len(number)), out=offsets[1:])
    used = np.flatnonzero(np.diff(offsets))  # a NIC may only send
    names = list(number)
    kept = {names[old]: new for new, old in enumerate(used.tolist())}
    wide = {_together(evidence, one): tuple(_group(evidence, index) for index in one) for one in lanes}
    return Passes(kept, pair[np.lexsort((pair, place))], np.append(offsets[used], offsets[-1]), wide)


def ways_of(evidence: JobEvidence, pairs: Int64, rules: FaultRules = RULES) -> Passes:
    """The links and switches that these pairs (ascending) of a job pass."""
    number: dict[Place, int] = {}
    if not pairs.size:
        return Passes.none()
    pair, place = _on_the_way(evidence.job.transfers, pairs, number, rules)
    offsets = np.zeros(len(number) + 1, dtype=np.int64)
    np.cumsum(np.bincount(place, minlength=len(number)), out=offsets[1:])
    return Passes(number, pair[np.lexsort((pair, place))], offsets)


def switches_passed(transfers: TransferTable) -> Int64:
    """Switches on the way of each pair's first transfer: longer ways are slower from the first record on."""
    taken, which = np.unique(transfers.path[transfers.pair_offsets[:-1]], return_inverse=True)
    lengths = [len(transfers.paths[path]) if path >= 0 else 0 for path in taken.tolist()]
    return np.array(lengths, dtype=np.int64)[which]


def _numbers(places: Iterable[Place], number: dict[Place, int]) -> Int64:
    """The numbers of some places; new ones get the next."""
    return np.array([number.setdefault(place, len(number)) for place in places], dtype=np.int64)


def _nics(transfers: TransferTable, pairs: Int64, number: dict[Place, int]) -> tuple[Int64, Int64]:
    """Pairs and the numbers of the NICs at both of their ends: as such, as the sender's and as the receiver's."""
    ends = np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]])
    used, end = np.unique(ends, return_inverse=True)
    names = [transfers.addresses[address] for address in used.tolist()]
    nics = _numbers(((WhereType.NIC, name) for name in names), number)
    out, into = (_numbers(((WhereType.NIC, (name, way)) for name in names), number) for way in (OUT_OF, INTO))
    source, target = end[: pairs.size], end[pairs.size :]
    return np.tile(pairs, 4), np.concatenate([nics[source], nics[target], out[source], into[target]])


def _groups(
    evidence: JobEvidence, pairs: Int64, number: dict[Place, int], lanes: Sequence[tuple[int, ...]]
) -> tuple[Int64, Int64]:
    """Pairs and the numbers of the groups whose collectives they carry, and of all lanes of such groups together."""
    pairs = pairs[evidence.group_of_pair[pairs] >= 0]
    used, group = np.unique(evidence.group_of_pair[pairs], return_inverse=True)
    single = _numbers((_group(evidence, index) for index in used.tolist()), number)[group]
    whole = np.full(len(evidence.layout.groups), -1, dtype=np.int64)
    for one in lanes:
        whole[list(one)] = _numbers([_together(evidence, one)], number)[0]
    together = whole[evidence.group_of_pair[pairs]]
    return np.concatenate([pairs, pairs[together >= 0]]), np.concatenate([single, together[together >= 0]])


def _group(evidence: JobEvidence, index: int) -> Place:
    return _together(evidence, (index,))


def _together(evidence: JobEvidence, lanes: Sequence[int]) -> Place:
    addresses, groups = evidence.job.transfers.addresses, evidence.layout.groups
    return WhereType.GROUP, tuple(addresses[member] for index in lanes for member in groups[index].members)


def _lanes(evidence: JobEvidence) -> list[tuple[int, ...]]:
    """Gradient groups, by number, that are the lanes of one group of tensor-parallel ranks: as many as these are wide,
    over the same servers, next to each other there. They synchronise at one time, and what slows one slows all."""
    job, width = evidence.job, evidence.layout.layout.tp or 1
    if width < 2 or not job.places or not all(job.places):
        return []
    server = dict(zip(job.members, job.places, strict=True))
    alike: dict[tuple[str, ...], list[int]] = {}
    for index, group in enumerate(evidence.layout.groups):
        if group.kind == PairKind.DP:
            alike.setdefault(tuple(sorted(server[member] for member in group.members)), []).append(index)
    found: list[tuple[int, ...]] = []
    for same in alike.values():
        same.sort(key=lambda index: min(evidence.layout.groups[index].members))
        if len(same) % width == 0:
            found += [tuple(same[k : k + width]) for k in range(0, len(same), width)]
    return found


def _on_the_way(
    transfers: TransferTable, pairs: Int64, number: dict[Place, int], rules: FaultRules
) -> tuple[Int64, Int64]:
    """Pairs and the numbers of the links and switches on their paths, numbered as the pairs come to them."""
    pair, path = _main_paths(
        transfers.pair_offsets, transfers.path, transfers.bytes, len(transfers.paths), rules.places.path_share
    )
    keep = np.isin(pair, pairs)
    pair, path = pair[keep], path[keep]
    order = np.lexsort((path, pair))
    pair, path = pair[order], path[order]
    used, way = np.unique(path, return_inverse=True)
    ways = _Ways.of([transfers.paths[one] for one in used.tolist()])
    starts, ends = ways.offsets[way], ways.offsets[way + 1]
    codes, first, code = np.unique(ways.codes[ranges(starts, ends)], return_index=True, return_inverse=True)
    numbers = np.empty(codes.size, dtype=np.int64)
    numbers[np.argsort(first)] = _numbers((ways.place(one) for one in codes[np.argsort(first)].tolist()), number)
    places = len(number)
    once = np.unique(np.repeat(pair, ends - starts) * places + numbers[code])
    return once // places, once % places


@dataclass(frozen=True, slots=True)
class _Ways:
    """What lies along some paths, as codes: those of path `i` are `codes[offsets[i]:offsets[i + 1]]`.

    With n switches, sorted by name: links both ways have the codes below n x n, links one way those below twice that,
    switches the others.
    """

    switches: tuple[str, ...]
    codes: Int64
    offsets: Int64

    @classmethod
    def of(cls, paths: Sequence[tuple[str, ...]]) -> _Ways:
        switches = tuple(sorted(set(chain.from_iterable(paths))))
        index = {name: i for i, name in enumerate(switches)}
        at = np.array([index[name] for name in chain.from_iterable(paths)], dtype=np.int64)
        path = np.repeat(np.arange(len(paths)), np.array([len(names) for names in paths], dtype=np.int64))
        hops = np.flatnonzero(path[1:] == path[:-1])
        a, b, count = at[hops], at[hops + 1], len(switches)
        codes = np.concatenate(
            [np.minimum(a, b) * count + np.maximum(a, b), count**2 + a * count + b, 2 * count**2 + at]
        )
        owner = np.concatenate([path[hops], path[hops], path])
        offsets = np.zeros(len(paths) + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=len(paths)), out=offsets[1:])
        return cls(switches, codes[np.argsort(owner, kind="stable")], offsets)

    def place(self, code: int) -> Place:
        count = len(self.switches)
        kind, hop = divmod(code, count**2)
        if kind == 2:
            return WhereType.SWITCH, self.switches[hop]
        link = self.switches[hop // count], self.switches[hop % count]
        return WhereType.LINK, (*link, ONE_WAY) if kind else link


@kernel
def _main_paths(offsets: Int64, path: Int32, size: Int64, paths: int, share: float) -> tuple[Int64, Int64]:
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
