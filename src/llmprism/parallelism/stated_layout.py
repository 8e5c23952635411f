"""What a draft says: degrees, groups, pipelines, the kind of every pair and of every row."""

from __future__ import annotations

from llmprism.model.layout import JobLayout, Layout, PairKind, Sharding
from llmprism.parallelism.composed_start import composed_roles
from llmprism.parallelism.degrees import copies_of, degrees_of, most_common
from llmprism.parallelism.partial_layout import PartialLayout
from llmprism.parallelism.roles import all_roles, and_carries, link_roles, row_kinds
from llmprism.parallelism.sharded_job import ShardedJob
from llmprism.parallelism.unknown_collectives import with_unknown_collectives

__all__ = ["stated_layout"]


def stated_layout(draft: PartialLayout) -> JobLayout:
    """What the draft says, links that nothing explains as collectives of unknown kind."""
    return with_unknown_collectives(_layout_of(draft), draft.links, draft.kinds)


def _layout_of(draft: PartialLayout) -> JobLayout:
    transfers, pipes, clock, groups = draft.job.transfers, draft.pipes, draft.clock, draft.groups
    sharded = draft.sharded or ShardedJob(Sharding.UNKNOWN, groups, clock)
    pair_kind = draft.pair_kind
    stages = most_common(len(pipeline) for pipeline in pipes.members) or 1
    order, batches = draft.order, draft.order.micro_batches
    if not pipes.forward and sharded.passes > 1:
        batches = sharded.passes
    copies = copies_of(groups) if sharded.hybrid else most_common(len(group.members) for group in groups) or 1
    inside = draft.contexts + draft.meshes.groups + draft.exchanges.groups
    contexts = most_common(len(group.members) for group in inside if group.kind is PairKind.CP)
    lost = bool((pair_kind == PairKind.PP).any()) and not pipes.members
    tp, pp, dp = degrees_of(draft.job, copies, contexts or 1, stages, lost)
    experts = most_common(len(group.members) for group in inside if group.kind is PairKind.EP)
    if draft.composed is not None:
        pairs = composed_roles(transfers, draft.composed, pair_kind == PairKind.PP, draft.rules)
    else:
        roles = link_roles(transfers, draft.links, draft.kinds, draft.rules)
        pairs = all_roles(transfers, roles, draft.meshes, draft.inside, draft.exchanges, draft.rules)
    if draft.among_tokens is not None:
        pairs = and_carries(transfers, pairs, draft.among_tokens, PairKind.CP, draft.rules)
    return JobLayout(
        layout=Layout(tp, pp, dp, experts, contexts, sharded.sharding, batches, order.schedule),
        groups=groups + inside,
        pipelines=pipes.members,
        pairs=pairs,
        transfer_kind=row_kinds(transfers, pair_kind, draft.meshes, draft.inside, draft.exchanges),
        clock=clock,
    )
