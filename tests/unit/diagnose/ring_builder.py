"""Rings that pass pieces round; in some steps one member computes longer, or one hop passes its pieces on slowly."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from llmprism.arrays import Int64
from llmprism.diagnose.evidence import JobEvidence
from llmprism.model import Job, Steps
from llmprism.model.layout import PairKind
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.evidence_builder import evidence_of, ring_pairs

NAMES = "abcdef"
STEPS = 20
SLOW_STEPS = range(8, 14)
PIECES = 24
LANES = 2
"""Pieces that are on their way from each member at once."""
USUAL = np.array([step not in SLOW_STEPS for step in range(STEPS)])


def ring(
    slow: str = "",
    hops: tuple[str, ...] = (),
    slow_steps: Collection[int] = SLOW_STEPS,
    slow_ms: int = 160,
    paths: dict[str, tuple[str, ...]] | None = None,
) -> tuple[Job, Steps]:
    """Every member computes for 40 ms, the `slow` one for `slow_ms` more, and passes each piece on at once.
    A piece takes 2 ms; behind the record it takes 20 ms more on the slow `hops`, and the next leaves 20 ms later."""
    flows: list[Flow] = []
    ends: list[int] = []
    now = 0
    for step in range(STEPS):
        ill = step in slow_steps
        begin = {name: now + (40 + (slow_ms if ill and name == slow else 0)) * MS for name in NAMES}
        has = [begin] * LANES
        room = dict.fromkeys(NAMES, 0)
        for piece in range(PIECES):
            comes = {}
            for name in NAMES:
                to = NAMES[(NAMES.index(name) + 1) % len(NAMES)]
                at = max(has[piece % LANES][name], room[name])
                queued = 20 * MS if ill and name + to in hops else 0
                flows.append(Flow(name, to, at, at + 2 * MS, 1_000_000, (paths or {}).get(name + to)))
                comes[to] = at + 2 * MS + queued
                room[name] = at + 2 * MS + (queued + 20 * MS if queued else 0)
            has[piece % LANES] = {name: max(has[piece % LANES][name], comes[name]) + MS // 2 for name in NAMES}
        now = max(max(lane.values()) for lane in has)
        ends.append(now)
    end = np.array(ends, dtype=np.int64)
    steps = Steps(np.concatenate([[0], end[:-1]]), end, np.zeros(STEPS, dtype=np.bool_))
    return Job("job", tuple(range(len(NAMES))), (), 1.0, transfer_table(flows)), steps


def ring_evidence(job: Job, steps: Steps) -> JobEvidence:
    """Nobody is late at the synchronisation, and all rates are the same."""
    made = evidence_of(ring_pairs(NAMES), groups=(NAMES,))
    duration = steps.duration_ns.astype(np.float64)
    timeline = replace(made.timeline, steps=steps)
    made = replace(made, job=job, timeline=timeline, duration_ns=duration, normal_ns=float(np.quantile(duration, 0.25)))
    return with_kinds(made, np.full(job.transfers.start_ns.size, PairKind.DP))


def with_kinds(made: JobEvidence, kinds: Int64) -> JobEvidence:
    """The same with each transfer of such a kind."""
    return replace(made, layout=replace(made.layout, transfer_kind=kinds.astype(np.int8)))


def pair_names(job: Job) -> list[str]:
    transfers = job.transfers
    names = transfers.addresses
    return [names[a] + names[b] for a, b in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
