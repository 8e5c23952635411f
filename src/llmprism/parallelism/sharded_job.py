"""Groups, clock and sharding of a job in the light of how its parameters are sharded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Int8, Int32
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind, Sharding
from llmprism.parallelism.accumulation import between_passes
from llmprism.parallelism.clock_candidates import same_period
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.heavy_end import HeavyEnd, heavy_end
from llmprism.parallelism.hybrid import Grid, shard_grid
from llmprism.parallelism.optimizer_pause import OptimizerPause, after_control, optimizer_pause
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.phase import replicas_rest_clock, shifted_clock, usable_clock
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.sharding import sharding_of
from llmprism.parallelism.structure import data_parallel_groups, pairs_inside
from llmprism.parallelism.turning_point import clock_before_turn

__all__ = ["ShardedJob", "after_last_pass", "find_sharding"]


@dataclass(frozen=True, slots=True)
class ShardedJob:
    """Groups and clock in the light of how the parameters are sharded; `passes` over all layers make one step."""

    sharding: Sharding
    groups: tuple[Group, ...]
    clock: StepClock
    passes: int = 1
    hybrid: bool = False


def find_sharding(
    job: Job, links: Links, kinds: LinkKinds, pair_kind: Int8, features: PairFeatures, groups: tuple[Group, ...],
    clock: StepClock, rules: LayoutRules = RULES, *, has_pipelines: bool,
) -> ShardedJob:  # fmt: skip
    transfers = job.transfers
    grid = None if has_pipelines else shard_grid(job, links, kinds, features, rules)
    shards = grid.shards if grid is not None else None
    gathered = _pairs_in(transfers, pair_kind == PairKind.DP, links, shards)
    found = sharding_of(transfers, np.flatnonzero(gathered), features, clock, rules, has_pipelines=has_pipelines)
    everyone, before = pairs_inside(transfers, groups), clock
    pattern = everyone if shards is None else gathered
    optimizer = None if has_pipelines else optimizer_pause(transfers, pattern, clock, rules)
    repeated = None if has_pipelines else between_passes(transfers, everyone, clock, rules)
    if repeated is not None and repeated[0].steps > 1:
        clock = after_control(transfers, pattern, repeated[0], rules)
        groups = _shard_groups(job, links, kinds, features, grid)
        return ShardedJob(Sharding.FSDP, groups, clock, repeated[1], hybrid=shards is not None)
    predicted = grid is not None and grid.predicted
    replicas = _pairs_in(transfers, pair_kind == PairKind.DP, links, None if shards is None else ~shards)
    ended = replicas_rest_clock(transfers, replicas, everyone, clock, rules) if predicted else None
    if ended is not None:
        groups = _shard_groups(job, links, kinds, features, grid)
        return ShardedJob(Sharding.FSDP, groups, usable_clock(ended, clock), hybrid=True)
    if optimizer is not None and optimizer.gathers:
        clock = usable_clock(_at_optimizer(transfers, pattern, everyone, clock, optimizer, rules), clock)
        return ShardedJob(Sharding.ZERO, groups, clock)
    heavy = None if has_pipelines else heavy_end(transfers, gathered, clock, rules)
    turned = None if has_pipelines or optimizer is not None else _turned(transfers, gathered, clock, heavy, rules)
    if turned is not None:
        groups = _shard_groups(job, links, kinds, features, grid)
        return ShardedJob(Sharding.FSDP, groups, turned, hybrid=shards is not None)
    if found.sharding is not Sharding.FSDP and heavy is None:
        if optimizer is not None and (optimizer.longest or predicted):
            clock = usable_clock(_at_optimizer(transfers, pattern, everyone, clock, optimizer, rules), clock)
        if predicted:
            groups = _shard_groups(job, links, kinds, features, grid)
            return ShardedJob(Sharding.FSDP, groups, clock, hybrid=True)
        return ShardedJob(found.sharding, groups, clock)
    if optimizer is not None:
        clock = _at_optimizer(transfers, pattern, everyone, clock, optimizer, rules)
    elif heavy is not None and heavy.shift:
        clock = shifted_clock(transfers, pattern, everyone, clock, heavy.shift, heavy.bursts, rules, every_step=True)
    elif heavy is None and found.shift:
        clock = shifted_clock(transfers, pattern, everyone, clock, found.shift, found.collectives, rules)
        if clock.steps < rules.sharding.kept_steps * before.steps:  # few long steps made that pattern
            return ShardedJob(Sharding.UNKNOWN, groups, before)
    clock = usable_clock(clock, before)
    groups = _shard_groups(job, links, kinds, features, grid)
    return ShardedJob(Sharding.FSDP, groups, clock, hybrid=shards is not None)


def after_last_pass(
    transfers: TransferTable, everyone: Bool, sharded: ShardedJob, parts: StepClock | None, rules: LayoutRules = RULES
) -> ShardedJob:
    """The job, whose pairs are `everyone`, the ends of its steps after the pass that the optimizer follows, where the
    `parts` of a step (the ticks of a faster clock) are passes over all layers: steps do not tell them apart."""
    if parts is None or sharded.sharding is not Sharding.FSDP or sharded.passes > 1:
        return sharded
    found = between_passes(transfers, everyone, parts, rules)
    if found is None or not same_period(found[0].period_ns, sharded.clock.period_ns, rules):
        return sharded
    return replace(sharded, clock=found[0], passes=found[1])


def _turned(
    transfers: TransferTable, gathered: Bool, clock: StepClock, heavy: HeavyEnd | None, rules: LayoutRules
) -> StepClock | None:
    """The clock at the ends of the steps, where the place that passes for them is the turn between the passes."""
    place = 0.0 if heavy is None else heavy.shift
    turned = clock_before_turn(transfers, gathered, clock, place, rules)
    return turned if turned is not None and turned.steps > 1 else None


def _at_optimizer(
    transfers: TransferTable, pattern: Bool, everyone: Bool, clock: StepClock, found: OptimizerPause, rules: LayoutRules
) -> StepClock:
    """The clock, moved to the end of the step that the optimizer's pause tells."""
    if min(found.shift, 1.0 - found.shift) > rules.sharding.same_place:
        moved = shifted_clock(transfers, pattern, everyone, clock, found.shift, rules.sharding.pause_parts, rules)
        clock = moved if moved.steps >= rules.sharding.kept_steps * clock.steps else clock
    return after_control(transfers, pattern, clock, rules) if found.alone and not found.gathers else clock


