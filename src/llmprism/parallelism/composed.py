"""A composition against what the passes found: which one stands, and what it says of every pair.

The passes look at moments, link by link and sort by sort; a composition looks at the bytes of all pairs at once and at
no moment. Where the bytes leave the layout of the passes open, it stands: moments decide what bytes do not. Where the
layout explains the bytes by many bits less than the best composition, one that explains nearly all pairs, it does not
stand. Of the layouts that say the same of all bytes, that one is taken which agrees with the passes about pipelines and
claims the least: tensor groups across servers are rare, contexts and experts are not everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Group, JobLayout, Layout, PairKind, PairRoles
from llmprism.parallelism.composition import Composition, Explanations, Reading, is_mesh, nested
from llmprism.parallelism.rank_mesh import Degrees
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.structure import in_two

__all__ = [
    "Composed",
    "better_composition",
    "in_shards",
    "near_best",
    "own_bits",
    "price_of",
    "sizes_of",
    "staged_instead",
    "tensor_widths",
]

_KINDS = (PairKind.DP, PairKind.PP, PairKind.CP, PairKind.EP, PairKind.TP)


@dataclass(frozen=True, slots=True)
class Composed:
    """What the best composition says. `carries` has for each kind of traffic: does the pair carry it? `amount` has the
    bytes of it on each pair, in a unit of their own. `contexts`
    and `experts` are its groups; `either`: the bytes say contexts or experts, not which; `sharded`: gradient groups
    divide into shards and replicas, which are its `halves`, the
    `only` ones where no other shards say the same. `worth` are the bits that it saves, less
    the price of what it claims, `bits` is how far it is ahead of what the passes found."""

    carries: dict[PairKind, Bool]
    amount: dict[PairKind, Float64]
    contexts: tuple[Group, ...]
    experts: tuple[Group, ...]
    either: bool
    sharded: bool
    bits: float
    worth: float = 0.0
    halves: tuple[Group, ...] = ()
    only: bool = False

    @property
    def exchanges(self) -> bool:
        """Are there contexts or experts?"""
        return bool(self.contexts or self.experts)

    def with_rings(self, pairs: Bool, rings: tuple[Group, ...]) -> Composed:
        """The same with exchanges that take the gradients' own pairs, which bytes do not show."""
        carries = dict(self.carries)
        for kind in {ring.kind for ring in rings}:
            carries[kind] = carries[kind] | pairs
        return replace(self, carries=carries, contexts=rings)

    def with_tensors(self, pairs: Bool) -> Composed:
        """The same with tensor groups across servers where bytes as well say gradients."""
        carries = self.carries | {
            PairKind.TP: self.carries[PairKind.TP] | pairs,
            PairKind.DP: self.carries[PairKind.DP] & ~pairs,
        }
        return replace(self, carries=carries)


def better_composition(
    explained: Explanations, transfers: TransferTable, said: JobLayout, rules: LayoutRules = RULES, *,
    sharded: bool = True,
) -> Composed | None:  # fmt: skip
    """The best composition where the layout that the passes found is not among those that bytes leave open. It has to
    explain nearly all pairs, unless the passes found degrees that make no mesh of the ranks, and so no layout.
    `sharded`: readings as shards with replicas count."""
    rule, every = rules.composition, near_best(explained, rules)
    if not every or (every[0][0].fitted < rule.complete and is_mesh(said, len(every[0][0].members))):
        return None
    best = every[0][0].bits
    own = max(own_bits(explained, transfers, said, rules), explained.said_bits)
    if best - own < rule.ahead_bits:
        return None
    near = [it for it in every if sharded or it[1].degrees.shards == 1]
    known = said.layout if nested(said.groups) else replace(said.layout, ep=None)  # one of the two is none
    return _composed(near, known, best - own, rules)


