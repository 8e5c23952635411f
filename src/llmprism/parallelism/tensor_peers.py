"""Which GPUs of a server are tensor-parallel peers, which are replicas: rival partitions, the likeliest wins.

Neither talks to the other over the network: both share NVLink. Two things tell them apart all the same.

* *A collective ends for all of its members at once.* Replicas are in one data-parallel group, so the last messages of
  their gradients end together, as they do for members of the group on other servers, between which it is seen. Tensor
  peers are in different groups, which end when they end.
* *Peers compute each layer together.* They hand on their activations at the same moments, while replicas run their
  pipelines independently between two synchronisations, as pipelines on different servers do.

Neither sign is there in every job: peers of real jobs may be milliseconds apart, because each has a process of its own,
and groups without noise between them all end together. So every way to cut the GPUs of a server into tensor-parallel
groups of equal size is a hypothesis. It sorts the pairs of GPUs into classes, and says of each class where the level of
its signs is likely to lie (`LEVELS`): the level is one draw per job, however many pairs show it, and only differences
between the pairs of one class count pair by pair. Where groups are seen to join GPUs of one server, these are replicas,
and hypotheses that deny it are not considered.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from llmprism.arrays import Float64, Int8, evenly_spread, median
from llmprism.model.clock import StepClock
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.pair_ends import natural_order
from llmprism.parallelism.peer_signs import PeerSigns, peer_signs
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

Level = tuple[tuple[float, float, float], ...]

__all__ = ["TensorPeers", "find_tensor_peers", "joined_replicas"]


@dataclass(frozen=True, slots=True)
class TensorPeers:
    """`width` tensor-parallel peers stand next to each other in the order of `cells`, the members of one stage on one
    server. `confidence` is the probability of this width among all that were considered, `others` are the others with
    theirs."""

    width: int
    cells: tuple[tuple[int, ...], ...]
    confidence: float
    others: tuple[tuple[int, float], ...] = ()


def find_tensor_peers(
    job: Job, groups: tuple[Group, ...], pipelines: tuple[tuple[int, ...], ...], pair_kind: Int8,
    clock: StepClock, rules: LayoutRules = RULES, *, sharded: bool = False, open_widths: frozenset[int] = frozenset(),
) -> TensorPeers | None:  # fmt: skip
    """How the GPUs of servers divide; None where no server has several of one stage, or the job shows too few steps.
    Where no sign was measured, what is known before decides. `open_widths` are those that other evidence leaves open
    (none: it says nothing)."""
    cells = _cells(job, pipelines)
    shared = [cell for cell in cells if len(cell) > 1]
    most = int(np.gcd.reduce([len(cell) for cell in cells])) if cells else 0
    if not shared or most < 2 or clock.steps < rules.peers.least_steps:
        return None
    widths = [w for w in range(1, most + 1) if most % w == 0 and _allowed(shared, groups, w)]
    widths = [w for w in widths if w in open_widths] or widths
    if not widths:
        return None
    sampled = [shared[place] for place in evenly_spread(len(shared), rules.peers.cells).tolist()]
    signs = peer_signs(job, sampled, groups, pipelines, pair_kind, clock, rules, starts=sharded)
    group_of = {member: index for index, group in enumerate(groups) for member in group.members}
    scores = np.array([_likelihood(signs, sampled, group_of, w, rules) for w in widths])
    scores[[w not in (1, most) for w in widths]] += rules.peers.partly_peers
    if most > widths[-1] > 1:  # records join some of a server: they would join all of a group
        scores[-1] += rules.peers.as_seen + rules.peers.partly_seen
    elif not sharded:
        scores[-1] += rules.peers.as_seen
    if widths[0] == 1:
        scores[0] += _one_collective(signs, rules)
    odds = np.exp(scores - scores.max())
    best = int(np.argmax(scores))
    shares = (odds / odds.sum()).tolist()
    others = tuple((width, share) for width, share in zip(widths, shares, strict=True) if width != widths[best])
    return TensorPeers(widths[best], tuple(cells), shares[best], others)


def joined_replicas(groups: tuple[Group, ...], peers: TensorPeers) -> tuple[Group, ...]:
    """The groups, those of replicas that share servers made one; replicas without a group of their own get one."""
    group_of = {member: index for index, group in enumerate(groups) for member in group.members}
    alone = sorted({m for cell in peers.cells for m in cell} - group_of.keys())
    parts = [*groups, *(Group(PairKind.DP, (member,)) for member in alone)]
    number = group_of | {member: len(groups) + i for i, member in enumerate(alone)}
    left, right = [], []
    for cell in peers.cells:
        for place in range(peers.width):
            same = [number[member] for member in cell[place :: peers.width]]
            left += same[:-1]
            right += same[1:]
    labels = component_labels(len(parts), left, right)
    joined = [[parts[i] for i in np.flatnonzero(labels == label)] for label in range(int(labels.max(initial=-1)) + 1)]
    made = (part[0] if len(part) == 1 else _one(part) for part in joined)
    return tuple(sorted((group for group in made if len(group.members) > 1), key=lambda group: min(group.members)))


def _one(parts: list[Group]) -> Group:
    return Group(PairKind.DP, tuple(sorted({member for part in parts for member in part.members})), ring=False)


def _cells(job: Job, pipelines: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Members of one stage on one server, in the order of their GPUs (or addresses)."""
    stage_of = {member: stage for pipeline in pipelines for stage, member in enumerate(pipeline)}
    slots = job.slots or (-1,) * len(job.members)
    cells: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for member, place, slot in zip(job.members, job.places, slots, strict=False):
        if place and (member in stage_of or not pipelines):
            cells.setdefault((place, stage_of.get(member, 0)), []).append((slot, member))
    return [_in_order(job, cell) for cell in cells.values()]


