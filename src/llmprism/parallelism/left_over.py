"""What a layout leaves unexplained of a job's records: the marks that mistakes leave.

A clock that ticks too often cuts steps in parts: many pairs are silent in most of them, bytes differ from tick to tick,
and ticks are uneven. An exchange that was overlooked runs over some hops of a ring of gradients, and these carry more
than the others, not by a whole number of rings. None of this is proof; how much it matters is fitted
(`fitted_confidence`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Group
from llmprism.parallelism.features import PairFeatures
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["LeftOver", "left_over"]


@dataclass(frozen=True, slots=True)
class LeftOver:
    """Shares: `silent_pairs` of the pairs send nothing in most steps; `varied_bytes` is the median deviation of a
    pair's bytes from step to step; `uneven_hops` of the gradients' bytes pass over hops that carry no whole number of
    rings; `irregular_steps` of the steps are of another length than usual. In bits: `varied_pairs` is how much more the
    tenth of the pairs varies that varies most (an exchange that was overlooked runs over some pairs)."""

    silent_pairs: float = 0.0
    varied_bytes: float = 0.0
    varied_pairs: float = 0.0
    uneven_hops: float = 0.0
    irregular_steps: float = 0.0


def left_over(
    transfers: TransferTable, chosen: Bool, gradients: Bool, features: PairFeatures, groups: tuple[Group, ...],
    clock: StepClock, rules: LayoutRules = RULES,
) -> LeftOver:  # fmt: skip
    """Of the `chosen` pairs under this clock, and of those that carry the gradients of these groups."""
    sending = chosen & (features.total_bytes > 0)
    if not sending.any() or not clock.regular.size:
        return LeftOver()
    steady = sending & (features.step_bytes > 0)
    usual, most = np.minimum(np.quantile(features.step_spread[steady], (0.5, 0.9)), 1.0) if steady.any() else (1.0, 1.0)
    same = rules.stages.complete_step
    return LeftOver(
        silent_pairs=1.0 - float(steady.sum() / sending.sum()),
        varied_bytes=float(usual),
        varied_pairs=float(np.log2((most + same) / (usual + same))),
        uneven_hops=_uneven_hops(transfers, steady & gradients, features, groups, rules),
        irregular_steps=1.0 - float(clock.regular.mean()),
    )


def _uneven_hops(
    transfers: TransferTable, pairs: Bool, features: PairFeatures, groups: tuple[Group, ...], rules: LayoutRules
) -> float:
    """Share of the bytes of the pairs inside groups that are no whole multiple of what the least of the group carry."""
    group_of = np.full(len(transfers.addresses), -1, dtype=np.int64)
    for number, group in enumerate(groups):
        group_of[list(group.members)] = number
    src, dst = group_of[transfers.pair_src], group_of[transfers.pair_dst]
    own = np.flatnonzero(pairs & (src >= 0) & (src == dst))
    if not own.size:
        return 0.0
    number_of = src[own]
    amount = features.step_bytes[own]
    most, least = np.zeros(len(groups)), np.full(len(groups), np.inf)
    np.maximum.at(most, number_of, amount)
    counted = amount >= rules.kinds.trickle * most[number_of]
    np.minimum.at(least, number_of[counted], amount[counted])
    times = amount / least[number_of]
    off = counted & (np.abs(times - np.maximum(np.rint(times), 1.0)) > rules.confidence.whole_ring * times)
    return float(amount[off].sum() / amount[counted].sum())
