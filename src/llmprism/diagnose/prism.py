"""Findings of all jobs: the detectors in the order in which one's answer excuses the next one's suspects."""

from __future__ import annotations

from collections.abc import Sequence

from llmprism.diagnose.evidence import gather_evidence
from llmprism.diagnose.late_member import find_late_members
from llmprism.diagnose.slow_transfer import find_slow_transfers
from llmprism.diagnose.standstill import find_standstills
from llmprism.diagnose.stopped import find_stopped
from llmprism.model.finding import Finding, WhereType
from llmprism.model.flows import Window
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
) -> tuple[Finding, ...]:
    """All findings, the costliest first."""
    evidence = [
        gather_evidence(job, layout, timeline, state)
        for (job, layout, timeline), state in zip(jobs, states, strict=True)
    ]
    slow = find_slow_transfers(evidence)
    accused: dict[str, list[tuple[int, int]]] = {}
    for finding in slow:
        if finding.where.type is WhereType.NIC and isinstance(finding.where.id, str):
            end = finding.end_ns if finding.end_ns is not None else window.end_ns
            accused.setdefault(finding.where.id, []).append((finding.start_ns, end))
    findings = list(slow)
    for one in evidence:
        findings += find_late_members(one, accused)
        findings += find_stopped(one.job, one.layout, one.timeline, window)
        findings += find_standstills(one, findings)
    return tuple(sorted(findings, key=lambda finding: (-finding.lost_gpu_seconds, finding.start_ns)))
