"""How many runs as striking as one that was seen a job would show by chance, given how often anybody is flagged.

Evidence is measured against the job's own jitter and the number of comparisons that were made: where every fifth cell
is flagged in quiet times, three in a row of one of hundreds of members are no news; where hardly any is, two are.
"""

from __future__ import annotations

from math import lgamma, log

import numpy as np

from llmprism.arrays import Bool

__all__ = ["log_expected_runs"]


def log_expected_runs(flagged: Bool, known: Bool, first: int, last: int, hits: int, twice: int = 0) -> float:
    """Natural logarithm of the number of runs of `last - first` steps with so many `hits` that chance would make among
    all members and steps. How often a cell is flagged by chance is read from the steps outside of the run. So many of
    the hits count `twice`: they lie in steps of twice the usual length, which hold two steps' worth of evidence."""
    outside = np.ones(flagged.shape[1], dtype=np.bool_)
    outside[first:last] = False
    seen = int(known[:, outside].sum())
    share = ((flagged & known)[:, outside].sum() + 1.0) / (seen + 2.0)
    length = last - first
    ways = lgamma(length + 1.0) - lgamma(hits + 1.0) - lgamma(length - hits + 1.0)
    return log(max(int(known.any(axis=1).sum()) * flagged.shape[1], 1)) + ways + (hits + twice) * log(share)