def staged_instead(explained: Explanations, said: JobLayout, rules: LayoutRules = RULES) -> Composed | None:
    """Pipelines in place of shards with replicas, where they cost less though the passes deny them. Both take the same
    pairs where shard groups are pairs; the moments of messages under a schedule may decide."""
    if not explained.compositions or not in_shards(said):
        return None
    best = explained.compositions[0].bits
    near = [it for it in near_best(explained, rules) if it[1].degrees.shards == 1 < it[1].degrees.stages]
    worth = max((one.bits - price_of(reading, said.layout, rules) for one, reading in near), default=-np.inf)
    ahead = worth - (best - rules.composition.shards_bits)
    return _composed(near, said.layout, ahead, rules) if ahead > 0.0 else None


def in_shards(said: JobLayout) -> bool:
    """Does a layout have shards with replicas?"""
    return in_two(tuple(group for group in said.groups if group.kind is PairKind.DP))


def _composed(
    near: list[tuple[Composition, Reading]], layout: Layout, ahead: float, rules: LayoutRules
) -> Composed | None:
    """What the cheapest of these readings says."""
    if not near:
        return None
    one, reading = max(near, key=lambda it: it[0].bits - price_of(it[1], layout, rules))
    grid = np.array(one.members)
    halves = _shards_and_replicas(grid, reading.degrees)
    return Composed(
        _carries(one, reading),
        {kind: one.carried[[kind in kinds for kinds in reading.kinds]].sum(axis=0) for kind in _KINDS},
        _groups(grid, reading.degrees, PairKind.CP, reading.degrees.contexts),
        _groups(grid, reading.degrees, PairKind.EP, reading.degrees.experts),
        any(_contexts_for_experts(it, reading) for it in one.readings),
        reading.degrees.shards > 1,
        ahead,
        one.bits - price_of(reading, layout, rules),
        halves,
        len({it.degrees for _, it in near if it.degrees.shards > 1}) == 1,
    )


def own_bits(explained: Explanations, transfers: TransferTable, said: JobLayout, rules: LayoutRules = RULES) -> float:
    """Bits that the best composition saves of which this layout is a reading; 0 where there is none."""
    named, found = _named(transfers, said.pairs), explained.compositions
    agreeing = (one.bits for one in found for it in one.readings if _agrees(one, it, said, named, rules))
    return next(agreeing, 0.0)  # the best composition comes first


def near_best(explained: Explanations, rules: LayoutRules = RULES) -> list[tuple[Composition, Reading]]:
    """The readings of the compositions that moments may still speak for, the best first; of those alone that explain
    nearly all pairs where any does. What leaves a third of the pairs open saves bits by a rounder amount for the rest,
    and is no layout."""
    rule, found = rules.composition, explained.compositions
    near = [one for one in found if one.bits > found[0].bits - rule.ahead_bits]
    near = [one for one in near if one.fitted >= rule.complete] or near
    return [(one, reading) for one in near for reading in one.readings]


def tensor_widths(explained: Explanations, said: Layout, rules: LayoutRules = RULES) -> frozenset[int]:
    """Widths of tensor groups that the bytes leave open, given the other degrees; none where they say nothing of these.

    Rails of experts and contexts are rings and all-to-alls of their own: where the ranks of a server were replicas,
    some of what they exchange would stay inside it."""
    near = near_best(explained, rules)
    if not near or near[0][0].fitted < rules.composition.complete:
        return frozenset()
    own, open_ = (said.pp, said.cp or 1, said.ep or 1), (reading.degrees for _, reading in near)
    return frozenset(it.tensors for it in open_ if (it.stages, it.contexts, it.experts) == own)


def _contexts_for_experts(one: Reading, other: Reading) -> bool:
    """Do two readings differ only in that one calls contexts what the other calls experts?"""
    swapped = {PairKind.CP: PairKind.EP, PairKind.EP: PairKind.CP}
    kinds = tuple(tuple(swapped.get(kind, kind) for kind in part) for part in other.kinds)
    return one.kinds == kinds != other.kinds


def _carries(one: Composition, reading: Reading) -> dict[PairKind, Bool]:
    carries: dict[PairKind, Bool] = {}
    for kind in (*_KINDS, PairKind.OTHER):
        parts = [part for part, kinds in enumerate(reading.kinds) if kind in kinds]
        carries[kind] = np.asarray((one.carried[parts] > 0.0).any(axis=0))
    return carries