def _pairs_in(transfers: TransferTable, pairs: Bool, links: Links, chosen: Bool | None) -> Bool:
    """Those of the pairs that belong to the chosen links; all where no links were chosen."""
    if chosen is None:
        return pairs
    inside = np.zeros(transfers.pair_count, dtype=np.bool_)
    inside[_pairs_of(links.only(chosen))] = True
    return pairs & inside


def _shard_groups(
    job: Job, links: Links, kinds: LinkKinds, features: PairFeatures, grid: Grid | None
) -> tuple[Group, ...]:
    """Groups of sharded training, with those of the replicas where sharding is hybrid."""
    if grid is None:
        return data_parallel_groups(links, kinds, features)
    shards = grid.shards
    inside = data_parallel_groups(links.only(shards), kinds.only(shards), features)
    across = data_parallel_groups(links.only(~shards), kinds.only(~shards), features)
    return (_one_per_servers(job, inside) if grid.rails else inside) + across


def _one_per_servers(job: Job, groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Rails of hybrid sharding on the same servers are one group: shards go over all GPUs of a server."""
    place = dict(zip(job.members, job.places, strict=False))
    by_servers: dict[frozenset[str], list[Group]] = {}
    for group in groups:
        servers = frozenset(place.get(member, "") for member in group.members)
        by_servers.setdefault(frozenset() if "" in servers else servers, []).append(group)
    joined: list[Group] = []
    for servers, parts in by_servers.items():
        if not servers or len(servers) == 1 or len(parts) == 1:
            joined += parts
        else:
            members = tuple(sorted(member for part in parts for member in part.members))
            joined.append(Group(PairKind.DP, members, ring=False))
    return tuple(sorted(joined, key=lambda group: min(group.members)))


def _pairs_of(links: Links) -> Int32:
    both = np.concatenate([links.there, links.back])
    return both[both >= 0]
