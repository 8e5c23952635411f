"""Pipelines that may be collectives: the whole layout is read without them too, and the likelier one stands.

What links are is decided first, from their profiles, and all that follows takes it for a fact. Replicas of two whose
gradients fill the step, trees of four, and shard groups of two with replicas pass for stages then, and only at the end
it shows that no schedule explains their messages, that a number of micro-batches comes out that nobody sets, or that
nothing says which stage is the first. These are terms of the layout's log odds. So where these are low the passes start
anew with the links as collectives, and both layouts compete in the same terms, but for the kinds of the links: the
evidence that made them a pipeline's speaks against the other reading by as much. In a window of few steps a pipeline
explains nothing because the clock beats to its micro-batches; so the other reading has to be likely by itself, too.

Hybrid sharding predicts by how much shard groups send more than replicas, without a free parameter (`hybrid`). Stages
have such bytes by chance only, which counts, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from llmprism.model.layout import JobLayout, PairKind
from llmprism.parallelism.fitted_confidence import FITTED
from llmprism.parallelism.hybrid import shard_grid
from llmprism.parallelism.judged_layout import judged_layout
from llmprism.parallelism.partial_layout import PartialLayout
from llmprism.stats.logistic import logistic

__all__ = ["collectives_instead", "odds_of_rival"]


def collectives_instead(
    seen: PartialLayout, layout: JobLayout, read: Callable[[PartialLayout], PartialLayout]
) -> JobLayout:
    """The layout, or that of the same links without pipelines where it is likelier; `read` takes all passes over what
    is `seen` of the links."""
    if (layout.layout.pp or 1) == 1:
        return layout
    rule, rival = seen.rules.kinds, _as_collectives(seen)
    fits = rule.hybrid_nats if _as_predicted(rival) else 0.0
    least = max(_odds(layout) + rule.collectives_nats, 0.0)
    if rule.surest_layout + fits - _links_say(layout) <= least:
        return layout
    rival = read(rival)
    predicted = fits > 0.0 and rival.sharded is not None and rival.sharded.hybrid
    found = judged_layout(rival)
    odds = odds_of_rival(layout, found) + (fits if predicted else 0.0)
    if found.pipelines or odds <= least:
        return layout
    chance = round(logistic(odds), 3)
    grouping = chance if found.grouping is None else min(found.grouping, chance)
    return replace(found, confidence=min(found.confidence, chance), grouping=grouping)


def odds_of_rival(layout: JobLayout, rival: JobLayout) -> float:
    """Log odds of the rival, whose links are not what those of the layout show."""
    return _odds(rival) - _links_say(rival) - _links_say(layout)


def _as_collectives(seen: PartialLayout) -> PartialLayout:
    """The same with all links of pipelines made collectives."""
    staged = seen.kinds.kind == PairKind.PP
    kinds = seen.kinds.as_collectives(staged, seen.rules)
    return replace(seen, kinds=replace(kinds, confidence=np.where(staged, 1.0, kinds.confidence)))


def _as_predicted(rival: PartialLayout) -> bool:
    """Are the bytes those of shard groups and replicas that work together once in a step?"""
    grid = shard_grid(rival.job, rival.links, rival.kinds, rival.features, rival.rules)
    return grid is not None and grid.predicted and not grid.repeated


def _odds(layout: JobLayout) -> float:
    """Log odds of a layout."""
    return sum(FITTED.weight(name) * value for name, value in layout.evidence)


def _links_say(layout: JobLayout) -> float:
    """The part of them that is how sure the kinds of the links are."""
    return FITTED.weight("weakest_link") * dict(layout.evidence)["weakest_link"]
