"""What is known of a job's layout so far: the frozen value that the passes hand on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from llmprism.arrays import Bool, Int8
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.composed import Composed
from llmprism.parallelism.composition import Explanations
from llmprism.parallelism.exchanges import Exchanges, routed
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
from llmprism.parallelism.structure import data_parallel_groups, joined_by, only_pairs
from llmprism.parallelism.tensor_peers import TensorPeers

__all__ = ["PartialLayout", "muted"]


@dataclass(frozen=True, slots=True)
class PartialLayout:
    """What is known of a job so far. `whole` is the job as it was recognised, with all of its bytes; `bulk` marks its
    pairs that carry training traffic. `job.transfers` holds the rows that the passes to come look at; those that are
    explained already have no bytes there. `order` are the micro-batches and the schedule under the clock as it is,
    `among_tokens` are the pairs that experts share with contexts, `measured` is the clock under which `features`
    were. `explained` are the layouts that the bytes of all pairs leave open, `composed` is the one of them that
    replaces what the passes found before. A pass hands on a draft with more in it and changes none."""

    rules: LayoutRules
    whole: Job
    bulk: Bool
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
    among_tokens: Bool | None = None
    peers: TensorPeers | None = None
    measured: StepClock | None = None
    explained: Explanations = field(default_factory=Explanations)
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
    def gradient_groups(self) -> tuple[Group, ...]:
        """The groups of the links of gradients, those that meet in contexts or experts joined."""
        wanted = self.collective & self.inside.gradients
        groups = data_parallel_groups(*only_pairs(self.links, self.kinds, wanted), self.features)
        return joined_by(groups, self.same_weights + (self.composed.contexts if self.composed is not None else ()))

    def with_kind(self, in_step: InStep) -> InStep:
        """What members of one gradient group exchange: experts where it is uneven, else contexts."""
        if in_step.even:
            return in_step
        transfers, pairs = self.job.transfers, in_step.inside & ~in_step.tensor
        exchanged = transfers.rows_of(pairs) & ~in_step.gradient_row
        uneven = routed(transfers, exchanged, pairs, self.pipes.forward, self.clock, self.rules)
        return replace(in_step, kind=PairKind.EP) if uneven else in_step

    @property
    def mixed(self) -> bool:
        """Do tokens take the pairs of gradients, and no others? Then no row is known to be of either, and bytes do not
        show that there are two things."""
        return any(one.pairs.any() and not one.rows.any() for one in (self.meshes, self.exchanges))

    def turned(self, clear: float) -> PartialLayout:
        """The draft as it was before the ends of steps, with its pipelines the other way round: that is clearer by so
        much than what rests say, who say otherwise."""
        assert self.job.clock is not None  # noqa: S101 - the first pass has set it
        transfers = self.job.transfers
        features = pair_features(transfers, self.job.clock, self.rules)
        return replace(
            self,
            pipes=self.pipes.turned(transfers, max(clear - self.pipes.clear, 0.0)),
            clock=self.job.clock,
            features=features,
        )

    def without(self, rows: Bool) -> PartialLayout:
        """The draft with these rows explained."""
        job = replace(self.job, transfers=muted(self.job.transfers, rows))
        features = pair_features(job.transfers, self.clock, self.rules)
        return replace(self, job=job, features=features, measured=self.clock)


def muted(transfers: TransferTable, rows: Bool) -> TransferTable:
    """The table with the same rows, some of them without bytes: what looks at the rest does not see them."""
    return replace(transfers, bytes=np.where(rows, 0, transfers.bytes))
