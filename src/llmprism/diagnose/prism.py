"""Findings of all jobs: the detectors in the order in which one's answer excuses the next one's suspects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.diagnose.evidence import gather_evidence
from llmprism.diagnose.imbalance import find_imbalance
from llmprism.diagnose.late_member import find_late_members
from llmprism.diagnose.slow_storage import find_slow_storage
from llmprism.diagnose.slow_transfer import find_slow_transfers
from llmprism.diagnose.standstill import find_standstills
from llmprism.diagnose.stopped import find_stopped
from llmprism.diagnose.what_if import cost_of_findings
from llmprism.model.finding import Finding, WhereType
from llmprism.model.flows import TransferTable, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout
from llmprism.model.timeline import Timeline
from llmprism.model.topology import Topology

__all__ = ["find_faults"]


def find_faults(
    jobs: Sequence[tuple[Job, JobLayout, Timeline]],
    states: Sequence[JobState],
    topology: Topology | None,  # noqa: ARG001 - paths come with the records
    window: Window,
    outside: TransferTable | None = None,
) -> tuple[Finding, ...]:
    """All findings, the costliest first. `outside` holds the jobs' transfers with storage and other servers."""
    evidence = [
        gather_evidence(job, layout, timeline, state)
        for (job, layout, timeline), state in zip(jobs, states, strict=True)
    ]
    slow = find_slow_transfers(evidence)
    accused: dict[str, list[tuple[int, int]]] = {}
    for finding in slow:
        end = finding.end_ns if finding.end_ns is not None else window.end_ns
        for address in _concerned(finding, jobs):
            accused.setdefault(address, []).append((finding.start_ns, end))
    members = frozenset(member for job, _, _ in jobs for member in job.members)
    storage = find_slow_storage(outside, members)
    for finding in storage:
        for client in _clients(outside, finding):
            accused.setdefault(client, []).append((finding.start_ns, window.end_ns))
    findings = slow + storage
    for one in evidence:
        findings += find_late_members(one, accused)
        findings += find_stopped(one.job, one.layout, one.timeline, window)
        findings += find_standstills(one, findings)
        findings += find_imbalance(one)
    findings = cost_of_findings(evidence, findings)
    return tuple(sorted(findings, key=lambda finding: (-finding.lost_gpu_seconds, finding.start_ns)))


def _clients(outside: TransferTable | None, finding: Finding) -> list[str]:
    """Addresses that exchange data with an accused storage server: whoever is late among them waits for it."""
    if outside is None:
        return []
    names = outside.addresses
    ends = zip(outside.pair_src.tolist(), outside.pair_dst.tolist(), strict=True)
    return [
        names[b if names[a] == finding.where.id else a] for a, b in ends if finding.where.id in (names[a], names[b])
    ]


def _concerned(finding: Finding, jobs: Sequence[tuple[Job, JobLayout, Timeline]]) -> list[str]:
    """Addresses that a slow place excuses: the NIC itself, or one of each job that sends through the link or switch."""
    place = finding.where.id
    if finding.where.type is WhereType.NIC and isinstance(place, str):
        return [place]
    names = {place} if isinstance(place, str) else set(place)
    concerned = []
    for job, _, _ in jobs:
        used = job.transfers.paths
        paths = (used[path] for path in np.unique(job.transfers.path) if path >= 0)
        if finding.job == job.id or (finding.job is None and any(names <= set(path) for path in paths)):
            concerned.append(job.transfers.addresses[job.members[0]])
    return concerned
