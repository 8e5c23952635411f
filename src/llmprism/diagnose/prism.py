"""Findings of all jobs: the detectors in the order in which one's answer excuses the next one's suspects.

Every job is measured by itself (`gather_evidence`, `judge_transfers`); only `find_shared_faults` looks at several jobs,
and at nothing but what `judge_transfers` says of them. `find_job_faults` and `lost_in_job` are again one job's. So jobs
may be looked at on different machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.diagnose.evidence import JobEvidence, gather_evidence
from llmprism.diagnose.imbalance import find_imbalance
from llmprism.diagnose.late_member import find_late_members
from llmprism.diagnose.slow_cells import SlowCells, judge_transfers
from llmprism.diagnose.slow_storage import find_slow_storage
from llmprism.diagnose.slow_transfer import find_slow_places
from llmprism.diagnose.standstill import find_standstills
from llmprism.diagnose.stopped import find_stopped
from llmprism.diagnose.what_if import cost_of_findings, job_cost, lost_in_job
from llmprism.model.finding import Finding, WhereType
from llmprism.model.flows import TransferTable, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout
from llmprism.model.timeline import Timeline
from llmprism.model.topology import Topology

__all__ = ["Diagnosis", "diagnose_jobs", "find_faults", "find_job_faults", "find_shared_faults"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings, the costliest first, and what each job lost to them in all (None: its steps were not seen)."""

    findings: tuple[Finding, ...]
    lost_gpu_seconds: tuple[float | None, ...]


def find_faults(
    jobs: Sequence[tuple[Job, JobLayout, Timeline]],
    states: Sequence[JobState],
    topology: Topology | None,
    window: Window,
    outside: TransferTable | None = None,
) -> tuple[Finding, ...]:
    """All findings, the costliest first. `outside` holds the jobs' transfers with storage and other servers."""
    return diagnose_jobs(jobs, states, topology, window, outside).findings


def diagnose_jobs(
    jobs: Sequence[tuple[Job, JobLayout, Timeline]],
    states: Sequence[JobState],
    topology: Topology | None,  # noqa: ARG001 - paths come with the records
    window: Window,
    outside: TransferTable | None = None,
) -> Diagnosis:
    """Each job by itself, then what they have in common, then each job again with that in mind, then the costs."""
    evidence = [
        gather_evidence(job, layout, timeline, state)
        for (job, layout, timeline), state in zip(jobs, states, strict=True)
    ]
    members = frozenset(member for job, _, _ in jobs for member in job.members)
    shared = find_shared_faults([judge_transfers(one) for one in evidence if one.steps], outside, members)
    findings = list(shared)
    for one in evidence:
        findings += find_job_faults(one, shared, window, outside)
    parts = [lost_in_job(one, findings) for one in evidence]
    findings = cost_of_findings(findings, parts)
    lost = tuple(job_cost(one, findings, part) for one, part in zip(evidence, parts, strict=True))
    return Diagnosis(tuple(sorted(findings, key=lambda finding: (-finding.lost_gpu_seconds, finding.start_ns))), lost)


def find_shared_faults(
    cells: Sequence[SlowCells], outside: TransferTable | None, members: frozenset[int]
) -> tuple[Finding, ...]:
    """What several jobs may suffer from: slow places of the network, slow storage. `members` are those of all jobs."""
    return (*find_slow_places(cells), *find_slow_storage(outside, members))


def find_job_faults(
    evidence: JobEvidence, shared: Sequence[Finding], window: Window, outside: TransferTable | None = None
) -> list[Finding]:
    """What one job's own members did, except for what `shared` explains."""
    findings = find_late_members(evidence, _accused(evidence, shared, window, outside))
    findings += find_stopped(evidence.job, evidence.layout, evidence.timeline, window)
    findings += find_standstills(evidence, findings)
    return findings + find_imbalance(evidence)


def _accused(
    evidence: JobEvidence, shared: Sequence[Finding], window: Window, outside: TransferTable | None
) -> dict[str, list[tuple[int, int]]]:
    """Who of a job's members is excused when: those that something shared holds up."""
    accused: dict[str, list[tuple[int, int]]] = {}
    for finding in shared:
        storage = finding.where.type is WhereType.STORAGE
        end = window.end_ns if storage or finding.end_ns is None else finding.end_ns
        for address in _clients(outside, finding) if storage else _concerned(evidence.job, finding):
            accused.setdefault(address, []).append((finding.start_ns, end))
    return accused


def _clients(outside: TransferTable | None, finding: Finding) -> list[str]:
    """Addresses that exchange data with an accused storage server: whoever is late among them waits for it."""
    if outside is None:
        return []
    names = outside.addresses
    ends = zip(outside.pair_src.tolist(), outside.pair_dst.tolist(), strict=True)
    return [
        names[b if names[a] == finding.where.id else a] for a, b in ends if finding.where.id in (names[a], names[b])
    ]


def _concerned(job: Job, finding: Finding) -> list[str]:
    """Addresses that a slow place excuses: the NIC itself, or one of a job that sends through the link or switch."""
    place = finding.where.id
    if finding.where.type is WhereType.NIC and isinstance(place, str):
        return [place]
    names = {place} if isinstance(place, str) else set(place)
    used = job.transfers.paths
    paths = (used[path] for path in np.unique(job.transfers.path) if path >= 0)
    if finding.job == job.id or (finding.job is None and any(names <= set(path) for path in paths)):
        return [job.transfers.addresses[job.members[0]]]
    return []
