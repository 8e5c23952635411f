"""Everything one diagnosis says; what `report/` renders and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.model.finding import Finding
from llmprism.model.flows import InputCounts, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout
from llmprism.model.timeline import Timeline
from llmprism.model.topology import Topology
from llmprism.model.verdict import LogReading

__all__ = ["JobReport", "Report", "SwitchLoad"]


@dataclass(frozen=True, slots=True)
class JobReport:
    """`lost_gpu_seconds` is what the job lost to all findings together; None where its steps were not seen."""

    job: Job
    state: JobState
    layout: JobLayout
    timeline: Timeline
    lost_gpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SwitchLoad:
    """Traffic of training jobs through one switch over the window."""

    switch: str
    tier: str | None
    bytes: int
    pairs: int
    median_rate_gbps: float
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """`addresses` names the address ids used everywhere; `notes` are sentences on what could not be decided.

    `reading` says what the logs of the jobs added to the findings; None where no logs were given.
    """

    window: Window
    input: InputCounts
    addresses: tuple[str, ...]
    jobs: tuple[JobReport, ...]
    findings: tuple[Finding, ...]
    topology: Topology | None = None
    switches: tuple[SwitchLoad, ...] = ()
    notes: tuple[str, ...] = ()
    reading: LogReading | None = None
