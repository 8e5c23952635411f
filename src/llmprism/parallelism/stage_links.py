"""The pipelines of a job in stage order, and the links between their stages."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.direction import in_stage_order
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.pair_ends import pair_index
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.roles import pair_kinds_of
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.structure import pipeline_paths

__all__ = ["Pipelines", "find_pipelines"]


@dataclass(frozen=True, slots=True)
class Pipelines:
    """Members in stage order, and the (forward, backward) pairs between neighbouring stages, between the last two, and
    from the last to the first where `rings` says that stages are interleaved. `clear`: how clear their direction is,
    from 0 to 1."""

    members: tuple[tuple[int, ...], ...]
    forward: list[tuple[int, int]]
    last: list[tuple[int, int]]
    closing: list[tuple[int, int]]
    rings: bool
    clear: float = 1.0

    def turned(self, transfers: TransferTable, clear: float = 1.0) -> Pipelines:
        """The same pipelines with their last stages first."""
        return _linked(
            tuple(sorted(pipeline[::-1] for pipeline in self.members)), pair_index(transfers), self.rings, clear
        )


def find_pipelines(
    job: Job,
    links: Links,
    kinds: LinkKinds,
    features: PairFeatures,
    groups: tuple[Group, ...],
    rules: LayoutRules = RULES,
) -> Pipelines:
    assert job.clock is not None  # noqa: S101 - checked by the caller
    paths, rings = pipeline_paths(links, kinds, features)
    if not paths:
        return Pipelines((), [], [], [], rings)
    pair_of = pair_index(job.transfers)
    gradient = pair_kinds_of(job.transfers, links, kinds) == PairKind.DP
    order = in_stage_order(
        job.transfers, paths, pair_of, _sides(job, groups), job.clock.boundary_ns, rules, gradient, ring=rings
    )
    return _linked(order.paths, pair_of, rings, order.clear)


def _linked(
    members: tuple[tuple[int, ...], ...], pair_of: dict[tuple[int, int], int], rings: bool, clear: float
) -> Pipelines:
    return Pipelines(
        members,
        forward=_stage_links(members, pair_of),
        last=_stage_links(tuple(pipeline[-2:] for pipeline in members), pair_of),
        closing=_stage_links(tuple((p[-1], p[0]) for p in members), pair_of) if rings else [],
        rings=rings,
        clear=clear,
    )


def _sides(job: Job, groups: tuple[Group, ...]) -> dict[int, str]:
    """For each member of a group the servers that the group is on, for others their own server; the number of the group
    where servers are not known."""
    place = dict(zip(job.members, job.places, strict=False))
    sides = {member: server for member, server in place.items() if server}
    for index, group in enumerate(groups):
        servers = {place.get(member, "") for member in group.members}
        name = f"group {index}" if "" in servers else " ".join(sorted(servers))
        sides.update(dict.fromkeys(group.members, name))
    return sides


def _stage_links(pipelines: tuple[tuple[int, ...], ...], pair_of: dict[tuple[int, int], int]) -> list[tuple[int, int]]:
    """(forward pair, backward pair) between neighbouring stages."""
    neighbours = (link for pipeline in pipelines for link in pairwise(pipeline))
    return [
        (pair_of[early, late], pair_of[late, early])
        for early, late in neighbours
        if (early, late) in pair_of and (late, early) in pair_of
    ]
