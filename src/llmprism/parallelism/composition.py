"""The composition of collectives that explains the bytes of all pairs of a job in the fewest bits.

Every layout on the mesh of ranks (`rank_mesh`) says which pairs each of its collectives takes; how many bytes each of
them moves is a free amount, the same for all of its pairs. So the bytes of hundreds of pairs have to follow from three
to six amounts: a pair that gradients and contexts share carries the sum of both. Neither the clock nor the moment of
anything matters, only totals, and a layout that is not the true one misses some pairs by far more than a collector
loses. Amounts are fitted by least squares of relative errors in which outliers lose their weight. What a composition is
worth is the bits that it saves against naming the bytes of each pair by itself, less the price of its amounts.

Layouts that predict the same pairs for every collective are one composition: bytes do not decide between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.job import Job
from llmprism.model.layout import Group, JobLayout, PairKind
from llmprism.parallelism.pair_ends import natural_order
from llmprism.parallelism.rank_mesh import Degrees, Part, RankMesh
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["Composition", "Explanations", "Reading", "compositions_of", "is_mesh", "most_saved", "nested"]

_Candidate = tuple[Degrees, list[Part]]
_Tried = dict[tuple[tuple[int, ...], bytes], list[_Candidate]]


@dataclass(frozen=True, slots=True)
class Reading:
    """A layout that a composition may be: its degrees, and what each part carries (`kinds`, in the order of the parts;
    two collectives that take the same pairs are one part)."""

    degrees: Degrees
    kinds: tuple[tuple[PairKind, ...], ...]


@dataclass(frozen=True, slots=True)
class Composition:
    """`carried` are the bytes that each part (rows) explains of each pair of the job's table; `readings` are all
    layouts that say the same. `members` are the job's members in the order of ranks. `bits` are saved, `fitted` is the
    share of the pairs whose bytes are predicted."""

    readings: tuple[Reading, ...]
    members: tuple[int, ...]
    carried: Float64
    bits: float
    fitted: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """The pairs of ranks that carry something, in ascending order, and how much; `table` are their rows in the job's
    table of pairs."""

    pair: Int64
    size: Float64
    table: Int64


class _Coverage:
    """Which of the pairs that carry something collectives take. Many layouts have a collective in common, so the pairs
    of each are looked for once and kept as the bits of a number."""

    def __init__(self, pair: Int64) -> None:
        self._pair = pair
        self._taken: dict[int, tuple[int, Part]] = {}  # with the part itself, so that no other one can have its id

    def of(self, parts: list[Part]) -> float:
        """Share of the pairs that these collectives take."""
        pairs = 0
        for part in parts:
            if id(part) not in self._taken:
                bits = np.packbits(np.isin(self._pair, part.pair, assume_unique=True))
                self._taken[id(part)] = int.from_bytes(bits.tobytes(), "big"), part
            pairs |= self._taken[id(part)][0]
        return pairs.bit_count() / self._pair.size


@dataclass(frozen=True, slots=True)
class Explanations:
    """The compositions of a job, the best first, and the bits that a layout saves which was found otherwise."""

    compositions: tuple[Composition, ...] = ()
    said_bits: float = 0.0


def compositions_of(
    job: Job, sizes: tuple[Float64, ...], said: JobLayout | None = None, rules: LayoutRules = RULES
) -> Explanations:
    """All that explain most pairs of a job; none where it is not known which server its members are on, or the job is
    too large to try. `sizes` are the bytes of each pair of the table as counted in different ways (in the whole window,
    in a step as a rule): what explains one of them best is best. `said` is a layout that was found otherwise: its
    stages are an order of the ranks too, and what it says of the pairs has a price in the same bits. None are looked
    for where it explains the bytes, counted in one of these ways, so well that nothing can be far ahead of it."""
    if not job.places or not all(job.places) or not 2 < len(job.members) <= rules.composition.most_ranks:
        return Explanations()
    orders = [_in_order(job)]
    if said is not None and said.pipelines:
        stage_of = {member: stage for pipeline in said.pipelines for stage, member in enumerate(pipeline)}
        by_stage = tuple(sorted(orders[0], key=lambda member: stage_of.get(member, 0)))
        orders += [by_stage] if by_stage != orders[0] else []
    few = [size for size in sizes if 0 < int((size > 0).sum()) <= rules.composition.most_pairs]
    parts = _said_parts(job, said, orders[0]) if said is not None and is_mesh(said, len(job.members)) else []
    own = [_said_bits(job, size, parts, orders[0], rules) for size in few]
    left = [most_saved(int((size > 0).sum()), rules) - bits for size, bits in zip(few, own, strict=True)]
    if min(left, default=0.0) < rules.composition.ahead_bits:
        return Explanations((), max(own, default=0.0))
    tried: _Tried = {}
    found = [
        Explanations(_explained(job, size, orders, tried, rules), bits) for size, bits in zip(few, own, strict=True)
    ]
    return max(found, key=_most_bits)


def most_saved(pairs: int, rules: LayoutRules) -> float:
    """Bits that no composition of so many pairs can save: one collective that predicts all of them. A pair saves most
    where its bytes are a little more than predicted, because errors are relative to what is predicted."""
    rule = rules.composition
    return max(
        pairs * float(np.log2(rule.amount_range / (np.pi * error) * (1.0 + np.sqrt(1.0 + error**2)) / 2.0))
        - _collective_price(error, rules)
        for error in rule.errors
    )


def _collective_price(error: float, rules: LayoutRules) -> float:
    """Bits to name a collective and its amount to within a relative error."""
    return float(np.log2(rules.composition.amount_range / error) + rules.composition.collective_bits)


def _most_bits(one: Explanations) -> float:
    return one.compositions[0].bits if one.compositions else -np.inf


def _in_order(job: Job) -> tuple[int, ...]:
    """Members by server and by their place in it."""
    place = {name: tuple(natural_order(name)) for name in set(job.places)}
    slots = job.slots or (-1,) * len(job.members)
    keys = dict(zip(job.members, ((place[server], slot) for server, slot in zip(job.places, slots, strict=True)),
                    strict=True))  # fmt: skip
    members = job.members
    if len(set(keys.values())) < len(members):  # several in one place are by their addresses
        members = tuple(sorted(members, key=lambda member: natural_order(job.transfers.addresses[member])))
    return tuple(sorted(members, key=keys.__getitem__))


def _said_bits(job: Job, size: Float64, parts: list[Part], members: tuple[int, ...], rules: LayoutRules) -> float:
    """Bits that a layout saves whose collectives are these, in this order of the ranks."""
    own = _fitted((), parts, members, _seen(job, size, members), job.transfers.pair_count, rules) if parts else None
    return own.bits if own is not None else 0.0


def _explained(
    job: Job, size: Float64, orders: list[tuple[int, ...]], tried: _Tried, rules: LayoutRules
) -> tuple[Composition, ...]:
    """The best first. `tried` are the candidates by the order of the ranks and the pairs that carry something: which of
    them there are does not depend on how much these carry."""
    place = dict(zip(job.members, job.places, strict=True))
    found: list[Composition] = []
    for members in orders:
        server = np.unique([place[member] for member in members], return_inverse=True)[1].astype(np.int64)
        seen = _seen(job, size, members)
        key = members, seen.pair.tobytes()
        if key not in tried:
            inside = server[seen.pair // len(members)] == server[seen.pair % len(members)]
            carries = np.zeros(len(members) ** 2, dtype=np.bool_)
            carries[seen.pair] = True
            mesh = RankMesh(server, not inside.any(), carries, rules.composition.taken)
            tried[key] = list(_candidates(mesh, seen, rules))
        found += _in_one_order(tried[key], seen, job, members, rules)
    return tuple(sorted(found, key=lambda one: -one.bits))


def is_mesh(said: JobLayout, ranks: int) -> bool:
    """Do the degrees of a layout make a mesh of all ranks, each of them among replicas where there are any, with
    experts on ranks of the same weights? Else the pairs may be named well, but there is nothing that they are the
    pairs of: tensor groups of two servers are joined by one hop each way, which is no group of replicas."""
    layout = said.layout
    if layout.tp is None or layout.pp is None or layout.dp is None:
        return False
    alike = layout.dp * (layout.cp or 1)
    whole = layout.tp * layout.pp * alike == ranks and alike % (layout.ep or 1) == 0
    return whole and (layout.dp == 1 or _replicated(said) == ranks) and nested(said.groups)


def _replicated(said: JobLayout) -> int:
    """How many ranks reduce gradients with others."""
    return len({member for group in said.groups if group.kind is PairKind.DP for member in group.members})


def nested(groups: tuple[Group, ...]) -> bool:
    """Do contexts and experts divide the same line of ranks? Both are neighbours on it, in whatever order the servers
    are listed, so a group of the one lies within a group of the other or holds whole ones. Of two that cross, as
    contexts and the hops of a tree of gradients do, one is no exchange."""
    experts = [frozenset(group.members) for group in groups if group.kind is PairKind.EP]
    of = {member: group for group in experts for member in group}
    for group in groups:
        if group.kind is PairKind.CP:
            own = frozenset(group.members)
            if not all(own <= other or other <= own for other in {of[member] for member in own if member in of}):
                return False
    return True


def _said_parts(job: Job, said: JobLayout, members: tuple[int, ...]) -> list[Part]:
    """What a layout says of the pairs: those of one kind all carry the same."""
    rank = np.full(len(job.transfers.addresses), -1, dtype=np.int64)
    rank[list(members)] = np.arange(len(members))
    pair = rank[said.pairs.src] * len(members) + rank[said.pairs.dst]
    known = (rank[said.pairs.src] >= 0) & (rank[said.pairs.dst] >= 0)
    parts = []
    for kind in np.unique(said.pairs.kind[known]):
        own = np.unique(pair[known & (said.pairs.kind == kind)])
        parts.append(Part(PairKind(kind), own, np.ones(own.size, dtype=np.int64)))
    return parts


def _in_one_order(
    candidates: list[_Candidate], seen: _Seen, job: Job, members: tuple[int, ...], rules: LayoutRules
) -> list[Composition]:
    found: dict[tuple[bytes, ...], tuple[list[Reading], list[Part]]] = {}
    for degrees, parts in candidates:
        same: dict[bytes, list[Part]] = {}
        for part in parts:
            same.setdefault(part.pair.tobytes() + part.times.tobytes(), []).append(part)
        key = tuple(sorted(same))
        reading = Reading(degrees, tuple(tuple(dict.fromkeys(part.kind for part in same[one])) for one in key))
        found.setdefault(key, ([], [same[one][0] for one in key]))[0].append(reading)
    made = [_fitted(tuple(dict.fromkeys(readings)), parts, members, seen, job.transfers.pair_count, rules)
            for readings, parts in found.values()]  # fmt: skip
    return [one for one in made if one is not None]


def _seen(job: Job, size: Float64, members: tuple[int, ...]) -> _Seen:
    rank = np.full(len(job.transfers.addresses), -1, dtype=np.int64)
    rank[list(members)] = np.arange(len(members))
    table = np.flatnonzero(size > 0)
    pair = rank[job.transfers.pair_src[table]] * len(members) + rank[job.transfers.pair_dst[table]]
    order = np.argsort(pair)
    return _Seen(pair[order], size[table[order]], table[order])


def _candidates(mesh: RankMesh, seen: _Seen, rules: LayoutRules) -> Iterator[_Candidate]:
    """Layouts most of whose pairs carry something, with their collectives."""
    rule = rules.composition
    coverage = _Coverage(seen.pair)
    for stages in _divisors(mesh.ranks, rule.most_stages):
        sends = _all([mesh.sends(stages)] if stages > 1 else [])
        if sends is None:
            continue
        closing = [[], *_known([_all([mesh.closing(stages)])])] if stages > 2 else [[]]
        for tensors in _divisors(mesh.ranks // stages, rule.most_tensors):
            ring = _all([mesh.tensors(tensors)] if tensors > 1 else [])
            spans = ring is None or any(part.pair.size for part in ring)
            wide = _known([ring]) if mesh.hidden or not spans else [[], *_known([ring])]
            for degrees, others in _inside_stages(mesh, stages, tensors, rules) if wide else ():
                for closed, across in product(closing, wide):
                    parts = [part for part in (*sends, *across, *closed, *others) if part.pair.size]
                    if parts and coverage.of(parts) >= rule.covered:
                        yield degrees, parts


def _inside_stages(mesh: RankMesh, stages: int, tensors: int, rules: LayoutRules) -> Iterator[_Candidate]:
    """Gradients, contexts and experts of a stage."""
    ranks = mesh.ranks // stages // tensors
    contexts: list[tuple[int, list[Part]]] = [(1, [])]
    experts: list[tuple[int, list[Part]]] = [(1, [])]
    ways = _gradients(mesh, stages, tensors, rules)
    for size in _divisors(ranks, rules.composition.most_contexts)[1:] if ways else []:
        ring = mesh.contexts(Degrees(tensors, size, ranks // size, stages, 1))
        if ring is not None and ring.pair.size:
            contexts.append((size, [ring]))
        routed = Degrees(tensors, 1, ranks, stages, size)
        tokens = mesh.experts(routed)
        if tokens is not None and tokens.pair.size:
            apart = mesh.expert_gradients(routed)
            experts += [(size, [tokens]), *([(size, [tokens, apart])] if apart is not None and apart.pair.size else [])]
    for gradients, (context, rings), (expert, all_to_all) in product(ways, contexts, experts):
        yield Degrees(tensors, context, ranks // context, stages, expert), [*gradients, *rings, *all_to_all]
    for shards in _divisors(ranks, ranks // 2)[1:] if stages == 1 else []:
        for both_ways in (False, True):
            inner = _all(mesh.shards(tensors, shards, both_ways=both_ways))
            for outer in _gradients(mesh, stages, tensors, rules, shards) if inner is not None else []:
                yield Degrees(tensors, 1, ranks, stages, 1, shards), [*(inner or []), *outer]


def _gradients(mesh: RankMesh, stages: int, tensors: int, rules: LayoutRules, shards: int = 1) -> list[list[Part]]:
    """The ways to add up gradients most of whose pairs carry something."""
    if mesh.ranks == stages * tensors:
        return [[]]
    return _known([_all(mesh.gradients(stages, tensors, route, shards)) for route in rules.composition.routes])


def _all(parts: Iterable[Part | None]) -> list[Part] | None:
    """The parts; None where one of them is None."""
    found = []
    for part in parts:
        if part is None:
            return None
        found.append(part)
    return found


def _known(lists: list[list[Part] | None]) -> list[list[Part]]:
    return [parts for parts in lists if parts is not None]


def _divisors(number: int, most: int) -> list[int]:
    return [one for one in range(1, min(number, most) + 1) if number % one == 0]


def _fitted(
    readings: tuple[Reading, ...], parts: list[Part], members: tuple[int, ...], seen: _Seen, pairs: int,
    rules: LayoutRules,
) -> Composition | None:  # fmt: skip
    """The amounts of these collectives; None where some of them would have none, or contexts no more than tokens on
    the same pairs differ by."""
    every = np.union1d(seen.pair, np.concatenate([part.pair for part in parts]))
    size = np.zeros(every.size)
    size[np.searchsorted(every, seen.pair)] = seen.size
    columns = np.zeros((every.size, len(parts)))
    for number, part in enumerate(parts):
        columns[np.searchsorted(every, part.pair), number] = part.times
    amounts = _amounts(columns, size, rules)
    if amounts is None or _drowned(parts, amounts, rules):
        return None
    uneven = np.array([part.kind is PairKind.EP or any(PairKind.EP in reading.kinds[i] for reading in readings)
                       for i, part in enumerate(parts)])  # fmt: skip
    bits, fits = _saved(columns * amounts, size, uneven, rules)
    carried = np.zeros((len(parts), pairs))
    carried[:, seen.table] = (columns * amounts)[np.searchsorted(every, seen.pair)].T
    return Composition(readings, members, carried, bits, float(fits.mean()))


def _drowned(parts: list[Part], amounts: Float64, rules: LayoutRules) -> bool:
    """Are there contexts that carry hardly more than nothing beside tokens on their pairs? Tokens of all rails and
    groups are uneven alike, so that any ring among them finds some bytes which many pairs agree about."""
    tokens = [(part.pair, amount) for part, amount in zip(parts, amounts, strict=True) if part.kind is PairKind.EP]
    rings = [(part.pair, amount) for part, amount in zip(parts, amounts, strict=True) if part.kind is PairKind.CP]
    return any(
        amount < rules.composition.contexts_of_tokens * routed and np.isin(ring, pairs).all()
        for (ring, amount), (pairs, routed) in product(rings, tokens)
    )


def _amounts(columns: Float64, size: Float64, rules: LayoutRules) -> Float64 | None:
    """Bytes of each collective for each time that it takes a pair; None where one of them is not above zero."""
    rule = rules.composition
    usual = float(np.median(size[size > 0]))
    least = rule.least_amount * usual
    base = np.where(size > 0, np.maximum(size, least), usual)  # nothing seen of a pair says less than a small amount
    weight = 1.0 / base
    amounts: Float64 = np.zeros(columns.shape[1])
    for _ in range(rule.rounds):
        weighted = columns * weight[:, None]
        normal = weighted.T @ weighted
        if int(np.linalg.matrix_rank(normal)) < columns.shape[1]:
            return None
        amounts = np.linalg.solve(normal, weighted.T @ (size * weight)).astype(np.float64)
        predicted = columns @ amounts
        base = np.maximum(np.maximum(predicted, size), least)
        weight = 1.0 / base / np.sqrt(1.0 + ((size - predicted) / (rule.outlier * base)) ** 2)
    return amounts if (amounts > 0.0).all() else None


def _saved(carried: Float64, size: Float64, uneven: Bool, rules: LayoutRules) -> tuple[float, Bool]:
    """Bits that these predictions save, and which pairs they fit; `carried` are the bytes of each collective (columns)
    on each pair. All-to-alls of experts are as uneven as the tokens."""
    rule = rules.composition
    least = rule.least_amount * float(np.median(size[size > 0]))
    predicted, routed = carried.sum(axis=1), carried[:, uneven].sum(axis=1)
    best, fits = -np.inf, np.zeros(size.size, dtype=np.bool_)
    for error, tokens in product(rule.errors, rule.token_errors if uneven.any() else (0.0,)):
        spread = np.sqrt((error * np.maximum(predicted, least)) ** 2 + (tokens * routed) ** 2)
        off = (size - predicted) / spread
        saved = np.log2(np.maximum(size, least) * rule.amount_range / (np.pi * spread)) - np.log2(1.0 + off**2)
        saved = np.where(predicted > 0.0, np.where(size > 0.0, saved, -rule.not_sent_bits), 0.0)
        saved = np.maximum(saved, -rule.not_sent_bits)
        price = carried.shape[1] * _collective_price(error, rules)
        if float(saved.sum()) - price > best:
            near = np.maximum(rule.fitting * spread, rule.outlier * predicted + max(rule.token_errors) * routed)
            best, fits = float(saved.sum()) - price, (np.abs(size - predicted) <= near) & (predicted > 0.0)
    return best, fits
