"""Contexts of two ranks that are experts of two as well: both exchanges take the very same links.

Bytes show one exchange there, and it is uneven as tokens are. But a pass exchanges contexts and sends tokens away at
once, and gets tokens back when the experts have computed, so that the bursts of a link take turns:

```
 burst         contexts + tokens   tokens   contexts + tokens   tokens   ...
 bytes              3.8 / 3.3      1.4 / 0.9      3.7 / 3.3      1.3 / 0.9
 one way more          0.5           0.5             0.4           0.4
```

Both bursts of a pass have the same tokens. What is larger is even: the two ways differ by as many bytes in the large
burst as in the small one. Tokens that leave in a finer format than they return differ by as large a share, and bursts
of several exchanges by the root of how many these are. Both take turns in every pass, twice in a step at least; all
exchanges together and the gradients after them do once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, evenly_spread, median
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.partial_layout import PartialLayout
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.structure import pairs_inside
from llmprism.parallelism.uneven_messages import both_ways, bursts_of

__all__ = ["contexts_among_tokens", "with_contexts_among_tokens"]


@dataclass(frozen=True, slots=True)
class _Turns:
    """The bursts of a link that have both ways: all of their bytes, and how many more go one way. `large` of them are
    larger than the burst before and the one after, `small` smaller than both."""

    size: Float64
    apart: Float64
    large: Int64
    small: Int64


def with_contexts_among_tokens(draft: PartialLayout) -> PartialLayout:
    """The draft, with contexts where experts of two exchange them too."""
    transfers = draft.whole.transfers
    inside = draft.contexts + draft.meshes.groups + draft.exchanges.groups
    if not inside or any(group.kind is not PairKind.EP or len(group.members) != 2 for group in inside):
        return draft
    pairs = pairs_inside(transfers, inside)
    links = [link for link in both_ways(transfers, pairs) if min(transfers.pair_bytes[list(link)]) > 0]
    if not contexts_among_tokens(transfers, links, draft.clock.steps, draft.rules):
        return draft
    contexts = tuple(Group(PairKind.CP, group.members) for group in inside)
    return replace(draft, contexts=draft.contexts + contexts, among_tokens=pairs)


def contexts_among_tokens(
    transfers: TransferTable, links: list[tuple[int, int]], steps: int, rules: LayoutRules = RULES
) -> bool:
    """Do the links of these experts (two directions each) exchange contexts, too, in each of so many steps?"""
    chosen = [links[index] for index in evenly_spread(len(links), rules.exchanges.even_links).tolist()]
    for silence in rules.exchanges.single_silences:
        turns = [one for link in chosen if (one := _turns(transfers, link, silence, rules)) is not None]
        if len(turns) > rules.exchanges.groups_exchanging * len(chosen):
            often = median([one.large.size for one in turns]) >= rules.exchanges.turns_of_step * steps
            return bool(often) and sum(map(_even_besides, turns)) > rules.exchanges.groups_exchanging * len(turns)
    return False


def _turns(transfers: TransferTable, link: tuple[int, int], silence: float, rules: LayoutRules) -> _Turns | None:
    """The bursts of a link; None where they do not take turns in size."""
    rule, bursts = rules.exchanges, bursts_of(transfers, link, silence)
    both: Bool = (bursts.there > 0) & (bursts.back > 0)
    if both.sum() < max(rule.two_way_bursts * both.size, rule.least_exchanges):
        return None
    there, back = bursts.there[both], bursts.back[both]
    step = np.diff(np.log(there + back))
    clear = np.abs(step) > np.log(rule.larger_with_contexts)
    turned = clear[1:] & clear[:-1] & (step[1:] * step[:-1] < 0)
    if turned.mean() < rule.taking_turns:
        return None
    middle = np.flatnonzero(turned) + 1
    large = step[middle - 1] > 0
    apart = there - back
    return _Turns(there + back, apart - median(apart), middle[large], middle[~large])


def _even_besides(turns: _Turns) -> bool:
    """Do the ways differ by as many bytes in the large bursts as in the small ones, or nearly? Where the large ones are
    several exchanges they differ by the root of that; the limit is nearer to that than to nothing, because sums are
    uneven besides where packets are sampled."""
    if not (turns.large.size and turns.small.size):
        return False
    apart, size = (
        [float(median(values[which])) for which in (turns.large, turns.small)]
        for values in (np.abs(turns.apart), turns.size)
    )
    return min(apart) > 0.0 and apart[0] / apart[1] < (size[0] / size[1]) ** (1 / 3)
