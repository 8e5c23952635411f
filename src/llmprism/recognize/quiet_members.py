"""Members that send next to nothing: their gradients and activations stay inside their servers.

A stage whose replicas share a server with it crosses the network only with the norm of the gradients: one tiny message
in every step, to a peer in another server of the job. No traffic of any size shows such a rank, but its place and its
pace do: it sits on a server of the job, talks to nobody outside the job's servers, sends as many messages as the job
makes steps, from its first step to its last. Heartbeats and pings have a pace of their own and talk to everybody.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.model.clock import StepClock
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.recognize.segments import PairPieces

__all__ = ["JobPace", "quiet_members"]


@dataclass(frozen=True, slots=True)
class JobPace:
    """The clock of a job of these members, None where no steps show."""

    members: Int64
    clock: StepClock | None


def quiet_members(
    pieces: PairPieces, bulk: Bool, jobs: Sequence[JobPace], server_of: dict[str, str],
    rules: RecognitionRules = RULES,
) -> list[Int64]:  # fmt: skip
    """For each job the addresses that belong to it though they exchange nothing but one small message a step."""
    job_of = np.full(len(pieces.addresses), -1)
    for number, job in enumerate(jobs):
        job_of[job.members] = number
    silent = job_of < 0
    silent[pieces.pair_src[bulk]] = silent[pieces.pair_dst[bulk]] = False
    rows = np.flatnonzero(silent[pieces.pair_src] | silent[pieces.pair_dst])
    if not rows.size or rows.size > rules.most_quiet_pairs:
        return [np.zeros(0, dtype=np.int64) for _ in jobs]
    at_server: dict[str, set[int]] = defaultdict(set)
    for number, job in enumerate(jobs):
        for member in job.members.tolist():
            at_server[server_of.get(pieces.addresses[member], "")].add(number)
    at_server[""] = set()

    @cache
    def jobs_of(end: int) -> set[int]:
        """The job of which this address is a member, or those on whose servers it is alone."""
        own = int(job_of[end])
        return {own} if own >= 0 else at_server[server_of.get(pieces.addresses[end], "")]

    peers: dict[int, set[int]] = defaultdict(set)
    paced: dict[int, set[int]] = defaultdict(set)
    for row in rows.tolist():
        src, dst = int(pieces.pair_src[row]), int(pieces.pair_dst[row])
        peers[src].add(dst)
        peers[dst].add(src)
        for number in jobs_of(src) & jobs_of(dst):
            if _paced(pieces, row, jobs[number], rules):
                paced[number].update(end for end in (src, dst) if silent[end])
    found = Counter(end for ends in paced.values() for end in ends)
    return [
        np.array(
            sorted(
                end for end in paced[number] if found[end] == 1 and all(number in jobs_of(peer) for peer in peers[end])
            ),
            dtype=np.int64,
        )
        for number in range(len(jobs))
    ]


def _paced(pieces: PairPieces, row: int, job: JobPace, rules: RecognitionRules) -> bool:
    """Does this pair send one message in each of the job's steps?"""
    clock = job.clock
    if clock is None or clock.steps < rules.tether_steps:
        return False
    half = int(clock.period_ns / 2)
    ends = np.array([pieces.traffic.first_ns[row] - half, pieces.traffic.last_ns[row] + half])
    first, last = np.searchsorted(clock.boundary_ns, ends).tolist()
    spare = max(rules.edge_steps, rules.pace_tolerance * clock.steps)
    missed = clock.boundary_ns.size - (last - first)
    return bool(missed <= spare and abs(int(pieces.records[row]) - (last - first)) <= spare)
