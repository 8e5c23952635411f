"""How often a job would show something as striking by chance, given how often anybody is flagged: a run, or one member
in most of some steps.

Evidence is measured against the job's own jitter and the number of comparisons that were made: where every fifth cell
is flagged in quiet times, three in a row of one of hundreds of members are no news; where hardly any is, two are.
"""

from __future__ import annotations

from math import lgamma, log

import numpy as np

from llmprism.arrays import Bool

__all__ = ["log_expected_members", "log_expected_runs"]


def log_expected_runs(flagged: Bool, known: Bool, first: int, last: int, hits: int, twice: int = 0) -> float:
    """Natural logarithm of the number of runs of `last - first` steps with so many `hits` that chance would make among
    all members and steps. How often a cell is flagged by chance is read from the steps outside of the run. So many of
    the hits count `twice`: they lie in steps of twice the usual length, which hold two steps' worth of evidence."""
    outside = np.ones(flagged.shape[1], dtype=np.bool_)
    outside[first:last] = False
    seen = int(known[:, outside].sum())
    share = ((flagged & known)[:, outside].sum() + 1.0) / (seen + 2.0)
    runs = max(int(known.any(axis=1).sum()) * flagged.shape[1], 1)
    return log(runs) + _log_ways(last - first, hits) + (hits + twice) * log(share)


def log_expected_members(flagged: Bool, known: Bool, own: Bool, steps: Bool) -> float:
    """Natural logarithm of the number of members that chance would flag in as many of these `steps` as the rows `own`
    are, which move as one, given how often the others are flagged in them: where somebody is late in every long step,
    and it may be anybody, one of many members is late in three of four."""
    here, seen = (flagged & known)[:, steps], known[:, steps]
    share = (float(here[~own].sum()) + 1.0) / (float(seen[~own].sum()) + 2.0)
    hits, of = int(here[own].any(axis=0).sum()), int(seen[own].any(axis=0).sum())
    members = max(float(seen.any(axis=1).sum()) / max(int(own.sum()), 1), 1.0)
    return log(members) + _log_ways(of, hits) + hits * log(share)


def _log_ways(of: int, hits: int) -> float:
    """Natural logarithm of the number of ways to choose so many hits."""
    return lgamma(of + 1.0) - lgamma(hits + 1.0) - lgamma(of - hits + 1.0)
