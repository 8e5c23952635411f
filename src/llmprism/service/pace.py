"""How fast a run steps: its recorded steps, its usual step time, and whether it is slower than that.

A step is recorded once it has settled, because the end of a look cuts the last one. The usual step time is learnt in
the first minute and then follows the job's own slow drift; while something is wrong it stands still.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from llmprism.model.flows import Int64
from llmprism.model.live import StepMark, TrackedRun
from llmprism.model.report import JobReport
from llmprism.service.looks import CLEAR_STEPS
from llmprism.service.windows import SECOND

__all__ = ["is_slow", "paced", "recorded", "with_baseline"]

SLOWED: Final = 1.3
"""Recent step time against the baseline from which a job is slowed."""

SLOWED_HIGH: Final = 1.1
"""And against what nine of ten usual steps stay below: healthy jobs may alternate between 215 and 360 ms."""

HIGH_QUANTILE: Final = 0.9

HEALTHY: Final = 1.1
"""Below this ratio the baseline follows the job's own slow drift."""

DRIFT: Final = 0.05
"""Weight of one slower window in the baseline: it follows within twenty windows."""

SETTLE: Final = 0.3
"""Weight of one faster window: the first steps of a job are slow, and the baseline soon forgets them."""

RECENT_STEPS: Final = 7
"""Steps whose median is the recent step time: one odd step in three does not move it."""

SETTLED_NS: Final = 60 * SECOND
"""A baseline is only settled when the run has been watched for a whole window: the first ones see few steps, and the
first steps are slow."""

SETTLED_STEPS: Final = 30

REBASE_NS: Final = 1_800 * SECOND
"""A job that has been slower for half an hour with nothing found has changed its work: that is its new baseline."""


def paced(run: TrackedRun, usual: Int64) -> TrackedRun:
    """The run with the step times of this look; as it was where the look shows none."""
    if not usual.size:
        return run
    return replace(run, period_ns=int(np.median(usual)), recent_ns=int(np.median(usual[-RECENT_STEPS:])))


def is_slow(run: TrackedRun) -> bool:
    return run.recent_ns > max(SLOWED * run.baseline_ns, SLOWED_HIGH * run.usual_high_ns) > 0


def recorded(run: TrackedRun, job: JobReport, end_ns: int) -> tuple[TrackedRun, list[StepMark]]:
    """The run with the steps that have settled and lie after the last recorded one, and those steps."""
    steps = job.timeline.steps
    settled = end_ns - max(SECOND, run.period_ns)
    slack = run.period_ns // 4
    count, last = run.steps, run.last_step_end_ns
    marks = []
    for start, end, setup in zip(steps.start_ns.tolist(), steps.end_ns.tolist(), steps.setup.tolist(), strict=True):
        if start < last - slack or end > settled or end <= last:
            continue
        marks.append(StepMark(count, max(start, last), end, bool(setup) and count == 0))
        count, last = count + 1, end
    return replace(run, steps=count, last_step_end_ns=last), marks


def with_baseline(run: TrackedRun, usual: Int64, end_ns: int, *, troubled: bool) -> TrackedRun:
    """The run with its usual step time and its spread."""
    if usual.size < CLEAR_STEPS or not run.recent_ns or (troubled and run.baseline_ns):
        return run
    high = int(np.quantile(usual, HIGH_QUANTILE))
    slow_for = end_ns - run.slow_since_ns if run.slow_since_ns else 0
    young = end_ns - run.first_ns < SETTLED_NS or run.steps < SETTLED_STEPS
    if not run.baseline_ns or young or slow_for >= REBASE_NS:
        return replace(run, baseline_ns=run.period_ns, usual_high_ns=high)
    if run.slow_since_ns or run.recent_ns > max(HEALTHY * run.baseline_ns, run.usual_high_ns):
        return run
    weight = DRIFT if run.recent_ns > run.baseline_ns else SETTLE
    return replace(
        run,
        baseline_ns=int(run.baseline_ns + weight * (run.recent_ns - run.baseline_ns)),
        usual_high_ns=int(run.usual_high_ns + DRIFT * (high - run.usual_high_ns)),
    )
