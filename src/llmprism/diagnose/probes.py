"""Probes between servers are no signs of life of a job's ranks.

A mesh of pings goes on whether the ranks on its servers train, hang or are dead. It is known by whom it connects:
messages of one size between most members, each of which never trains with most of those that it pings. A store or a
launcher connects everybody with one rank, watchdogs connect those that train with each other or a few.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job

__all__ = ["without_probes"]


def without_probes(job: Job, rules: FaultRules = RULES) -> Job:
    """The job without the messages of a mesh of pings; the same one where there is none."""
    transfers, members = job.transfers, len(job.members)
    if job.bulk is None:
        return job
    apart = ~job.bulk
    possible = members * (members - 1) - int(np.count_nonzero(job.bulk))
    least = max(rules.endings.mesh_pairs * possible, rules.endings.mesh_peers * members)
    if np.count_nonzero(apart) < least:
        return job
    rows = np.flatnonzero(transfers.rows_of(apart))
    ends = np.unique(np.stack([transfers.bytes[rows], transfers.pair_of_row[rows].astype(np.int64)]), axis=1)
    sizes, pairs = np.unique(ends[0], return_counts=True)
    probes = np.isin(transfers.bytes, sizes[pairs >= least])
    if not probes.any():
        return job
    kept = transfers.select_rows(~probes)
    left = np.unique(transfers.pair_of_row[~probes])
    return replace(job, transfers=kept, bulk=job.bulk[left])
