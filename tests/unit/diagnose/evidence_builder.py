"""Evidence made by hand for the detectors' own tests: rates, lateness and durations as arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.diagnose.evidence import JobEvidence
from llmprism.model import (
    Events,
    Group,
    Job,
    JobLayout,
    JobState,
    Layout,
    PairKind,
    PairRoles,
    Steps,
    Timeline,
    TransferTable,
)  # fmt: skip
from unit.builders import MS, Flow, transfer_table

STEP = 1_000 * MS
STEPS = 20


def ring_pairs(members: str) -> list[str]:
    return [a + b for a, b in zip(members, members[1:] + members[0], strict=True)]


def table(pairs: list[str], paths: dict[str, tuple[str, ...]] | None = None) -> TransferTable:
    flows = [Flow(*pair, 0, 1, 1, (paths or {}).get(pair)) for pair in pairs]
    return transfer_table(flows)


def evidence_of(
    pairs: list[str],
    *,
    rate: dict[str, np.ndarray] | None = None,
    late: dict[str, np.ndarray] | None = None,
    groups: tuple[str, ...] = (),
    duration: np.ndarray | None = None,
    setup: bool = False,
    paths: dict[str, tuple[str, ...]] | None = None,
    name: str = "job",
    trust: float = 1.0,
) -> JobEvidence:
    """20 steps of 1 s; `rate` in Gb/s per pair (10 where not given), `late` in ms per member (0 where not given)."""
    transfers = table(pairs, paths)
    names = transfers.addresses
    result = [names[s] + names[d] for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    lasted = np.full(STEPS, float(STEP)) if duration is None else np.asarray(duration, dtype=np.float64)
    end = np.cumsum(lasted).astype(np.int64)
    steps = Steps(end - lasted.astype(np.int64), end, np.array([setup] + [False] * (STEPS - 1)))
    counted = ~steps.setup
    group_of = {names.index(m): index for index, group in enumerate(groups) for m in group}
    members = tuple(range(len(names)))
    layout = JobLayout(
        Layout(), tuple(Group(PairKind.DP, tuple(names.index(m) for m in group)) for group in groups), (),
        PairRoles.empty(), np.full(transfers.start_ns.size, PairKind.DP, dtype=np.int8), trust, steps_confidence=0.9,
    )  # fmt: skip
    return JobEvidence(
        job=Job(name, members, (), 1.0, transfers),
        layout=layout,
        timeline=Timeline(steps, np.tile(end, (len(members), 1)), Events.empty()),
        state=JobState.RUNNING,
        duration_ns=lasted,
        counted=counted,
        normal_ns=float(np.quantile(lasted[counted], 0.25)),
        lateness_ns=np.array([(late or {}).get(m, np.zeros(STEPS)) for m in names], dtype=np.float64) * MS,
        rate=np.array([(rate or {}).get(pair, np.full(STEPS, 10.0)) for pair in result], dtype=np.float64),
        timed=np.ones(len(result), dtype=np.bool_),
        pair_kind=np.full(len(result), PairKind.DP, dtype=np.int8),
        group_of_pair=np.array([group_of.get(int(src), -1) for src in transfers.pair_src], dtype=np.int64),
    )


def with_transfers(evidence: JobEvidence, transfers: TransferTable) -> JobEvidence:
    """The same job with other transfers, all of them of a data-parallel collective."""
    layout = replace(evidence.layout, transfer_kind=np.full(transfers.start_ns.size, PairKind.DP, dtype=np.int8))
    return replace(evidence, job=replace(evidence.job, transfers=transfers), layout=layout)


def during(first: int, last: int, value: float, otherwise: float = 0.0) -> np.ndarray:
    """A value for the steps first..last-1, another one for the rest."""
    series = np.full(STEPS, otherwise)
    series[first:last] = value
    return series


def slow_all_along(*long, times=1.4, elsewhere=(), late=None):
    """Nine steps, of which some are so many times as long: messages are as much further apart in `long` ones, and come
    after one pause in those `elsewhere`."""
    duration = np.full(STEPS, float(STEP))
    duration[[*long, *elsewhere]] *= times
    evidence = evidence_of(ring_pairs("ab"), groups=("ab",), duration=duration, late=late)
    flows, even = [], np.arange(20) / 20
    for step, start in enumerate(evidence.timeline.steps.start_ns.tolist()):
        sent = even * (times if step in long else 1.0) + (times - 1.0 if step in elsewhere else 0.0)
        for begin in (start + sent * STEP).astype(np.int64).tolist():
            flows += [Flow(a, b, begin, begin + 2 * MS, 1_000_000) for a, b in ("ab", "ba")]
    seen = slice(0, 9)
    steps = evidence.timeline.steps
    steps = replace(steps, start_ns=steps.start_ns[seen], end_ns=steps.end_ns[seen], setup=steps.setup[seen])
    return replace(
        with_transfers(evidence, transfer_table(flows)),
        timeline=replace(evidence.timeline, steps=steps, member_end_ns=evidence.timeline.member_end_ns[:, seen]),
        duration_ns=evidence.duration_ns[seen],
        counted=evidence.counted[seen],
        lateness_ns=evidence.lateness_ns[:, seen],
        rate=evidence.rate[:, seen],
    )
