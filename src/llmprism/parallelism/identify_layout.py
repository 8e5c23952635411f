"""How a job is laid out: a list of passes over one frozen draft, from the clock to degrees and schedule.

Each pass is an idea with a file of its own; it takes the draft, and returns one in which more is known. None rewrites
the answer of another in place, and what a pass has explained (all-to-alls, exchanges) has no bytes for later ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from llmprism.arrays import Bool
from llmprism.model.job import Job
from llmprism.model.layout import Group, JobLayout, PairKind, Sharding
from llmprism.parallelism.batches import batches_and_schedule
from llmprism.parallelism.chain_trees import without_chain_trees
from llmprism.parallelism.closing_links import with_closings, without_false_closings, without_light_closings
from llmprism.parallelism.collectives_instead import collectives_instead
from llmprism.parallelism.composed import (
    Composed,
    better_composition,
    in_shards,
    sizes_of,
    staged_instead,
    tensor_widths,
)
from llmprism.parallelism.composed_start import composed_start
from llmprism.parallelism.composition import compositions_of
from llmprism.parallelism.context_lanes import beyond, context_lanes
from llmprism.parallelism.contexts_among_tokens import with_contexts_among_tokens
from llmprism.parallelism.exchanges import find_exchanges, reduced_apart
from llmprism.parallelism.features import Links, PairFeatures, links_of, pair_features
from llmprism.parallelism.hybrid import shard_grid
from llmprism.parallelism.in_step import InStep, find_in_step, nothing_inside
from llmprism.parallelism.interruptions import after_interruptions
from llmprism.parallelism.job_end import with_settled_clock
from llmprism.parallelism.judged_layout import judged_layout
from llmprism.parallelism.last_messages import shared_rows
from llmprism.parallelism.link_evidence import evidence_of, only_set_up
from llmprism.parallelism.lost_records import with_usual_bytes
from llmprism.parallelism.meshes import find_meshes
from llmprism.parallelism.micro_batches import micro_batches
from llmprism.parallelism.pair_kinds import LinkKinds, judge_links, reconcile, without_false_pipelines
from llmprism.parallelism.partial_layout import PartialLayout, muted
from llmprism.parallelism.quiet_end import quiet_ends
from llmprism.parallelism.rival_clocks import BestClock, best_clock, parts_of_steps
from llmprism.parallelism.roles import pairs_of_kind
from llmprism.parallelism.routed_pairs import routed_pairs
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.schedule_fit import ScheduleFit
from llmprism.parallelism.sharded_job import ShardedJob, after_last_pass, find_sharding
from llmprism.parallelism.sharded_stages import first_gather_clock, longest_rest_clock
from llmprism.parallelism.shared_links import after_collectives
from llmprism.parallelism.slower_layout import slower_rivals, surer_layout
from llmprism.parallelism.stated_layout import stated_layout
from llmprism.parallelism.step_ends import scatters, step_ends
from llmprism.parallelism.structure import data_parallel_groups, joined_by, only_pairs, pairs_inside
from llmprism.parallelism.tensor_peers import find_tensor_peers, joined_replicas
from llmprism.parallelism.uneven_messages import take_turns
from llmprism.parallelism.unknown_collectives import unknown_layout

__all__ = ["identify_layout"]

_Pass = Callable[[PartialLayout], PartialLayout]


def identify_layout(job: Job, rules: LayoutRules = RULES, known_bytes: int = 0) -> JobLayout:
    """The layout of one job; `unknown` throughout when its steps cannot be seen. `known_bytes` are those of a step of a
    job that has been watched before (0: it has not)."""
    bulk = job.bulk if job.bulk is not None else np.ones(job.transfers.pair_count, dtype=np.bool_)
    best = best_clock(job, bulk, rules, known_bytes)
    if best is None:
        return unknown_layout(job.transfers, bulk)
    layout = _with_clock(job, bulk, best, rules)
    for slower in slower_rivals(job, best, rules):
        layout = surer_layout(layout, _with_clock(job, bulk, slower, rules), rules)
    return layout


def _with_clock(job: Job, bulk: Bool, best: BestClock, rules: LayoutRules) -> JobLayout:
    """The layout of a job whose clock is known."""
    seen = _seen_links(job, bulk, best, rules)
    layout = judged_layout(_after(PASSES, seen))
    return collectives_instead(seen, layout, lambda draft: _after(PASSES, draft))


def _after(passes: tuple[_Pass, ...], draft: PartialLayout) -> PartialLayout:
    for one_pass in passes:
        draft = one_pass(draft)
    return draft


def _seen_links(job: Job, bulk: Bool, best: BestClock, rules: LayoutRules) -> PartialLayout:
    """All links of the job and the all-to-alls among them."""
    clock, every_link = best.clock, links_of(job.transfers, bulk)
    meshes = find_meshes(job.transfers, bulk, every_link)
    transfers = muted(job.transfers, meshes.rows) if meshes.groups else job.transfers
    features = pair_features(transfers, clock, rules)
    links = every_link.only(~meshes.inside | meshes.more)
    shown = evidence_of(transfers, links, features, clock, rules, best.passing)
    exchanges = find_exchanges(transfers, links, features, shown.one_way, clock, rules)
    if exchanges.groups:
        transfers = muted(transfers, exchanges.rows)
        features = pair_features(transfers, clock, rules)
        shown = evidence_of(transfers, links, features, clock, rules, best.passing)
    elif not meshes.groups:
        exchanges = routed_pairs(transfers, links, clock, rules)
    with_ring = meshes.more[~meshes.inside | meshes.more] | exchanges.on_all(links)  # a ring besides
    kinds = judge_links(links, features, shown, rules).as_collectives(with_ring, rules)
    left = replace(job, clock=clock, transfers=transfers)
    return PartialLayout(rules, job, bulk, left, clock, best, meshes, exchanges, links, features, kinds, measured=clock)


def _consistent_kinds(draft: PartialLayout) -> PartialLayout:
    """One meaning for every link that the whole graph allows; links of the set-up alone have none."""
    if draft.composed is not None:
        return replace(draft, groups=draft.gradient_groups)
    setup = only_set_up(draft.job.transfers, draft.links, draft.clock, draft.rules)
    steady = draft.links.only(~setup)
    kinds = without_false_pipelines(steady, reconcile(steady, draft.kinds.only(~setup)), draft.rules)
    kinds = without_chain_trees(draft.job, steady, kinds, draft.features, draft.rules)
    kinds = without_light_closings(steady, kinds, draft.features, draft.rules)
    groups = joined_by(data_parallel_groups(steady, kinds, draft.features), draft.same_weights)
    return replace(draft, links=steady, kinds=kinds, groups=groups)


def _without_shared_collectives(draft: PartialLayout) -> PartialLayout:
    """Collectives that share a link with activations are taken away from it."""
    links = draft.links
    passing = np.flatnonzero((draft.kinds.kind == PairKind.PP) & (links.there >= 0) & (links.back >= 0))
    both = list(zip(links.there[passing].tolist(), links.back[passing].tolist(), strict=True))
    shared = shared_rows(draft.job.transfers, both, draft.clock, draft.rules)
    return replace(draft.without(shared), shared=shared) if shared.any() else draft


def _with_pipelines(draft: PartialLayout) -> PartialLayout:
    seen = (draft.job, draft.links, draft.kinds, draft.features, draft.groups)
    kinds, pipes = without_false_closings(*seen, rules=draft.rules)
    return replace(draft, kinds=kinds, pipes=pipes)


def _without_exchanges(draft: PartialLayout) -> PartialLayout:
    """Without pipelines: what the forward pass exchanges is taken away from the gradients."""
    if draft.composed is not None:
        return draft
    links, kinds, collective = draft.links, draft.kinds, draft.collective
    contrast = not draft.pipes.forward and shard_grid(draft.job, links, kinds, draft.features, draft.rules) is None
    chosen = np.flatnonzero(collective & contrast)
    in_step = find_in_step(draft.job.transfers, chosen, [], draft.features, draft.clock, rules=draft.rules)
    if not in_step.any:
        return draft
    in_step = draft.with_kind(in_step)
    exchanged = draft.job.transfers.rows_of(in_step.inside) & ~in_step.gradient_row
    groups = data_parallel_groups(*only_pairs(links, kinds, collective & in_step.gradients), draft.features)
    return replace(draft.without(exchanged), in_step=in_step, groups=groups)


def _with_step_ends(draft: PartialLayout) -> PartialLayout:
    """The clock, moved to where the steps end."""
    if draft.known_ends:
        return draft
    job, transfers, pipes, features = draft.job, draft.job.transfers, draft.pipes, draft.features
    between = pairs_of_kind(transfers, draft.links, draft.kinds, PairKind.OTHER)
    if draft.best.lossy:
        job = with_usual_bytes(replace(job, clock=draft.clock), draft.clock, draft.rules)
        features = pair_features(job.transfers, draft.clock, draft.rules)
    clock = step_ends(job, draft.groups, draft.stage_links, features, between, draft.rules)
    clock = draft.clock if scatters(clock, draft.clock, draft.rules) else clock
    if draft.shared is not None:
        clock = after_collectives(transfers, draft.stage_links, draft.shared, clock)
    if pipes.forward and not draft.groups:
        batches = micro_batches(transfers, pipes.forward, clock, draft.rules)
        clock = quiet_ends(transfers, draft.stage_links, pipes.last, batches, clock, draft.rules)
    return replace(draft, clock=clock, features=pair_features(transfers, clock, draft.rules), measured=clock)


def _with_sharding(draft: PartialLayout) -> PartialLayout:
    seen = (draft.job, draft.links, draft.kinds, draft.pair_kind, draft.features, draft.groups, draft.clock)
    if draft.known_ends:
        sharded = ShardedJob(Sharding.ZERO, draft.groups, draft.clock, draft.best.passes)
    else:
        sharded = find_sharding(*seen, has_pipelines=bool(draft.pipes.members), rules=draft.rules)
        if not draft.pipes.members and sharded.clock is draft.clock:  # nothing told where they end
            parts, everyone = parts_of_steps(draft.best, draft.rules), pairs_inside(draft.job.transfers, draft.groups)
            sharded = after_last_pass(draft.job.transfers, everyone, sharded, parts, draft.rules)
    if draft.composed is not None and not draft.composed.sharded:
        sharded = replace(sharded, groups=draft.groups, hybrid=False)
    elif draft.composed is not None and draft.composed.halves:
        sharded = replace(sharded, sharding=Sharding.FSDP, groups=draft.composed.halves, hybrid=True)
    if draft.mixed:  # tokens of the passes look like gathers
        sharded = replace(sharded, sharding=Sharding.UNKNOWN)
    return replace(draft, sharded=sharded, groups=sharded.groups, clock=sharded.clock)


def _with_exchanges_of_stages(draft: PartialLayout) -> PartialLayout:
    """With pipelines: what their passes exchange, contexts and tensors or the shards of the stages."""
    if not draft.pipes.forward or draft.sharded is None:
        return draft
    draft, order = _in_their_direction(draft)
    sharded, composed = draft.sharded, draft.composed
    assert sharded is not None  # noqa: S101 - turning decides it anew
    transfers, clock = draft.job.transfers, draft.clock
    in_step = find_in_step(transfers, np.flatnonzero(draft.collective), draft.pipes.forward, draft.features, clock,
                           order.micro_batches, draft.rules)  # fmt: skip
    groups, open_ = draft.groups, composed is not None and in_step.any and not (composed.exchanges or draft.inside.any)
    if composed is not None and open_ and in_step.tensor.any():
        composed = composed.with_tensors(in_step.inside & ~in_step.gradients)
        groups = replace(draft, in_step=in_step).gradient_groups
    elif composed is not None and open_:
        in_step = draft.with_kind(in_step)
        composed = composed.with_rings(
            in_step.inside, _context_rings(draft.links, draft.kinds, draft.features, in_step)
        )
    elif composed is not None:
        in_step = replace(draft.inside, gathers=in_step.gathers, alone=in_step.alone)
    if in_step.gathers or in_step.alone:  # no gradients follow the passes: steps end at their longest rest
        stage_pairs = np.isin(np.arange(transfers.pair_count), [pair for link in draft.stage_links for pair in link])
        clock = longest_rest_clock(transfers, stage_pairs, pairs_inside(transfers, draft.groups), clock, draft.rules)
        sharded = replace(sharded, sharding=Sharding.FSDP) if in_step.gathers else sharded
        order = batches_and_schedule(transfers, draft.pipes, draft.features, clock, draft.rules)
        draft = replace(draft, pipes=draft.turned(order.turned).pipes) if order.turned else draft
        shards = pairs_inside(transfers, draft.groups)
        rests = first_gather_clock(transfers, draft.pipes, shards, order.micro_batches, draft.clock, draft.rules)
        clock = clock if rests is draft.clock else rests
    in_step = in_step if composed is not None else draft.with_kind(in_step)
    kinds = with_closings(transfers, draft.links, draft.kinds, draft.pipes, order, draft.rules)
    draft = replace(draft, kinds=kinds, in_step=in_step, order=order)
    return replace(draft, sharded=sharded, clock=clock, composed=composed, groups=groups)


def _in_their_direction(draft: PartialLayout) -> tuple[PartialLayout, ScheduleFit]:
    """The draft and the order of its passes; where a schedule explains its pipelines the other way round, turned."""
    transfers = draft.job.transfers
    order = batches_and_schedule(transfers, draft.pipes, draft.features, draft.clock, draft.rules)
    if order.turned <= 0.0:
        return draft, order
    draft = _with_sharding(_with_step_ends(draft.turned(order.turned)))
    again = batches_and_schedule(transfers, draft.pipes, draft.features, draft.clock, draft.rules)
    return draft, replace(order if again.turned else again, turned=0.0)


def _with_interruptions(draft: PartialLayout) -> PartialLayout:
    """The clock, moved to where the job was interrupted; ends that were not seen but estimated stay."""
    seen, rules, pipes = (draft.job.transfers, draft.clock), draft.rules, bool(draft.pipes.forward)
    if not draft.groups or draft.known_ends:
        return draft
    return replace(draft, clock=after_interruptions(*seen, rules=rules, has_pipelines=pipes))


def _with_contexts(draft: PartialLayout) -> PartialLayout:
    """The rings of contexts, and the gradient groups without what only they carry."""
    if draft.composed is not None:
        return replace(draft, contexts=draft.composed.contexts)
    in_step, links, kinds = draft.inside, draft.links, draft.kinds
    if lanes := context_lanes(draft.job, in_step.tensor, draft.rules):
        in_step = replace(in_step, tensor=np.zeros_like(in_step.tensor))
    contexts = beyond(draft.same_weights, lanes or _context_rings(links, kinds, draft.features, in_step))
    if not contexts and not in_step.tensor.any():
        in_step = nothing_inside(draft.job.transfers)
    groups = draft.groups
    if in_step.any:
        groups = data_parallel_groups(*only_pairs(links, kinds, draft.collective & in_step.gradients), draft.features)
        groups = joined_by(groups, draft.same_weights + contexts)
    exchanges, seen = draft.exchanges, (draft.job.transfers, draft.collective, draft.features)
    if exchanges.groups and reduced_apart(exchanges, *seen, rules=draft.rules):
        exchanges = exchanges.of_experts()
    return replace(draft, in_step=in_step, exchanges=exchanges, contexts=contexts, groups=groups)


def _with_compositions(draft: PartialLayout) -> PartialLayout:
    """What the bytes of all pairs say about layouts, the one that was found among them."""
    job, bulk, clock, rules = draft.whole, draft.bulk, draft.best.clock, draft.rules
    sizes = sizes_of(job.transfers, bulk, pair_features(job.transfers, clock, rules).step_bytes)
    return replace(draft, explained=compositions_of(job, sizes, None if draft.mixed else stated_layout(draft), rules))


def _as_bytes_say(draft: PartialLayout) -> PartialLayout:
    """The draft, begun anew from a composition where that is far ahead. Shards with replicas should show in the passes
    too, else the next one counts that costs little more; where bytes leave open which they are, the passes decide.
    Pipelines in their place have to show by a schedule or by taking turns."""
    job, explained, rules = draft.whole, draft.explained, draft.rules
    layout, seen = stated_layout(draft), replace(draft.best, clock=draft.measured or draft.best.clock)

    def begun(composed: Composed) -> PartialLayout:
        start = composed_start(job, draft.bulk, seen, composed, rules)
        return replace(_after(PASSES_OVER_LINKS, start), explained=explained)

    staged = staged_instead(explained, layout, rules)
    if staged is not None:
        rival = begun(staged)
        explains = rival.order.bits_over_chance(rules) > rules.composition.denied_bits
        if explains or take_turns(job.transfers, staged.carries[PairKind.PP], rules):
            return rival
    composed = better_composition(explained, job.transfers, layout, rules)
    if composed is None:
        return draft
    found = begun(replace(composed, halves=()))
    if not composed.sharded or (in_shards(stated_layout(found)) and not composed.only):
        return found
    other = better_composition(explained, job.transfers, layout, rules, sharded=False)
    if other is None or in_shards(stated_layout(found)):
        return begun(composed)
    return begun(composed if composed.worth - other.worth > rules.composition.not_found_bits else other)


def _with_replicas(draft: PartialLayout) -> PartialLayout:
    """Replicas that share servers are in one group. Bytes may leave few widths of tensor groups open."""
    sharded = draft.sharded
    if sharded is None or sharded.hybrid or draft.inside.tensor.any():
        return draft
    open_widths = tensor_widths(draft.explained, stated_layout(draft).layout, draft.rules)
    fully = sharded.sharding is Sharding.FSDP
    clock = draft.measured or draft.clock  # ticks in a silence, so that what ends before each is clear
    peers = find_tensor_peers(
        draft.job, draft.groups, draft.pipes.members, draft.pair_kind, clock, draft.rules, sharded=fully,
        open_widths=open_widths,
    )  # fmt: skip
    groups = draft.groups if peers is None else joined_replicas(draft.groups, peers)
    return replace(draft, peers=peers, groups=groups)


PASSES_OVER_LINKS: tuple[_Pass, ...] = (
    _consistent_kinds,
    _without_shared_collectives,
    _with_pipelines,
    _without_exchanges,
    _with_step_ends,
    _with_sharding,
    _with_exchanges_of_stages,
    _with_interruptions,
    _with_contexts,
)
"""In this order; each looks at the draft as the one before left it. A composition begins them anew."""

PASSES: tuple[_Pass, ...] = (
    *PASSES_OVER_LINKS,
    _with_compositions,
    _as_bytes_say,
    with_contexts_among_tokens,
    _with_replicas,
    with_settled_clock,
)
"""All of them, from what links carry to who shares a server."""


def _context_rings(links: Links, kinds: LinkKinds, features: PairFeatures, in_step: InStep) -> tuple[Group, ...]:
    rings = data_parallel_groups(*only_pairs(links, kinds, in_step.inside & ~in_step.tensor), features)
    return tuple(Group(in_step.kind, ring.members, ring.ring) for ring in rings)