def _named(transfers: TransferTable, pairs: PairRoles) -> dict[PairKind, Bool]:
    """For each kind the pairs of the table that the passes name so."""
    number = transfers.pairs_between(pairs.src.astype(np.int64), pairs.dst.astype(np.int64))
    named = {}
    for kind in _KINDS:
        named[kind] = np.zeros(transfers.pair_count, dtype=np.bool_)
        named[kind][number[pairs.kind == kind]] = True
    return named


def _agrees(
    one: Composition, reading: Reading, said: JobLayout, named: dict[PairKind, Bool], rules: LayoutRules
) -> bool:
    """Does this reading say the same as the passes, of the degrees and of nearly all pairs?"""
    degrees, layout = reading.degrees, said.layout
    if in_shards(said) != (degrees.shards > 1):
        return False
    if (layout.pp, layout.cp or 1, layout.ep or 1) != (degrees.stages, degrees.contexts, degrees.experts):
        return False
    carries = _carries(one, reading)
    known = (one.carried > 0.0).any(axis=0) & ~carries[PairKind.OTHER]
    same = np.logical_and.reduce([carries[kind] == named[kind] for kind in _KINDS])
    return bool(same[known].mean() >= rules.composition.agreeing) if known.any() else False


def price_of(reading: Reading, layout: Layout, rules: LayoutRules) -> float:
    """Bits that a reading costs: what is rare, and what the passes deny."""
    rule, degrees = rules.composition, reading.degrees
    across = any(PairKind.TP in kinds for kinds in reading.kinds)
    merged = any(len(kinds) > 1 for kinds in reading.kinds)
    axes = (degrees.contexts > 1) + (degrees.experts > 1)
    return (
        rule.across_bits * across
        + rule.axis_bits * axes
        + rule.merged_bits * merged
        + rule.shards_bits * (degrees.shards > 1)
        + rule.denied_bits * _denied(degrees, layout)
    )


def _denied(degrees: Degrees, layout: Layout) -> int:
    """Decisions of the passes that a reading denies: stages, tensor groups, contexts, experts, or which of the three an
    exchange is. How many replicas there are follows from these."""
    found = layout.tp or 1, layout.cp or 1, layout.ep or 1
    own = degrees.tensors, degrees.contexts, degrees.experts
    renamed = found != own and sorted(found) == sorted(own)
    others = 1 if renamed else sum(a != b for a, b in zip(found, own, strict=True))
    return ((layout.pp or 1) != degrees.stages) + others


def _groups(members: Int64, degrees: Degrees, kind: PairKind, size: int) -> tuple[Group, ...]:
    """Contexts and experts are neighbours among the ranks of one stage and tensor place."""
    if size < 2:
        return ()
    cells = members.reshape(degrees.stages, -1, size, degrees.tensors).swapaxes(2, 3).reshape(-1, size)
    return tuple(Group(kind, tuple(int(member) for member in row)) for row in cells)


def _shards_and_replicas(members: Int64, degrees: Degrees) -> tuple[Group, ...]:
    """The groups that share parameters, neighbours among the ranks of one tensor place, and those that copy them."""
    if degrees.shards < 2:
        return ()
    cells = members.reshape(-1, degrees.shards, degrees.tensors)
    rows = [*cells.swapaxes(1, 2).reshape(-1, degrees.shards), *cells.reshape(cells.shape[0], -1).T]
    return tuple(Group(PairKind.DP, tuple(sorted(int(member) for member in row))) for row in rows if len(row) > 1)


def sizes_of(transfers: TransferTable, bulk: Bool, step_bytes: Float64) -> tuple[Float64, Float64]:
    """The bytes of the bulk pairs, and of others that carry as much as any of them, in the whole window and in a step
    as a rule; pairs that are silent in most steps have their share of the window."""
    size = transfers.pair_bytes
    least = size[bulk].min(initial=np.iinfo(np.int64).max) // 2
    whole = np.where(bulk | (size >= least), size, 0).astype(np.float64)
    known = (whole > 0.0) & (step_bytes > 0.0)
    share = float(np.median(step_bytes[known] / whole[known])) if known.any() else 0.0
    return whole, np.where(known, step_bytes, share * whole)