def _in_order(job: Job, cell: list[tuple[int, int]]) -> tuple[int, ...]:
    """The members of a cell, given with their slots, by slot; by address where several have the same."""
    if len({slot for slot, _ in cell}) == len(cell):
        return tuple(member for _, member in sorted(cell))
    by_address = ((slot, natural_order(job.transfers.addresses[member]), member) for slot, member in cell)
    return tuple(member for _, _, member in sorted(by_address))


def _allowed(cells: list[tuple[int, ...]], groups: tuple[Group, ...], width: int) -> bool:
    """No two members of one group are called peers, and none of different places."""
    group_of = {member: index for index, group in enumerate(groups) for member in group.members}
    for cell in cells:
        place_of: dict[int, int] = {}
        for i, member in enumerate(cell):
            if member in group_of and place_of.setdefault(group_of[member], i % width) != i % width:
                return False
    return True


def _likelihood(
    signs: PeerSigns, cells: list[tuple[int, ...]], group_of: dict[int, int], width: int, rules: LayoutRules
) -> float:
    """Log likelihood of the signs if so many neighbours are peers."""
    rule = rules.peers
    one_group, peers, neither = [], [], []
    for cell in cells:
        for i, j in combinations(range(len(cell)), 2):
            pair = (cell[i], cell[j])
            if i // width == j // width:
                peers.append(pair)
            elif i % width == j % width:
                one_group.append(pair)
            else:
                neither.append(pair)
    close, loose, spread = (
        (rule.sends_of_peers, rule.sends_of_others, rule.sends_spread)
        if signs.compared
        else (rule.alone_sends_of_peers, rule.alone_sends_of_others, rule.alone_sends_spread)
    )
    unsure, of_replicas = (
        signs.ends_error,
        rule.ends_of_rails if _begin_together(signs, rules) else rule.ends_of_replicas,
    )
    rounded = signs.sends_rounded if np.isfinite(signs.sends_rounded) else -np.inf
    independent = 2.0 / max(len(cell) for cell in cells)  # n members have n - 1 differences, not n (n - 1) / 2
    return (
        _class(_of_groups(signs.ends, one_group, group_of), of_replicas, rule.ends_spread, independent, rules, unsure)
        + _class(
            _of_groups(signs.ends, peers + neither, group_of),
            _of_others(signs, rules),
            rule.ends_spread,
            independent,
            rules,
            unsure,
        )
        + _class(_known(signs.sends, peers), close, spread, independent, rules, least=rounded)
        + _class(_known(signs.sends, one_group + neither), loose, spread, independent, rules, least=rounded)
    )


def _begin_together(signs: PeerSigns, rules: LayoutRules) -> bool:
    return signs.together >= rules.peers.share_together


def _one_collective(signs: PeerSigns, rules: LayoutRules) -> float:
    """Log odds that the rails are those of one collective, by whether their messages begin in the same moment."""
    if np.isnan(signs.together):
        return 0.0
    rails, peers = rules.peers.rails_together, rules.peers.peers_together
    together = _begin_together(signs, rules)
    return float(np.log(rails / peers if together else (1.0 - rails) / (1.0 - peers)))


def _of_others(signs: PeerSigns, rules: LayoutRules) -> Level:
    """Where the ends of different groups lie. What keeps groups apart may be anything from microseconds to
    milliseconds; where members of one group end farther apart themselves, it does not show, and they look like one."""
    rule = rules.peers
    least, most = np.log(rule.groups_apart_ns)
    hidden = float(np.clip((np.log(max(signs.along_ns, 1.0)) - least) / (most - least), 0.0, rule.most_hidden))
    shown = ((share * (1.0 - hidden), centre, width) for share, centre, width in rule.ends_of_others)
    alike = ((share * hidden, centre, width) for share, centre, width in rule.ends_of_replicas)
    return (*shown, *alike)


def _class(
    values: Float64, levels: Level, spread: float, weight: float, rules: LayoutRules, unsure: float = 0.0,
    least: float = -np.inf,
) -> float:  # fmt: skip
    """Log likelihood of the signs of one class: of their level once, and of how each pair differs from it. `unsure` is
    an error of the level that all pairs have in common; pairs do not differ by values below `least`."""
    if not values.size:
        return 0.0
    level, error = float(median(values)), spread / np.sqrt(max(weight * values.size, 1.0))
    density = 0.0
    for share, centre, own_width in levels:
        width = float(np.sqrt(own_width**2 + error**2 + unsure**2))
        density += share / width / (1.0 + ((level - centre) / width) ** 2 / 3.0) ** 2
    differ = np.maximum(values, least) - max(level, least)
    deviation = np.clip(differ / spread, -rules.peers.farthest, rules.peers.farthest)
    return float(np.log(density) - weight * 1.5 * np.log1p(0.5 * deviation**2).sum())


def _of_groups(ends: dict[tuple[int, int], float], pairs: list[tuple[int, int]], group_of: dict[int, int]) -> Float64:
    """One value for each two groups: they end once in a step, however many servers show it."""
    values: dict[tuple[int, int], list[float]] = {}
    for one, other in pairs:
        if np.isfinite(ends[one, other]):
            values.setdefault((group_of[one], group_of[other]), []).append(ends[one, other])
    return np.array([sum(of_two) / len(of_two) for of_two in values.values()], dtype=np.float64)


def _known(signs: dict[tuple[int, int], float], pairs: list[tuple[int, int]]) -> Float64:
    values = np.array([signs[pair] for pair in pairs], dtype=np.float64)
    return values[np.isfinite(values)]
