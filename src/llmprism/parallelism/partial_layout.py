"""What is known of a job's layout so far: the frozen value that the passes hand on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from llmprism.arrays import Bool, Int8
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group
from llmprism.parallelism.composed import Composed
from llmprism.parallelism.exchanges import Exchanges
from llmprism.parallelism.features import Links, PairFeatures, pair_features
from llmprism.parallelism.in_step import InStep, nothing_inside
from llmprism.parallelism.meshes import Meshes
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.rival_clocks import BestClock
from llmprism.parallelism.roles import collective_pairs, pair_kinds_of
from llmprism.parallelism.rules import LayoutRules
from llmprism.parallelism.schedule_fit import NOT_PLAYED, ScheduleFit
from llmprism.parallelism.sharded_job import ShardedJob
from llmprism.parallelism.stage_links import Pipelines
from llmprism.parallelism.tensor_peers import TensorPeers

__all__ = ["PartialLayout", "muted"]


@dataclass(frozen=True, slots=True)
class PartialLayout:
    """What is known of a job so far. `job.transfers` holds the rows that the passes to come look at; those that are
    explained already have no bytes there. `order` are the micro-batches and the schedule under the clock as it is,
    `measured` is the clock under which `features` were. `composed` is what the bytes of all pairs say, where that
    replaces what the passes found before. A pass hands on a draft with more in it and changes none."""

    rules: LayoutRules
    job: Job
    clock: StepClock
    best: BestClock
    meshes: Meshes
    exchanges: Exchanges
    links: Links
    features: PairFeatures
    kinds: LinkKinds
    groups: tuple[Group, ...] = ()
    shared: Bool | None = None
    pipes: Pipelines = field(default_factory=lambda: Pipelines((), [], [], [], rings=False))
    in_step: InStep | None = None
    order: ScheduleFit = NOT_PLAYED
    sharded: ShardedJob | None = None
    contexts: tuple[Group, ...] = ()
    peers: TensorPeers | None = None
    measured: StepClock | None = None
    composed: Composed | None = None

    @property
    def pair_kind(self) -> Int8:
        return pair_kinds_of(self.job.transfers, self.links, self.kinds)

    @property
    def collective(self) -> Bool:
        return collective_pairs(self.job.transfers, self.links, self.kinds, self.rules)

    @property
    def stage_links(self) -> list[tuple[int, int]]:
        return self.pipes.forward + self.pipes.closing

    @property
    def same_weights(self) -> tuple[Group, ...]:
        """Ranks that exchange tokens hold the same dense weights."""
        return self.meshes.groups + self.exchanges.groups

    @property
    def known_ends(self) -> bool:
        """Does the clock tick at the ends of steps by what chose it?"""
        return self.best.passes > 0 and not self.pipes.forward

    @property
    def inside(self) -> InStep:
        return self.in_step if self.in_step is not None else nothing_inside(self.job.transfers)

    @property
    def mixed(self) -> bool:
        """Do tokens take the pairs of gradients, and no others? Then no row is known to be of either, and bytes do not
        show that there are two things."""
        return any(one.pairs.any() and not one.rows.any() for one in (self.meshes, self.exchanges))

    def without(self, rows: Bool) -> PartialLayout:
        """The draft with these rows explained."""
        job = replace(self.job, transfers=muted(self.job.transfers, rows))
        features = pair_features(job.transfers, self.clock, self.rules)
        return replace(self, job=job, features=features, measured=self.clock)


def muted(transfers: TransferTable, rows: Bool) -> TransferTable:
    """The table with the same rows, some of them without bytes: what looks at the rest does not see them."""
    return replace(transfers, bytes=np.where(rows, 0, transfers.bytes))
