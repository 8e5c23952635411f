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
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Float64
from llmprism.model.clock import StepClock
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.pair_ends import natural_order
from llmprism.parallelism.peer_signs import MIN_STEPS, PeerSigns, peer_signs
from llmprism.stats.disjoint_sets import component_labels

Level = tuple[tuple[float, float, float], ...]

__all__ = ["TensorPeers", "find_tensor_peers", "joined_replicas"]

CELLS: Final = 24
"""Servers (and stages) that are looked at: all are cut alike."""

ENDS_OF_REPLICAS: Final[Level] = ((0.9, 0.0, 0.15), (0.1, 1.0, 1.0))
"""Where the level of a sign lies: (share, centre, width) of Student distributions with three degrees of freedom.
Members of one group end together; where every rail of the group runs a ring of its own, some rails end later."""

ENDS_OF_OTHERS: Final[Level] = ((0.7, 2.5, 1.5), (0.3, 0.3, 0.3))
"""Different groups end 2 to 7 units (factors of e) farther apart than members of one; where nothing disturbs them,
hardly farther."""

SENDS_OF_PEERS: Final[Level] = ((0.9, -5.0, 3.0), (0.1, 0.0, 0.7))
"""Peers hand on their activations at the same moments; where each has a process of its own, no closer than replicas."""

SENDS_OF_OTHERS: Final[Level] = ((1.0, 0.0, 0.5),)
"""Replicas are as far apart as on different servers."""

ALONE_SENDS_OF_OTHERS: Final[Level] = ((1.0, -0.3, 0.8),)
"""Where there is no other server to compare with: what all replicas have in common makes them closer than chance."""

ENDS_SPREAD: Final = 0.7
SENDS_SPREAD: Final = 1.0
"""Spread of a sign among the pairs of one class."""

FARTHEST: Final = 12.0
"""Deviations beyond this say no more."""

AS_SEEN: Final = 1.0
"""Log odds, before anything is measured, that groups are the rails that are seen; of sharded training, that there are
no peers at all: shards go over all GPUs."""

PARTLY_SEEN: Final = 2.0
"""What is added to them where records join some GPUs of a server to a group: they would have joined others too."""

PARTLY_PEERS: Final = -1.0
"""Log odds that a server holds several tensor-parallel groups: most hold one or none."""


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
    job: Job, groups: tuple[Group, ...], pipelines: tuple[tuple[int, ...], ...], pair_kind: NDArray[np.int8],
    clock: StepClock, *, sharded: bool = False,
) -> TensorPeers | None:  # fmt: skip
    """How the GPUs of servers divide; None where no server has several of one stage, or nothing tells."""
    cells = _cells(job, pipelines)
    shared = [cell for cell in cells if len(cell) > 1]
    most = int(np.gcd.reduce([len(cell) for cell in cells])) if cells else 0
    if not shared or most < 2 or clock.steps < MIN_STEPS:
        return None
    widths = [w for w in range(1, most + 1) if most % w == 0 and _allowed(shared, groups, w)]
    if not widths:
        return None
    asked = [shared[i] for i in np.unique(np.linspace(0, len(shared) - 1, min(CELLS, len(shared))).astype(int))]
    signs = peer_signs(job, asked, groups, pipelines, pair_kind, clock)
    if signs is None:
        return None
    scores = np.array([_likelihood(signs, asked, w) for w in widths])
    scores[[w not in (1, most) for w in widths]] += PARTLY_PEERS
    scores[0 if sharded else -1] += AS_SEEN + PARTLY_SEEN * (most > widths[-1] > 1)
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
    cells: dict[tuple[str, int], list[tuple[int, list[tuple[int, str]], int]]] = {}
    for member, place, slot in zip(job.members, job.places, slots, strict=False):
        if place and (member in stage_of or not pipelines):
            key = (place, stage_of.get(member, 0))
            cells.setdefault(key, []).append((slot, natural_order(job.transfers.addresses[member]), member))
    return [tuple(member for _, _, member in sorted(cell)) for cell in cells.values()]


def _allowed(cells: list[tuple[int, ...]], groups: tuple[Group, ...], width: int) -> bool:
    """No two members of one group are called peers, and none of different places."""
    group_of = {member: index for index, group in enumerate(groups) for member in group.members}
    for cell in cells:
        place_of: dict[int, int] = {}
        for i, member in enumerate(cell):
            if member in group_of and place_of.setdefault(group_of[member], i % width) != i % width:
                return False
    return True


def _likelihood(signs: PeerSigns, cells: list[tuple[int, ...]], width: int) -> float:
    """Log likelihood of the signs if so many neighbours are peers."""
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
    loose = SENDS_OF_OTHERS if signs.compared else ALONE_SENDS_OF_OTHERS
    independent = 2.0 / max(len(cell) for cell in cells)  # n members have n - 1 differences, not n (n - 1) / 2
    return (
        _class(_known(signs.ends, one_group), ENDS_OF_REPLICAS, ENDS_SPREAD, independent)
        + _class(_known(signs.ends, peers + neither), ENDS_OF_OTHERS, ENDS_SPREAD, independent)
        + _class(_known(signs.sends, peers), SENDS_OF_PEERS, SENDS_SPREAD, independent)
        + _class(_known(signs.sends, one_group + neither), loose, SENDS_SPREAD, independent)
    )


def _class(values: Float64, levels: Level, spread: float, weight: float) -> float:
    """Log likelihood of the signs of one class: of their level once, and of how each pair differs from it."""
    if not values.size:
        return 0.0
    level, error = float(np.median(values)), spread / np.sqrt(max(weight * values.size, 1.0))
    density = 0.0
    for share, centre, own_width in levels:
        width = float(np.hypot(own_width, error))
        density += share / width / (1.0 + ((level - centre) / width) ** 2 / 3.0) ** 2
    deviation = np.clip((values - level) / spread, -FARTHEST, FARTHEST)
    return float(np.log(density) - weight * 1.5 * np.log1p(0.5 * deviation**2).sum())


def _known(signs: dict[tuple[int, int], float], pairs: list[tuple[int, int]]) -> Float64:
    values = np.array([signs[pair] for pair in pairs], dtype=np.float64)
    return values[np.isfinite(values)]
