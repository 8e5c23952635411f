"""One job's logs → one diagnosis: outcome, symptom, stage, iteration, cause, suspects, events.

The steps, each in its own file: read (reader), who (cast), how far (progress), what was said (incidents), who is to
blame (suspects), why (causes and the library). This file puts them together and decides the outcome.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from llmprism.logs.cast import Cast, resolve_cast
from llmprism.logs.causes import class_of_exception, stage_from_frames
from llmprism.logs.events import build_events, build_heat
from llmprism.logs.incidents import EndMarks, Incident, Normality, find_end_marks, find_incidents
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import FaultRole, Library, Meaning, load_library
from llmprism.logs.progress import Progress, measure_progress
from llmprism.logs.reader import read_job
from llmprism.logs.suspects import Blame, find_blame
from llmprism.model.log import Cause, CauseClass, LogDiagnosis, LogInput, Outcome, Stage, Symptom

__all__ = ["diagnose_log", "diagnose_paths"]

PRECURSOR_NS: Final = 10 * 60 * 1_000_000_000
"""How long before the first complaint a survived hardware line may be its cause: retries and watchdogs take minutes."""

STOP_SLACK_NS: Final = 5 * 1_000_000_000
"""Complaints this short before the first sign of a stop are part of it: processes of a job do not end at once."""

_HANG_STEPS: Final = 20
"""Steps without progress before a time limit from which a run counts as hung rather than slow to converge."""

_HANG_NS: Final = 600 * 1_000_000_000
"""Ten minutes: shorter pauses are checkpoints and evaluations."""

_SHARPEST: Final = (Stage.CHECKPOINT, Stage.EVAL, Stage.DATA, Stage.INIT, *Stage)
"""Which stage to believe when stacks of one cause suggest several: the one that fewest stacks show by chance."""

_BEFORE_TRAINING: Final = frozenset({Stage.LAUNCH, Stage.INIT, Stage.DATA, Stage.UNKNOWN})


def diagnose_paths(
    paths: list[Path], *, library: Library | None = None, normal: Normality | None = None
) -> LogDiagnosis:
    """Read the logs of one job and diagnose them."""
    library = library or load_library()
    return diagnose_log(read_job(paths, library), normal=normal)


def diagnose_log(log: JobLog, *, normal: Normality | None = None) -> LogDiagnosis:
    cast = resolve_cast(log)
    progress = measure_progress(log)
    ends = find_end_marks(log, progress)
    incidents = find_incidents(log, cast, progress, ends, normal)
    outcome = _outcome(cast, progress, ends, incidents)
    counts = _input(log, cast)
    if outcome is Outcome.FAILED:
        return _failed(log, cast, progress, ends, incidents, counts)
    return _not_failed(log, cast, progress, ends, incidents, outcome, counts)


def _input(log: JobLog, cast: Cast) -> LogInput:
    ranks = sum(actor.rank is not None for actor in cast.actors)
    return LogInput(len(log.files), log.lines, ranks, len(cast.nodes), log.bytes, log.dropped.as_tuple())


def _outcome(cast: Cast, progress: Progress, ends: EndMarks, incidents: list[Incident]) -> Outcome:
    """How the run ended; only what came before someone ended it from outside counts against it."""
    proof = [i for i in incidents if i.terminal and i.proves_failure]
    if ends.any_success(strong=True):
        return Outcome.SUCCESS
    if ends.any_success(strong=False) and not any(i.is_root for i in proof):
        return Outcome.SUCCESS
    limit = ends.first(Meaning.TIME_LIMIT)
    stop = limit or ends.first(Meaning.CANCELLED) or ends.first(Meaning.STOPPED)
    if stop:
        before = any(_is_before(i, stop.file, stop.line, stop.time_ns) for i in proof)
        killed = any(report.file == stop.file and report.line < stop.line for report in cast.killed_first())
        if not before and not killed:
            return Outcome.TIME_LIMIT if limit else Outcome.CANCELLED
        return Outcome.FAILED
    done = progress.total is not None and progress.last_iteration == progress.total
    if proof and not (done and all(_may_be_teardown(i) for i in proof)):
        return Outcome.FAILED
    if ends.first(Meaning.GAVE_UP):
        return Outcome.FAILED
    if done:
        return Outcome.SUCCESS
    if progress.last_iteration is not None:
        return Outcome.RUNNING
    return Outcome.UNKNOWN


def _may_be_teardown(incident: Incident) -> bool:
    """Whether processes also say this while they end in disorder after their last iteration."""
    return incident.fault is not None and (incident.fault.role is FaultRole.CASCADE or incident.fault.echo)


def _is_before(incident: Incident, file: int, line: int, time_ns: int) -> bool:
    """Whether something was wrong before someone ended the run; complaints right then are its consequence."""
    if incident.file == file and (incident.is_root or not time_ns or not incident.time_ns):
        return incident.line < line
    if incident.time_ns and time_ns:
        slack = 0 if incident.is_root else STOP_SLACK_NS
        return incident.time_ns < time_ns - slack
    return incident.is_root


def _failed(
    log: JobLog, cast: Cast, progress: Progress, ends: EndMarks, incidents: list[Incident], counts: LogInput
) -> LogDiagnosis:
    terminal = [i for i in incidents if i.terminal]
    blame = find_blame(log, cast, terminal)
    if blame.root is None:
        blame = _with_precursor(blame, incidents, terminal, cast, log)
    first = blame.root or _first_proof(terminal)
    stage = _stage(log, progress, ends, first, blame, terminal)
    iteration = _iteration(progress, first, stage)
    symptom = _symptom(terminal, blame, stage, first)
    cause = _cause(log, blame, terminal, progress, ends)
    events = build_events(log, cast, terminal, blame)
    return LogDiagnosis(
        counts,
        Outcome.FAILED,
        symptom,
        stage,
        iteration,
        cause,
        blame.suspects,
        events,
        _notes(log, incidents),
        build_heat(log, cast),
    )


def _first_proof(terminal: list[Incident]) -> Incident | None:
    return next((i for i in terminal if i.proves_failure), terminal[0] if terminal else None)


def _with_precursor(
    blame: Blame, incidents: list[Incident], terminal: list[Incident], cast: Cast, log: JobLog
) -> Blame:
    """A hardware or network line that the run survived for a while may still be the cause of the complaints."""
    first = next((i for i in terminal if i.proves_failure and i.time_ns), None)
    if first is None:
        return blame
    for incident in incidents:
        fault = incident.fault
        if incident.terminal or incident.late or fault is None or fault.role is not FaultRole.ROOT or fault.echo:
            continue
        near = 0 <= first.time_ns - incident.time_ns <= PRECURSOR_NS
        if near and fault.cause.value.split(".")[0] in ("hardware", "network", "storage"):
            found = find_blame(log, cast, [replace(incident, terminal=True), *terminal])
            if found.root is not None:
                return found
    return blame


def _stage(
    log: JobLog, progress: Progress, ends: EndMarks, first: Incident | None, blame: Blame, terminal: list[Incident]
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
        stage = Stage.TRAIN
    if stage is Stage.UNKNOWN:
        stage = Stage.LAUNCH if _is_launch(first) else Stage.INIT
    return stage


def _is_launch(first: Incident) -> bool:
    return first.fault is not None and first.fault.id.startswith(("sched.", "container.", "k8s.", "launch."))


def _iteration(progress: Progress, first: Incident | None, stage: Stage) -> int | None:
    """The iteration during which it happened: one after the last that was completed."""
    if first is None or progress.last_iteration is None or stage in _BEFORE_TRAINING:
        return None
    done = progress.iteration_at(first.file, first.line, first.time_ns)
    return None if done is None else done + 1


def _symptom(terminal: list[Incident], blame: Blame, stage: Stage, first: Incident | None) -> Symptom:
    if first is None:
        return Symptom.UNKNOWN
    if stage in _BEFORE_TRAINING:
        return Symptom.LAUNCH_FAILURE
    if blame.root is not None and not (blame.root.fault and blame.root.fault.hang):
        return Symptom.CRASH
    proof = _first_proof(terminal)
    waits = proof is not None and proof.fault is not None and proof.fault.hang
    return Symptom.HANG if waits else Symptom.CRASH


def _cause(log: JobLog, blame: Blame, terminal: list[Incident], progress: Progress, ends: EndMarks) -> Cause:
    root = blame.root
    if root is not None and root.fault is not None:
        fault = root.fault
        confidence = 0.9 if blame.suspects or blame.widespread else 0.7
        if fault.echo or fault.weight < 0.8:
            confidence -= 0.2
        cause = fault.cause
        if cause in (CauseClass.USER_CODE, CauseClass.UNKNOWN) and log.shapes[root.shape].frames:
            cause = class_of_exception(fault.id, log.shapes[root.shape], training=progress.last_iteration is not None)
        return Cause(cause, fault.id, round(confidence, 2), _root_summary(fault.summary, blame), fault.advice)
    if root is not None and root.exception is not None:
        shape = log.shapes[root.shape]
        cause = class_of_exception(root.exception, shape, training=progress.last_iteration is not None)
        text = shape.text.strip()[:160]
        return Cause(cause, None, 0.6, _root_summary(text, blame), "Read the traceback at the first line shown.")
    if blame.silent:
        proof = _first_proof(terminal)
        waits = proof is not None and proof.fault is not None and proof.fault.hang
        what = "stopped answering" if waits else "died"
        summary = f"a rank {what} without writing an error; the others only report its absence"
        advice = "Look at that node: kernel log, BMC, power, OOM killer; drain it if nothing explains it."
        return Cause(CauseClass.HARDWARE_NODE, None, 0.6, summary, advice)
    if blame.suspects:
        return Cause(
            CauseClass.NETWORK,
            None,
            0.5,
            "ranks lost the connection to one peer",
            "Check that peer's node and its link.",
        )
    complaint = _first_proof(terminal)
    if complaint is not None and complaint.fault is not None:
        fault = complaint.fault
        summary = f"{fault.summary}; no line tells the cause and no rank differs from the others"
        return Cause(CauseClass.UNKNOWN, fault.id, 0.3, summary, fault.advice)
    if ends.first(Meaning.GAVE_UP):
        return Cause(
            CauseClass.UNKNOWN,
            None,
            0.3,
            "the run ended without reaching its target",
            "Check hyper-parameters and data.",
        )
    return Cause(CauseClass.UNKNOWN, None, 0.0, "no cause found", "")


def _root_summary(text: str, blame: Blame) -> str:
    if blame.widespread:
        return f"{text}; it hits every rank alike, so no node is to blame"
    return text


def _not_failed(
    log: JobLog,
    cast: Cast,
    progress: Progress,
    ends: EndMarks,
    incidents: list[Incident],
    outcome: Outcome,
    counts: LogInput,
) -> LogDiagnosis:
    late = [i for i in incidents if i.late and i.proves_failure]
    stage, iteration, symptom = _last_stage(progress, ends, outcome), None, Symptom.NONE
    cause = Cause(CauseClass.NONE, None, 0.9, "nothing wrong was found", "")
    notes = list(_notes(log, incidents))
    if outcome in (Outcome.CANCELLED, Outcome.TIME_LIMIT):
        what = "hit its time limit" if outcome is Outcome.TIME_LIMIT else "was ended from outside"
        cause = Cause(
            CauseClass.PLATFORM,
            None,
            0.9,
            f"the run {what}; no fault came before",
            "Nothing to repair; ask who ended it, or ask for more time.",
        )
        if progress.last_iteration is not None and stage not in _BEFORE_TRAINING:
            iteration = progress.last_iteration + 1
        if _hung_before_end(progress, ends):
            symptom = Symptom.HANG
            notes.append("no iteration was completed for a long time before the end: the run may have hung")
    elif outcome is Outcome.RUNNING:
        iteration = progress.last_iteration
    elif outcome is Outcome.UNKNOWN:
        symptom = Symptom.UNKNOWN
        cause = Cause(
            CauseClass.UNKNOWN if incidents else CauseClass.NONE, None, 0.0, "the logs do not say how the run ended", ""
        )
    events = build_events(log, cast, late, Blame(None, ()))
    return LogDiagnosis(
        counts, outcome, symptom, stage, iteration, cause, (), events, tuple(notes), build_heat(log, cast)
    )


def _last_stage(progress: Progress, ends: EndMarks, outcome: Outcome) -> Stage:
    if outcome is Outcome.SUCCESS:
        return Stage.SHUTDOWN
    stop = ends.first(Meaning.TIME_LIMIT) or ends.first(Meaning.CANCELLED) or ends.first(Meaning.STOPPED)
    if stop:
        return progress.stage_at(stop.file, stop.line, stop.time_ns)
    stages = [track.stage[-1] for track in progress.tracks if track.stage]
    from llmprism.logs.progress import ORDER

    return max(stages, key=ORDER.index) if stages else Stage.UNKNOWN


def _hung_before_end(progress: Progress, ends: EndMarks) -> bool:
    stop = ends.first(Meaning.TIME_LIMIT, Meaning.CANCELLED, Meaning.STOPPED)
    if stop is None or not stop.time_ns or not progress.step_ns or not progress.last_ns:
        return False
    pause = stop.time_ns - progress.last_ns
    return pause > _HANG_NS and pause > _HANG_STEPS * progress.step_ns


def _notes(log: JobLog, incidents: list[Incident]) -> tuple[str, ...]:
    notes: list[str] = []
    late = [i for i in incidents if i.late and i.proves_failure]
    if late:
        first = late[0]
        where = f"{log.files[first.file].name}:{first.line}"
        notes.append(f"{len(late)} kinds of error lines came after the run had ended well, first at {where}: no alarm")
    survived = [i for i in incidents if not i.terminal and not i.late and i.proves_failure]
    if survived:
        first = survived[0]
        where = f"{log.files[first.file].name}:{first.line}"
        notes.append(f"{len(survived)} kinds of error lines were survived by the run, first at {where}")
    warnings = [i for i in incidents if i.role is FaultRole.WARNING and i.fault]
    for incident in warnings[:5]:
        assert incident.fault is not None  # noqa: S101
        notes.append(f"{incident.fault.summary} ({log.files[incident.file].name}:{incident.line})")
    return tuple(notes)
