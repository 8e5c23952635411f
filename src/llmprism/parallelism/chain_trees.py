"""Trees that are chains: gradients of three or four members that look like a pipeline of as many stages.

A binary tree of four members is a chain (the second child hangs from the root, the third from the first child), and so
is one of three. Its links go up and then down, as activations and gradients do, all links carry the same both ways, and
nothing branches. But all of a tree goes up to its root before anything comes down: either end of the chain sends first.
In a pipeline one end does, and every link passes on in its direction; the link at the last stage waits for nothing but
the passes of that stage, so that the other way round it has hardly a rest.
"""

from __future__ import annotations

import numpy as np

from llmprism.model.job import Job
from llmprism.model.layout import PairKind
from llmprism.parallelism.direction import rests_of_paths
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.pair_ends import pair_index
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.structure import pipeline_paths

__all__ = ["without_chain_trees"]


def without_chain_trees(
    job: Job, links: Links, kinds: LinkKinds, features: PairFeatures, rules: LayoutRules = RULES
) -> LinkKinds:
    """The kinds, links of pipelines both of whose ends send first made those of collectives."""
    passing = kinds.kind == PairKind.PP
    if not passing.any() or job.clock is None:
        return kinds
    paths, rings = pipeline_paths(links, kinds, features)
    lengths = {len(path) for path in paths}
    if rings or len(lengths) != 1 or not 2 < min(lengths) <= rules.kinds.tree_members:
        return kinds
    return kinds.as_collectives(passing, rules) if _from_both_ends(job, paths, rules) else kinds


def _from_both_ends(job: Job, paths: tuple[tuple[int, ...], ...], rules: LayoutRules) -> bool:
    """Do most of these chains send inward first from either end?"""
    assert job.clock is not None  # noqa: S101 - checked by the caller
    pair_of = pair_index(job.transfers)
    few = paths[: rules.stages.pipelines_sampled]
    ends = [end for path in few for end in ((path[0], path[1]), (path[-1], path[-2]))]
    if not all((a, b) in pair_of and (b, a) in pair_of for a, b in ends):
        return False
    inward = [([pair_of[a, b]], [pair_of[b, a]]) for a, b in ends]
    rests = np.array(rests_of_paths(job.transfers, inward, job.clock.boundary_ns, rules))
    vote = (rests[:, 0] - rests[:, 1]) / np.maximum(rests.sum(axis=1), 1e-12)
    return float(np.median(vote.reshape(-1, 2).min(axis=1))) >= rules.kinds.sends_first
