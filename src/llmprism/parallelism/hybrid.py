"""Hybrid sharding: the parameters are sharded over a few members, the shards are replicated over many.

Every member is then in two groups at once: one that gathers and scatters all layers within the shard group, and one
that reduces the member's own shard over the replicas. As links alone they make one large component. They come apart by
their bytes per step, and the two cross like rows and columns: a row and a column never share two members.

*What they carry.* Of parameters P over s shards and r replicas a member gathers (s - 1) / s P twice and scatters it
once, and reduces 2 (r - 1) / r P / s over its replicas. So what it sends in its shard group is 3/2 (s - 1) r / (r - 1)
times what it sends to replicas: a prediction without a free parameter, but for the last layer, which is kept and not
gathered again, and for gathers in half the precision. Where the amounts fit it, the grid is hybrid sharding however its
moments look. Where shards also go over the NICs of one server, whose hops do not show, each rail carries its part;
which of the two is meant, rails of one shard group or groups of tensor ranks, is decided by the same prediction, unless
replicas would be in one shard group then, or hops inside servers do show.

Gradient accumulation gathers for every micro-batch and reduces over the replicas once, and a library may scatter by
reducing everything: both make the shard group send more than that, never less. So where no amount fits as it is, the
grid whose shard groups send the least above the prediction is taken.

*When.* Replicas reduce what was scattered, while the next layer is gathered and scattered or right after the last one.
What is sent while nobody gathers or scatters is something else: sums of tensor groups in every pass, for one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.job import Job
from llmprism.model.layout import PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import profile_of, step_bytes
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["Grid", "shard_grid"]


@dataclass(frozen=True, slots=True)
class Grid:
    """`shards`: per link, inside a shard group. `predicted`: the bytes are those of hybrid sharding, `repeated` if more
    than once a step. `rails`: groups of links on the same servers are rails of one shard group."""

    shards: Bool
    predicted: bool
    rails: bool
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class _NumberedLinks:
    """The data-parallel links, their ends numbered from 0 on, the bytes of both directions, and the servers of the
    numbered members (-1 where they are not known)."""

    low: Int64
    high: Int64
    there: Float64
    back: Float64
    server: Int64


def shard_grid(
    job: Job, links: Links, kinds: LinkKinds, features: PairFeatures, rules: LayoutRules = RULES
) -> Grid | None:
    """The data-parallel links as shard groups and replicas, where they cross; None where nothing does."""
    rule = rules.sharding
    chosen = np.flatnonzero(kinds.kind == PairKind.DP)
    if chosen.size < 4:
        return None
    own = _numbered(job, links.only(chosen), features)
    level = np.log(np.maximum(np.maximum(own.there, own.back), 1e-9))
    order = np.argsort(level, kind="stable")
    cuts = np.flatnonzero(np.diff(level[order]) > rules.kinds.same_bytes)[-rule.hybrid_sorts :]
    least, most = rule.hybrid_fits
    hidden = not ((own.server[own.low] == own.server[own.high]) & (own.server[own.low] >= 0)).any()
    sent = _over_the_step(links.only(chosen), features)
    fits: list[tuple[bool, float, Bool, bool]] = []
    for cut in cuts:
        upper = level > level[order[cut]]
        if not _crossing(own.low, own.high, upper):
            continue
        for shards in (one for one in (upper, ~upper) if _follows(sent, one, rules)):
            for rails in (False, True) if hidden else (False,):
                share = _of_prediction(own, shards, rails)
                repeated = share > most
                if share >= least and not (repeated and rails):
                    fits.append((repeated, abs(float(np.log(share / rule.hybrid_usual))), shards, rails))
    if fits:
        repeated, _, shards, rails = min(fits, key=lambda fit: fit[:2])
        return Grid(_spread(links, chosen, shards), predicted=True, rails=rails, repeated=repeated)
    heavy = _heavy(np.exp(level), rules)
    if heavy is None or not (_crossing(own.low, own.high, heavy) and _follows(sent, heavy, rules)):
        return None
    return Grid(_spread(links, chosen, heavy), predicted=False, rails=hidden)


def _numbered(job: Job, links: Links, features: PairFeatures) -> _NumberedLinks:
    place = dict(zip(job.members, job.places, strict=False))
    members, ends = np.unique(np.concatenate([links.low, links.high]), return_inverse=True)
    names = sorted({place.get(int(member), "") for member in members} - {""})
    server = np.array([names.index(place[int(m)]) if place.get(int(m)) else -1 for m in members], dtype=np.int64)
    there, back = (np.where(side >= 0, features.step_bytes[side], 0.0) for side in (links.there, links.back))
    return _NumberedLinks(ends[: links.low.size], ends[links.low.size :], there, back, server)


def _spread(links: Links, chosen: Int64, shards: Bool) -> Bool:
    result = np.zeros(links.low.size, dtype=np.bool_)
    result[chosen[shards]] = True
    return result


def _of_prediction(own: _NumberedLinks, shards: Bool, rails: bool) -> float:
    """What members send in their shard groups, relative to what hybrid sharding of these sizes would make them send; 0
    where the groups are not of one size or no rails can be joined."""
    members = own.server.size
    row = component_labels(members, own.low[shards], own.high[shards])
    column = component_labels(members, own.low[~shards], own.high[~shards])
    size, copies = np.bincount(row), np.bincount(column)
    if size.min() != size.max() or copies.min() != copies.max():
        return 1e-9
    joined = 1
    if rails:
        joined = _rails(own, row)
        if joined < 2:
            return 1e-9
    inside, across = _sent(own, shards, members), _sent(own, ~shards, members)
    s, r = float(size[0] * joined), float(copies[0])
    if s * r > members:  # replicas in one shard group
        return 1e-9
    predicted = 1.5 * (s - 1.0) * r / (r - 1.0) / joined
    return max(inside / max(across, 1.0) / predicted, 1e-9)


def _over_the_step(links: Links, features: PairFeatures) -> Float64:
    """What each link sends in each slot of the step, both ways together."""
    sides = links.there, links.back
    result: Float64 = np.sum(
        [profile_of(features, side) * step_bytes(features, side)[:, None] for side in sides], axis=0
    )
    return result


def _follows(sent: Float64, shards: Bool, rules: LayoutRules) -> bool:
    """Do replicas send most of their bytes while their shard groups are not silent?"""
    inside, across = sent[shards].sum(axis=0), sent[~shards].sum(axis=0)
    silent = inside <= rules.sharding.shards_silent * inside.mean()
    return float(across[silent].sum()) <= rules.sharding.replicas_alone * float(across.sum())


def _rails(own: _NumberedLinks, row: Int64) -> int:
    """Shard groups on the same servers, more than one of them; 1 where servers are not known or differ in that."""
    if (own.server < 0).any():
        return 1
    count = int(own.server.max()) + 1
    where = np.zeros((int(row.max()) + 1, count), dtype=np.int64)
    where[row, own.server] = 1
    if (where.sum(axis=1) < 2).any():
        return 1
    _, same = np.unique(where, axis=0, return_counts=True)
    return int(same[0]) if (same == same[0]).all() else 1


def _sent(own: _NumberedLinks, chosen: Bool, members: int) -> float:
    """Bytes that a member sends over the chosen links in a step, the median."""
    total = np.bincount(own.low[chosen], own.there[chosen], minlength=members)
    total += np.bincount(own.high[chosen], own.back[chosen], minlength=members)
    return float(np.median(total))


def _heavy(amount: Float64, rules: LayoutRules) -> Bool | None:
    """The links above the widest gap in the order of amounts, where it is wide enough."""
    ordered = np.sort(amount)
    if ordered[0] <= 1e-6:
        return None
    ratio = ordered[1:] / ordered[:-1]
    widest = int(np.argmax(ratio))
    return amount > ordered[widest] if ratio[widest] >= rules.sharding.shards_over_replicas else None


def _crossing(low: Int64, high: Int64, heavy: Bool) -> bool:
    """Is every member in one component of each sort, do no two components share two members, and does every component
    of one sort meet each of the other that it is joined with? A ring whose hops carry now more and now less is a chain
    of such components, and no grid."""
    members = int(max(low.max(), high.max())) + 1
    rows = component_labels(members, low[heavy], high[heavy])
    columns = component_labels(members, low[~heavy], high[~heavy])
    if min(np.bincount(rows).min(), np.bincount(columns).min()) < 2:
        return False
    cells = rows * (int(columns.max()) + 1) + columns
    if np.unique(cells).size != members:
        return False
    whole = component_labels(members, low, high)
    count = int(whole.max()) + 1
    across, along = (np.bincount(np.unique(part * count + whole) % count, minlength=count) for part in (rows, columns))
    return bool((across * along == np.bincount(whole, minlength=count)).all())
