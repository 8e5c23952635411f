"""A link that closes a pipeline to a ring and carries too little for interleaved stages.

With v virtual stages per rank the link from the last stage back to the first carries v - 1 parts of the v that other
links carry: half of their bytes at least. A ring of links between stages one of which carries less is an open pipeline
whose first and last stage exchange something else, such as the gradients of tied embeddings.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.model.layout import PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import step_bytes
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.robust import segment_medians

__all__ = ["without_light_closings"]


def without_light_closings(
    links: Links, kinds: LinkKinds, features: PairFeatures, rules: LayoutRules = RULES
) -> LinkKinds:
    """The kinds, the light link of each ring of stages `other`, where all rings have one: jobs have one schedule."""
    chosen = np.flatnonzero(kinds.kind == PairKind.PP)
    if chosen.size < 3:
        return kinds
    members, low, high = links.numbered_ends()
    low, high = low[chosen], high[chosen]
    degree = np.bincount(np.concatenate([low, high]), minlength=members)
    ring = component_labels(members, low, high)[low]
    sent = step_bytes(features, links.there[chosen]) + step_bytes(features, links.back[chosen])
    order = np.lexsort((sent, ring))
    offsets = np.append(np.flatnonzero(np.diff(ring[order], prepend=-1)), order.size)
    first = offsets[:-1]
    closed = np.logical_and.reduceat(((degree[low] == 2) & (degree[high] == 2))[order], first) & (np.diff(offsets) > 2)
    most = (0.5 - rules.clock.step_tolerance) * segment_medians(sent[order], offsets)
    if not closed.any() or (sent[order[first]] >= most)[closed].any():
        return kinds
    kind = kinds.kind.copy()
    kind[chosen[order[first[closed]]]] = PairKind.OTHER
    return replace(kinds, kind=kind)
