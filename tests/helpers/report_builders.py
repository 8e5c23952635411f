"""Reports of the flow side with jobs of given members and steps, without any traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.model.finding import Finding
from llmprism.model.flows import InputCounts, TransferTable, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout, Layout, PairRoles
from llmprism.model.report import JobReport, Report
from llmprism.model.timeline import Events, Steps, Timeline
from verdict_builders import steps_of

SECOND = 1_000_000_000


def job_report(
    name: str, members: tuple[str, ...], ends: np.ndarray, state: JobState = JobState.RUNNING
) -> tuple[JobReport, tuple[str, ...]]:
    """A job and the names of its members."""
    steps = steps_of(ends) if ends.size else Steps.empty()
    timeline = Timeline(steps, np.tile(ends, (len(members), 1)), Events.empty())
    i32, i64 = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    nothing = TransferTable((), (), i32, i32, np.zeros(1, dtype=np.int64), i64, i64, i64, i64, i64, i32, i32)
    layout = JobLayout(Layout(), (), (), PairRoles.empty(), np.zeros(0, dtype=np.int8))
    job = Job(name, tuple(range(len(members))), (), 0.9, nothing)
    return JobReport(job, state, layout, timeline), members


def report_of(*jobs: tuple[JobReport, tuple[str, ...]], findings: tuple[Finding, ...] = (), end_s: float = 0) -> Report:
    """A report whose window spans all steps and `end_s` seconds of silence."""
    addresses = tuple(address for _, members in jobs for address in members)
    number = {address: at for at, address in enumerate(addresses)}
    placed = tuple(
        replace(job, job=replace(job.job, members=tuple(number[one] for one in members))) for job, members in jobs
    )
    ends = [int(one) for job in placed for one in job.timeline.steps.end_ns]
    starts = [int(one) for job in placed for one in job.timeline.steps.start_ns]
    window = Window(min(starts, default=0), max(ends, default=0) + int(end_s * SECOND))
    return Report(window, InputCounts(10, 10), addresses, placed, findings)
