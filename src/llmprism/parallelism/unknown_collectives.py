"""Exchanges that fit no layout are reported as what they are: collectives of known members and unknown kind.

The meanings of all sorts of links compete (`rival_kinds`), and one of them always wins. Where even that one leaves most
links of a sort unexplained (they branch as no ring, tree or pipeline does), the winner is no answer: its pairs are
`unknown`, its members form a group of kind `unknown`, and degrees that would rest on it are left open. Everything else
of the layout stands.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.arrays import Bool
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Group, JobLayout, Layout, PairKind, PairRoles, Schedule, Sharding
from llmprism.parallelism.features import Links
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["unknown_layout", "with_unknown_collectives"]

NO_STEPS = "no steps can be seen in this job's records: the exporter folds them or the window is too short"


def with_unknown_collectives(layout: JobLayout, links: Links, kinds: LinkKinds) -> JobLayout:
    """The layout, with what the links that fit nothing were called taken back."""
    if kinds.fits.all():
        return layout
    unknown = links.only(~kinds.fits)
    members, low, high = unknown.numbered_ends()
    label = component_labels(members, low, high)
    nodes = np.unique(np.concatenate([unknown.low, unknown.high]))
    found = [tuple(nodes[label == number].tolist()) for number in range(int(label.max()) + 1)]
    ends = {(int(a), int(b)) for a, b in zip(unknown.low, unknown.high, strict=True)}

    def rests_on_it(group: tuple[int, ...]) -> bool:
        own = set(group)
        return any(a in own and b in own for a, b in ends)

    pairs = layout.pairs
    between = zip(np.minimum(pairs.src, pairs.dst).tolist(), np.maximum(pairs.src, pairs.dst).tolist(), strict=True)
    open_pair = np.array([pair in ends for pair in between], dtype=np.bool_)
    open_pair &= np.isin(pairs.kind, (PairKind.DP, PairKind.PP))
    kept = tuple(group for group in layout.groups if group.kind is not PairKind.DP or not rests_on_it(group.members))
    return replace(
        layout,
        layout=replace(
            layout.layout, tp=None, pp=None, dp=None, sharding=Sharding.UNKNOWN, micro_batches=None,
            schedule=Schedule.UNKNOWN,
        ),
        groups=kept + tuple(Group(PairKind.UNKNOWN, group) for group in found),
        pipelines=tuple(pipeline for pipeline in layout.pipelines if not rests_on_it(pipeline)),
        pairs=replace(pairs, kind=np.where(open_pair, PairKind.UNKNOWN, pairs.kind).astype(np.int8)),
    )  # fmt: skip


def unknown_layout(transfers: TransferTable, bulk: Bool) -> JobLayout:
    """The layout of a job whose steps cannot be seen: nothing is known of any pair."""
    pairs = np.flatnonzero(bulk)
    roles = PairRoles(
        transfers.pair_src[pairs],
        transfers.pair_dst[pairs],
        np.full(pairs.size, PairKind.UNKNOWN, dtype=np.int8),
        np.zeros(pairs.size),
    )
    none = np.zeros(transfers.start_ns.size, dtype=np.int8)
    return JobLayout(Layout(sharding=Sharding.UNKNOWN), (), (), roles, none, 0.0, (NO_STEPS,))
