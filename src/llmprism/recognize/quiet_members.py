"""Members that send next to nothing: their gradients and activations stay inside their servers.

A stage whose replicas share a server with it crosses the network only with the norm of the gradients: one tiny message
in every step, to a peer in another server of the job. No traffic of any size shows such a rank, but its place and its
pace do: it sits on a server of the job, talks to nobody outside the job's servers, sends as many messages as the job
makes steps, from its first step to its last. Heartbeats and pings have a pace of their own and talk to everybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

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
    servers = [{server_of.get(pieces.addresses[m], "") for m in job.members.tolist()} - {""} for job in jobs]
    peers: dict[int, set[int]] = defaultdict(set)
    paced: dict[int, set[int]] = defaultdict(set)
    for row in rows.tolist():
        src, dst = int(pieces.pair_src[row]), int(pieces.pair_dst[row])
        peers[src].add(dst)
        peers[dst].add(src)
        for number, job in enumerate(jobs):
            near = all(_belongs(end, number, job_of, servers[number], pieces, server_of) for end in (src, dst))
            if near and _paced(pieces, row, job, rules):
                paced[number].update(end for end in (src, dst) if silent[end])
    return [
        np.array(
            sorted(
                end
                for end in paced[number]
                if all(_belongs(peer, number, job_of, servers[number], pieces, server_of) for peer in peers[end])
                and sum(end in others for others in paced.values()) == 1
            ),
            dtype=np.int64,
        )
        for number in range(len(jobs))
    ]


def _belongs(
    end: int, number: int, job_of: Int64, servers: set[str], pieces: PairPieces, server_of: dict[str, str]
) -> bool:
    """Is this address a member of the job, or alone on one of its servers?"""
    if job_of[end] >= 0:
        return bool(job_of[end] == number)
    return server_of.get(pieces.addresses[end], "") in servers


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
