"""Findings of all jobs: the detectors in the order in which one's answer excuses the next one's suspects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from llmprism.diagnose.byte_curves import hold_the_training
from llmprism.diagnose.detectors import detect
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.diagnose.slow_transfer import find_slow_places
from llmprism.diagnose.trust import is_permanent, trusted, waited_for
from llmprism.diagnose.unexplained import find_unexplained
from llmprism.diagnose.what_if import lost_in_job, priced
from llmprism.model.finding import Finding, FindingKind, WhereType
from llmprism.model.flows import Window
from llmprism.model.job import Job

__all__ = [
    "JobFaults",
    "Shared",
    "find_job_faults",
    "find_shared_faults",
    "ranked",
    "with_costs",
]


_AT_ENDS: Final = (WhereType.NIC, WhereType.GROUP)
"""Places at the ends of a path; the others lie on it."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What several jobs may have in common: findings on slow places and storage, and whom they excuse.

    `excused` lists (address, from, to): whoever is late there and then only waits. `numbers` are the places of the
    findings among all shared ones, `clients` (number, address) those that use the servers of findings on storage.
    """

    findings: tuple[Finding, ...] = ()
    excused: tuple[tuple[str, int, int], ...] = ()
    numbers: tuple[int, ...] = ()
    clients: tuple[tuple[int, str], ...] = ()

    def about(self, job: Job) -> Shared:
        """The part that bears on one job; the detectors of that job see no more. Of the job's transfers only ends and
        paths matter."""
        names = {job.transfers.addresses[member] for member in job.members} if self.findings else set()
        kept = sorted({*_bearing(self.findings, job), *(i for i, client in self.clients if client in names)})
        return Shared(
            tuple(self.findings[i] for i in kept),
            tuple(one for one in self.excused if one[0] in names),
            tuple(self.numbers[i] for i in kept),
        )

    def accused(self) -> dict[str, list[tuple[int, int]]]:
        times: dict[str, list[tuple[int, int]]] = {}
        for address, start, end in self.excused:
            times.setdefault(address, []).append((start, end))
        return times


@dataclass(frozen=True, slots=True)
class JobFaults:
    """Findings inside one job, and what shared ones (number, GPU-seconds) cost it."""

    findings: tuple[Finding, ...]
    costs: tuple[tuple[int, float], ...]

    @property
    def lost_gpu_seconds(self) -> float:
        """What the job lost in all; findings that overlap share their cost, so no second counts twice."""
        own = sum(finding.lost_gpu_seconds for finding in self.findings)
        return round(own + sum(seconds for _, seconds in self.costs), 3)


def find_shared_faults(
    jobs: Sequence[Job],
    cells: Sequence[SlowCells],
    storage: Sequence[Finding],
    ends: Sequence[tuple[str, str]],
    window: Window,
    rules: FaultRules = RULES,
) -> Shared:
    """What is to be seen over all jobs at once, from the slow cells of each.

    `storage` are the findings on servers outside the jobs, `ends` the two ends of every pair between a job and such a
    server. Of the jobs' transfers only ends and paths matter.
    """
    slow = find_slow_places(cells, rules)
    excused: list[tuple[str, int, int]] = []
    for finding, addresses in zip(slow, _concerned(slow, jobs), strict=True):
        end = finding.end_ns if finding.end_ns is not None else window.end_ns
        excused += [(address, finding.start_ns, end) for address in addresses]
    clients: list[tuple[int, str]] = []
    for number, finding in enumerate(storage, len(slow)):
        end = finding.end_ns if finding.end_ns is not None else window.end_ns
        users = _clients(ends, finding)
        clients += [(number, client) for client in users]
        excused += [(client, finding.start_ns, end) for client in users]
    return Shared((*slow, *storage), tuple(excused), tuple(range(len(slow) + len(storage))), tuple(clients))


def find_job_faults(evidence: JobEvidence, shared: Shared, window: Window, rules: FaultRules = RULES) -> JobFaults:
    """What is wrong inside one job; `shared` is what bears on it of what it shares with others.

    Nothing is said of a job that has hardly begun, or most of whose training lies outside of its steps: what is usual
    for it is not known.
    """
    findings = trusted(evidence, detect(evidence, window, shared.accused(), shared.findings, rules), rules)
    if findings and not hold_the_training(evidence.job, evidence.timeline.steps, rules):
        findings = []
    alone = [lost_in_job(evidence, [finding], rules) for finding in findings]
    kept = [f for f, cost in zip(findings, alone, strict=True) if not cost or waited_for(evidence, f, cost[0], rules)]
    if len(kept) < len(findings):  # what nobody waited for does not explain slower steps
        kept += find_unexplained(evidence, [*shared.findings, *kept], shared.accused(), rules)
    findings = kept
    own = len(shared.findings)
    lost = lost_in_job(evidence, [*shared.findings, *findings], rules)
    costs = [(i - own, lost[i]) for i in lost if i >= own and not _no_before(evidence, findings[i - own], rules)]
    return JobFaults(
        tuple(priced(findings, costs)),
        tuple((shared.numbers[i], seconds) for i, seconds in lost.items() if i < own),
    )


def _no_before(evidence: JobEvidence, finding: Finding, rules: FaultRules) -> bool:
    """Does a slow GPU leave no healthy step to play the others against? Then its detector's estimate stands."""
    return finding.kind is FindingKind.SLOW_GPU and is_permanent(evidence, finding, rules)


def with_costs(shared: Shared, jobs: Sequence[JobFaults]) -> tuple[Finding, ...]:
    """All findings, the shared ones with what they cost over all jobs; the costliest first."""
    findings = priced(shared.findings, [cost for job in jobs for cost in job.costs])
    return ranked([*findings, *(finding for job in jobs for finding in job.findings)])


def ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The costliest first; of equal ones the earlier."""
    return tuple(sorted(findings, key=lambda finding: (-finding.lost_gpu_seconds, finding.start_ns)))


def _clients(ends: Sequence[tuple[str, str]], finding: Finding) -> list[str]:
    """Addresses that exchange data with an accused storage server: whoever is late among them waits for it."""
    return [b if a == finding.where.id else a for a, b in ends if finding.where.id in (a, b)]


def _concerned(findings: Sequence[Finding], jobs: Sequence[Job]) -> list[list[str]]:
    """Addresses that each slow place excuses: the NIC itself, or one of each job that sends through link or switch."""
    nics = [
        finding.where.id if finding.where.type is WhereType.NIC and isinstance(finding.where.id, str) else None
        for finding in findings
    ]
    addresses = [[nic] if nic is not None else [] for nic in nics]
    for job in jobs:
        for i in _bearing(findings, job):
            if nics[i] is None:
                addresses[i].append(job.transfers.addresses[job.members[0]])
    return addresses


def _bearing(findings: Sequence[Finding], job: Job) -> list[int]:
    """The shared findings, by number, that are about this job or, where about several, about a place that it passes."""
    ends = {job.transfers.addresses[member] for member in job.members} if findings else set()
    on_paths = any(finding.job is None and finding.where.type not in _AT_ENDS for finding in findings)
    paths = [job.transfers.paths[path] for path in job.transfers.paths_taken().tolist()] if on_paths else []
    passed = set(chain.from_iterable(paths))

    def bears(finding: Finding) -> bool:
        if finding.job is not None:
            return finding.job == job.id
        place = finding.where.id
        names = {place} if isinstance(place, str) else set(place)
        if finding.where.type in _AT_ENDS:
            return not names.isdisjoint(ends)
        return names <= passed and any(names.issubset(path) for path in paths)

    return [i for i, finding in enumerate(findings) if bears(finding)]
