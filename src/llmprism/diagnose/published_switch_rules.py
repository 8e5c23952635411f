"""Switches by the published rule: 3 sigma across switches, on DP bandwidth and on concurrent DP flows.

A flow counts for every switch on its path; where the records carry no path, for the switches that the topology gives
its two ends. The bandwidth of a switch is the mean over its DP flows of bytes over duration; its load is the largest
number of DP flows open at the same moment. Part of `diagnose/published_faults.py`, which says more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Int64
from llmprism.model import Job, JobLayout, PairKind, Topology, TransferTable
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.flows import ranges
from llmprism.stats.sigma_rule import beyond_sigmas

__all__ = ["abnormal_switches"]


@dataclass(frozen=True, slots=True)
class _SwitchPasses:
    """One row for each time a DP flow passes a switch; `switch` indexes `names`."""

    names: tuple[str, ...]
    switch: Int64
    start_ns: Int64
    end_ns: Int64
    bytes: Int64


def abnormal_switches(jobs: Sequence[tuple[Job, JobLayout]], topology: Topology | None) -> Iterator[Finding]:
    """One finding per switch that is slow, and one per switch that is crowded."""
    passes = _passes(jobs, topology)
    if not passes.switch.size:
        return
    flows = np.bincount(passes.switch, minlength=len(passes.names))
    gbps = passes.bytes * 8.0 / np.maximum(passes.end_ns - passes.start_ns, 1)
    mean_gbps = np.bincount(passes.switch, weights=gbps, minlength=len(passes.names)) / flows
    for switch in np.flatnonzero(beyond_sigmas(mean_gbps, low=True)).tolist():
        evidence = Evidence("mean DP bandwidth in Gb/s", float(mean_gbps[switch]), float(mean_gbps.mean()))
        severity = 1.0 - evidence.value / mean_gbps.mean()
        yield _finding(FindingKind.SLOW_SWITCH, passes, switch, evidence, severity)
    most = _most_at_once(passes)
    for switch in np.flatnonzero(beyond_sigmas(most)).tolist():
        evidence = Evidence("DP flows at once", float(most[switch]), float(most.mean()))
        yield _finding(FindingKind.CONGESTION, passes, switch, evidence, 1.0 - most.mean() / most[switch])


def _finding(kind: FindingKind, passes: _SwitchPasses, switch: int, evidence: Evidence, severity: float) -> Finding:
    rows = passes.switch == switch
    return Finding(
        kind=kind,
        job=None,
        where=Where(WhereType.SWITCH, passes.names[switch]),
        start_ns=int(passes.start_ns[rows].min()),
        end_ns=int(passes.end_ns[rows].max()),
        severity=float(severity),
        confidence=1.0,  # the rule knows no doubt
        lost_gpu_seconds=0.0,  # the rule does not say
        summary=f"{passes.names[switch]}: {evidence.what} {evidence.value:.3g}, 3 sigma off the mean of "
        f"{evidence.expected:.3g} over the switches",
        evidence=(evidence,),
    )


def _most_at_once(passes: _SwitchPasses) -> Int64:
    """Per switch the largest number of flows open at one moment; one that ends when another starts does not count."""
    switch = np.concatenate((passes.switch, passes.switch))
    change = np.repeat(np.array([1, -1], dtype=np.int64), passes.switch.size)
    order = np.lexsort((change, np.concatenate((passes.start_ns, passes.end_ns)), switch))
    # Every switch opens and closes the same number of flows, so one running sum serves all of them.
    is_open = np.cumsum(change[order])
    firsts = np.searchsorted(switch[order], np.arange(len(passes.names)))
    return np.maximum.reduceat(is_open, firsts)


def _passes(jobs: Sequence[tuple[Job, JobLayout]], topology: Topology | None) -> _SwitchPasses:
    """DP flows of all jobs by the switches that they pass; only switches that are passed have a name."""
    switch_of = topology.switch_of() if topology is not None else {}
    parts = [_job_passes(job.transfers, layout, switch_of) for job, layout in jobs]
    names = sorted({name for named, _, _ in parts for name in named})
    number = {name: index for index, name in enumerate(names)}
    none = np.zeros(0, dtype=np.int64)
    switch, start, end, size = [none], [none], [none], [none]
    for (named, local, rows), (job, _) in zip(parts, jobs, strict=True):
        switch.append(np.array([number[name] for name in named], dtype=np.int64)[local] if named else none)
        start.append(job.transfers.start_ns[rows])
        end.append(job.transfers.end_ns[rows])
        size.append(job.transfers.bytes[rows])
    all_switches = np.concatenate(switch)
    used, compact = np.unique(all_switches, return_inverse=True)
    return _SwitchPasses(
        tuple(names[index] for index in used.tolist()),
        compact.astype(np.int64),
        np.concatenate(start),
        np.concatenate(end),
        np.concatenate(size),
    )


def _job_passes(
    flows: TransferTable, layout: JobLayout, switch_of: dict[str, str]
) -> tuple[tuple[str, ...], Int64, Int64]:
    """(switch names, index into them, row of the flow) for each pass of a DP flow of one job."""
    rows = np.flatnonzero(layout.transfer_kind == PairKind.DP)
    pair = flows.pair_of_row[rows]
    # A route is a path of the records or, where they carry none, the switches of the two ends of the pair.
    ends = [
        _end_switches(flows.addresses[src], flows.addresses[dst], switch_of)
        for src, dst in zip(flows.pair_src.tolist(), flows.pair_dst.tolist(), strict=True)
    ]
    routes = [tuple(dict.fromkeys(path)) for path in flows.paths] + ends
    route = np.where(flows.path[rows] >= 0, flows.path[rows], len(flows.paths) + pair)
    names = tuple(sorted({name for path in routes for name in path}))
    number = {name: index for index, name in enumerate(names)}
    hops = np.array([number[name] for path in routes for name in path], dtype=np.int64)
    cuts = np.concatenate(([0], np.cumsum([len(path) for path in routes]))).astype(np.int64)
    first, end = cuts[route], cuts[route + 1]
    return names, hops[ranges(first, end)], np.repeat(rows, end - first)


def _end_switches(src: str, dst: str, switch_of: dict[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(switch_of[end] for end in (src, dst) if end in switch_of))
