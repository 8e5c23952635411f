"""Orders of ranks compared by how steps vary: which member of the flows jitters as which rank of the log.

Every rank prints how long its own iterations took; the flows show when each member ended its part of every step. A
rank agrees with its own address to a fraction of a millisecond, and often as well with the addresses that end with it
(its data-parallel group, its stage), but not with the others. So timing seldom says which address a rank has; it says
which of several possible orders of the ranks is right.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.logs.view import RankView
from llmprism.verdict.log_clock import ClockFit
from llmprism.verdict.rules import RULES, SeatRules

__all__ = ["order_support", "step_differences"]


def step_differences(
    ranks: tuple[RankView, ...], member_end_ns: Int64, fit: ClockFit, rules: SeatRules = RULES.seats
) -> Float64 | None:
    """How far each rank's printed durations are from each member's steps, median in ns; None: nothing to compare.

    `member_end_ns[m, k]` is when member `m` ended step `k`, -1 where that was not seen.
    """
    member_end_ns = member_end_ns[:, fit.phase :: fit.stride] if member_end_ns.ndim == 2 else member_end_ns
    members, steps = member_end_ns.shape if member_end_ns.ndim == 2 else (0, 0)
    most = rules.most_ranks
    if not (2 <= len(ranks) <= most) or not (2 <= members <= most) or steps <= rules.least_steps:
        return None
    ends = member_end_ns[:, -rules.most_steps :]
    lengths = np.where((ends[:, 1:] >= 0) & (ends[:, :-1] >= 0), np.diff(ends), -1).astype(np.float64)
    lengths[lengths < 0] = np.nan
    first = steps - ends.shape[1] + 1  # step of the first length
    apart = np.full((len(ranks), members), np.nan)
    for row, rank in enumerate(ranks):
        own = _by_step(rank, fit.shift, first, lengths.shape[1])
        left = np.abs(own[None, :] - lengths)
        enough = np.isfinite(left).sum(axis=1) >= rules.least_steps
        if enough.any():
            apart[row, enough] = np.nanmedian(left[enough], axis=1)
    return apart if np.isfinite(apart).any() else None


def _by_step(rank: RankView, shift: int, first: int, count: int) -> Float64:
    own = np.full(count, np.nan)
    at = rank.iterations + shift - first
    good = (at >= 0) & (at < count) & np.isfinite(rank.iteration_seconds)
    own[at[good]] = rank.iteration_seconds[good] * 1e9
    return own


def order_support(apart: Float64, member_of_rank: Int64) -> float:
    """How far this order is better than ranks dealt out at random, in standard deviations of the latter; 0: no better.

    The sum of a random dealing has a known mean and variance (each rank meets each member equally often), so none has
    to be drawn. Ranks with -1, and those that cannot be compared with every member, are left out.
    """
    rows = np.flatnonzero((member_of_rank >= 0) & np.isfinite(apart).all(axis=1))
    if rows.size < 2:
        return 0.0
    logs = np.log(np.maximum(apart[rows], 1e3))
    columns = np.unique(member_of_rank[rows])
    logs = logs[:, columns]
    place = np.searchsorted(columns, member_of_rank[rows])
    mine = float(logs[np.arange(rows.size), place].sum())
    mean = float(logs.mean() * rows.size)
    centred = logs - logs.mean(axis=0) - logs.mean(axis=1)[:, None] + logs.mean()
    variance = float((centred**2).sum() / max(columns.size - 1, 1))
    return 0.0 if variance <= 1e-12 else (mean - mine) / variance**0.5
