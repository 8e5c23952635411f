"""How the run ended, in which stage, and how sure a verdict of "nothing wrong" can be."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from llmprism.logs.causes import stage_from_frames
from llmprism.logs.disorderly_end import left_in_disorder
from llmprism.logs.incidents import EndMark, EndMarks, Incident
from llmprism.logs.joblog import JobLog
from llmprism.logs.launcher_reports import first_deaths
from llmprism.logs.library import FaultRole, Meaning
from llmprism.logs.members import LogMembers
from llmprism.logs.metrics import Metric
from llmprism.logs.progress import BEFORE_TRAINING, NOT_YET_TRAINING, ORDER, Progress
from llmprism.logs.roots import began_with_waiting
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.suspects import Blame
from llmprism.model.log import Outcome, Stage, Symptom

__all__ = [
    "decide_outcome",
    "failure_iteration",
    "failure_stage",
    "failure_symptom",
    "first_proof",
    "last_stage",
    "quiet_confidence",
    "stop_mark",
]

_SHARPEST: Final = (Stage.CHECKPOINT, Stage.EVAL, Stage.DATA, Stage.TRAIN, Stage.INIT, *Stage)
"""Which stage to believe when stacks of one cause suggest several: the one that fewest stacks show by chance."""

_SEQUENCE: Final = re.compile(
    r"WorkNCCL\(SeqNum=(\d{1,15})|work sequence id: (\d{1,15})|[Ll]ast enqueued (?:NCCL )?work: (\d{1,15})"
)


def decide_outcome(
    log: JobLog,
    members: LogMembers,
    progress: Progress,
    ends: EndMarks,
    incidents: list[Incident],
    rules: LogRules = RULES,
) -> Outcome:
    """How the run ended; only what came before someone ended it from outside counts against it."""
    proof = [i for i in incidents if i.terminal and i.proves_failure]
    if ends.any_success(strong=True):
        return Outcome.SUCCESS
    if ends.any_success(strong=False) and not any(i.is_root for i in proof):
        return Outcome.SUCCESS
    limit = ends.first(Meaning.TIME_LIMIT)
    stop = stop_mark(ends)
    if stop:
        before = any(_is_before(i, stop, rules) for i in proof)
        killed = any(
            report.own_death and report.file == stop.file and report.line < stop.line
            for report in first_deaths(members.exits)
        )
        if not before and not killed:
            return Outcome.TIME_LIMIT if limit else Outcome.CANCELLED
        return Outcome.FAILED
    done = progress.total is not None and progress.last_iteration == progress.total
    if ends.first(Meaning.GAVE_UP) or any(report.own_death for report in first_deaths(members.exits)):
        return Outcome.FAILED
    if proof and not (done and all(_may_be_teardown(i) for i in proof)):
        leaving = all(_may_be_teardown(i) for i in proof) and left_in_disorder(log, members, progress)
        return Outcome.UNKNOWN if leaving else Outcome.FAILED
    if done:
        return Outcome.SUCCESS
    if progress.last_iteration is not None:
        return Outcome.RUNNING
    return Outcome.UNKNOWN


def stop_mark(ends: EndMarks) -> EndMark | None:
    """The line that says that someone ended the run, the clearest kind first."""
    return ends.first(Meaning.TIME_LIMIT) or ends.first(Meaning.CANCELLED) or ends.first(Meaning.STOPPED)


def _may_be_teardown(incident: Incident) -> bool:
    """Whether processes also say this while they end in disorder after their last iteration."""
    return incident.fault is not None and (incident.fault.role is FaultRole.CASCADE or incident.fault.echo)


def _is_before(incident: Incident, stop: EndMark, rules: LogRules) -> bool:
    """Whether something was wrong before someone ended the run; complaints right then are its consequence."""
    if incident.file == stop.file and (incident.is_root or not stop.time_ns or not incident.time_ns):
        return incident.line < stop.line
    if incident.time_ns and stop.time_ns:
        slack = 0 if incident.is_root else rules.stop_slack_ns
        return incident.time_ns < stop.time_ns - slack
    return incident.is_root


def first_proof(terminal: list[Incident]) -> Incident | None:
    return next((i for i in terminal if i.proves_failure), terminal[0] if terminal else None)


def failure_stage(
    log: JobLog,
    progress: Progress,
    ends: EndMarks,
    first: Incident | None,
    blame: Blame,
    terminal: list[Incident],
    rules: LogRules = RULES,
) -> Stage:
    """The stage at the first line, made sharper by the stacks and texts of all lines with the same cause."""
    if first is None:
        mark = ends.first(Meaning.GAVE_UP)
        return progress.stage_at(mark.file, mark.line - 1, mark.time_ns) if mark else Stage.UNKNOWN
    stage = first.stage
    training = progress.last_iteration is not None
    if first.is_root:
        alike = [i for i in terminal if i.shape == first.shape or (i.fault is not None and i.fault == first.fault)]
        sharper = {stage_from_frames(log.shapes[i.shape], stage, training=training) for i in alike} - {stage}
        stage = min(sharper, key=_SHARPEST.index) if sharper else stage
    if stage is Stage.SHUTDOWN and progress.last_iteration is not None and blame.root is not None:
        return Stage.TRAIN
    if stage in (Stage.UNKNOWN, Stage.LAUNCH, Stage.INIT) and _shows_training(log, terminal, rules):
        return Stage.TRAIN
    if stage in (Stage.UNKNOWN, Stage.LAUNCH) and first.fault is not None and first.fault.stage is not Stage.UNKNOWN:
        return first.fault.stage
    if stage is Stage.UNKNOWN and _is_launch(first):
        return Stage.LAUNCH
    return stage


def _shows_training(log: JobLog, terminal: list[Incident], rules: LogRules) -> bool:
    """Whether the lines show a training loop although none counts iterations: losses, step functions, collectives."""
    if (log.metrics.metric == Metric.LOSS).any():
        return True
    shapes = {i.shape for i in terminal}
    if any(stage_from_frames(log.shapes[shape], Stage.UNKNOWN, training=False) is Stage.TRAIN for shape in shapes):
        return True
    numbers = [int(n) for text in log.texts.values() for found in _SEQUENCE.findall(text) for n in found if n]
    return max(numbers, default=0) >= rules.training_collectives


def _is_launch(first: Incident) -> bool:
    return first.fault is not None and first.fault.id.startswith(("sched.", "container.", "k8s.", "launch."))


def failure_iteration(progress: Progress, first: Incident | None, stage: Stage) -> int | None:
    """The iteration during which it happened: one after the last that was completed."""
    if first is None or progress.last_iteration is None or stage in NOT_YET_TRAINING:
        return None
    done = progress.iteration_at(first.file, first.line, first.time_ns)
    return None if done is None else done + 1


def failure_symptom(
    terminal: list[Incident], blame: Blame, stage: Stage, first: Incident | None, members: LogMembers
) -> Symptom:
    if first is None:
        return Symptom.CRASH if blame.death is not None else Symptom.UNKNOWN
    if stage in BEFORE_TRAINING:
        return Symptom.LAUNCH_FAILURE
    if blame.root is not None and not (blame.root.fault and blame.root.fault.hang):
        return Symptom.CRASH
    if blame.death is not None and blame.death.report.own_death:
        return Symptom.CRASH
    waited = blame.lagging or _most_wait(terminal) or began_with_waiting(terminal, members)
    return Symptom.HANG if waited else Symptom.CRASH


def _most_wait(terminal: list[Incident]) -> bool:
    """Whether the first complaint of most of those that complain is that they waited in vain."""
    first: dict[int, bool] = {}
    for incident in terminal:
        if incident.proves_failure and incident.fault is not None:
            first.setdefault(incident.actor, incident.fault.hang)
    return 2 * sum(first.values()) > len(first)


def last_stage(progress: Progress, ends: EndMarks, outcome: Outcome) -> Stage:
    """The stage of a run that did not fail."""
    if outcome is Outcome.SUCCESS:
        return Stage.SHUTDOWN
    stop = stop_mark(ends)
    if stop:
        return progress.stage_at(stop.file, stop.line, stop.time_ns)
    stages = [track.stage[-1] for track in progress.tracks if track.stage]
    return max(stages, key=ORDER.index) if stages else Stage.UNKNOWN


def quiet_confidence(
    log: JobLog, progress: Progress, ends: EndMarks, outcome: Outcome, rules: LogRules = RULES
) -> tuple[float, list[str]]:
    """How sure "nothing wrong" is, with what speaks against being surer.

    A log that is damaged, cut or too short cannot show that nothing was wrong: never above 0.5 then.
    """
    sure = rules.confidence
    doubts: list[str] = []
    damaged = log.dropped.damaged
    if damaged:
        what = ", ".join(f"{count} {reason}" for reason, count in damaged.items())
        doubts.append(f"part of the logs could not be read ({what}): nothing can be said of that part")
    if outcome is Outcome.SUCCESS:
        probably = sure.success if ends.any_success(strong=True) else sure.probable_success
        return (sure.damaged_success if damaged else probably), doubts
    counted = [np.unique(track.value).size for track in progress.tracks]
    iterations = max(counted, default=0)
    if iterations < rules.few_iterations:
        doubts.append(f"only {iterations} iterations were seen: too few to tell")
    if any(log.file_cut):
        doubts.append("the last line is unfinished: the log was cut, or is still being written")
    if doubts:
        return sure.doubtful, doubts
    return (sure.runs_for_long if iterations >= rules.many_iterations else sure.runs), doubts
