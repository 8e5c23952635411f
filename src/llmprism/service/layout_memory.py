"""What is known of the layouts of jobs from one window to the next.

A job that goes on as before is not looked at again from the beginning: its layout is carried over
(`parallelism.carried_layout`), which takes a thirtieth of the time and gives the same step ends and kinds. It is found
anew where the job has changed, where anything is wrong with it, while it is young, and once in `refresh_ns` anyway.

The memory is lost with the process. That changes nothing but the time that the next window takes, because whether the
layout in a run's document is written again depends on the runs' state alone (`documents_due`), not on what is known.
What a step is in bytes is known from the runs themselves (`step_memory`) and handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmprism.model.flows import Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout
from llmprism.model.live import FindingPhase
from llmprism.model.report import Report
from llmprism.parallelism import identify_layout
from llmprism.parallelism.carried_layout import LayoutPattern, carried_layout, layout_pattern
from llmprism.service.rules import RULES, LiveRules
from llmprism.service.runs import is_settled
from llmprism.service.step_memory import may_last, member_key
from llmprism.service.tracker import TrackerState
from llmprism.service.windows import WindowPlan

__all__ = ["LayoutMemory", "documents_due"]

Key = tuple[int, tuple[str, ...]]


@dataclass(slots=True)
class _KnownLayout:
    pattern: LayoutPattern
    seen_ns: int


class LayoutMemory:
    """`layout_of` is called for every job of a window, from several threads, between `begin` and `end`."""

    def __init__(self, rules: LiveRules = RULES) -> None:
        self._rules = rules
        self._known: dict[Key, _KnownLayout] = {}
        self._window = Window(0, 0)
        self._steps: Mapping[str, int] = {}
        self.carried = 0
        self.found = 0

    def begin(self, window: Window, steps: Mapping[str, int] | None = None) -> None:
        """`steps` are the bytes of a step of the jobs that are known, by the key of their members; 0 while it is open
        what a step is."""
        self._window = window
        self._steps = steps or {}

    def layout_of(self, job: Job) -> JobLayout:
        key = self._key(job)
        known, members = self._known.get(key), member_key(key[1])
        if known is not None and not refreshed(members, known.pattern.found_ns, self._window.end_ns, self._rules):
            carried = carried_layout(known.pattern, job)
            if carried is not None:
                self.carried += 1
                self._known[key] = _KnownLayout(carried[1], self._window.end_ns)
                return carried[0]
        self.found += 1
        self._known.pop(key, None)
        step = self._steps.get(members)
        layout = identify_layout(job, known_bytes=step or 0)
        lasts = self._is_known(job) and may_last(layout, step, self._rules)
        pattern = layout_pattern(job, layout, self._window.end_ns) if lasts else None
        if pattern is not None:
            self._known[key] = _KnownLayout(pattern, self._window.end_ns)
        return layout

    def end(self, report: Report) -> None:
        """Forgets the jobs with which something is wrong, and those that no later window can go on with."""
        troubled = {finding.job for finding in report.findings}
        shared = any(finding.job is None for finding in report.findings)
        for job in report.jobs:
            if shared or job.job.id in troubled or job.state is not JobState.RUNNING:
                self._known.pop(self._key(job.job), None)
        now = self._window.end_ns
        for key in [key for key, known in self._known.items() if now - known.seen_ns > key[0]]:
            del self._known[key]

    def _key(self, job: Job) -> Key:
        names = tuple(job.transfers.addresses[member] for member in job.members)
        return self._window.end_ns - self._window.start_ns, names

    def _is_known(self, job: Job) -> bool:
        """Has the job been there for most of the window?"""
        length = self._window.end_ns - self._window.start_ns
        start = job.transfers.start_ns
        return bool(start.size) and int(start.min()) <= self._window.start_ns + self._rules.runs.young_share * length


def refreshed(members: str, last_ns: int, now_ns: int, rules: LiveRules = RULES) -> bool:
    """Has the time passed at which the layout of these members is found anew? Every job has one of its own, so that not
    all are found in one window."""
    refresh = rules.runs.refresh_ns
    own = int(members, 16) % refresh
    return (last_ns + own) // refresh != (now_ns + own) // refresh


def documents_due(
    before: TrackerState, after: TrackerState, window: Window, plan: WindowPlan, rules: LiveRules = RULES
) -> frozenset[str]:
    """The runs whose layout is written again after this window: young ones, changed ones, those with an open finding,
    and each at the time at which it is found anew. `plan` is the one that this window was made by."""
    known = {run.id: run for run in before.runs}
    opened = {tracked.finding.job for tracked in after.findings if tracked.phase is not FindingPhase.CLOSED}
    settled = window.start_ns - (window.end_ns - window.start_ns)
    return frozenset(
        run.id
        for run in after.runs
        if not is_settled(run, rules)
        or run.first_ns > settled
        or run.id in opened
        or refreshed(member_key(run.members), plan.last_end, window.end_ns, rules)
        or run.id not in known
        or known[run.id].members != run.members
        or not is_settled(known[run.id], rules)
    )
