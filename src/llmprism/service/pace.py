"""How fast a run steps: its recorded steps, its usual step time, and whether it is slower than that.

A step is recorded once it has settled, because the end of a look cuts the last one. The usual step time is learnt in
the first minute and then follows the job's own slow drift; while something is wrong it stands still.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.arrays import Int64
from llmprism.model.live import StepMark, TrackedRun
from llmprism.model.report import JobReport
from llmprism.service.rules import RULES, LiveRules
from llmprism.units import SECOND

__all__ = ["is_slow", "paced", "recorded", "with_baseline"]


def paced(run: TrackedRun, usual: Int64, rules: LiveRules = RULES) -> TrackedRun:
    """The run with the step times of this look; as it was where the look shows none."""
    if not usual.size:
        return run
    return replace(run, period_ns=int(np.median(usual)), recent_ns=int(np.median(usual[-rules.runs.recent_steps :])))


def is_slow(run: TrackedRun, rules: LiveRules = RULES) -> bool:
    return run.recent_ns > max(rules.runs.slowed * run.baseline_ns, rules.runs.slowed_high * run.usual_high_ns) > 0


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


def with_baseline(
    run: TrackedRun, usual: Int64, end_ns: int, rules: LiveRules = RULES, *, troubled: bool
) -> TrackedRun:
    """The run with its usual step time and its spread."""
    if usual.size < rules.runs.clear_steps or not run.recent_ns or (troubled and run.baseline_ns):
        return run
    high = int(np.quantile(usual, rules.runs.high_quantile))
    slow_for = end_ns - run.slow_since_ns if run.slow_since_ns else 0
    young = end_ns - run.first_ns < rules.runs.settled_ns or run.steps < rules.runs.settled_steps
    if not run.baseline_ns or young or slow_for >= rules.runs.rebase_ns:
        return replace(run, baseline_ns=run.period_ns, usual_high_ns=high)
    if run.slow_since_ns or run.recent_ns > max(rules.runs.healthy * run.baseline_ns, run.usual_high_ns):
        return run
    weight = rules.runs.drift if run.recent_ns > run.baseline_ns else rules.runs.settle
    return replace(
        run,
        baseline_ns=int(run.baseline_ns + weight * (run.recent_ns - run.baseline_ns)),
        usual_high_ns=int(run.usual_high_ns + rules.runs.drift * (high - run.usual_high_ns)),
    )
