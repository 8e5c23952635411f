"""One job's logs → one diagnosis: outcome, symptom, stage, iteration, cause, suspects, ranking, signs, events.

The steps, each in its own file: read (reader), who (members), how far (progress), what was said (incidents), what the
numbers show (signs), how it ended (outcome), who is to blame (suspects, ranking), why (causes and the library). This
file puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from llmprism.logs.causes import explain_failure
from llmprism.logs.incidents import EndMarks, Incident, Normality, find_end_marks, find_incidents
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import FaultRole, Library, load_library
from llmprism.logs.log_events import build_events, build_heat
from llmprism.logs.members import LogMembers, identify_members
from llmprism.logs.outcome import (
    decide_outcome,
    failure_iteration,
    failure_stage,
    failure_symptom,
    first_proof,
    last_stage,
    quiet_confidence,
)
from llmprism.logs.progress import NOT_YET_TRAINING, Progress, measure_progress
from llmprism.logs.ranking import rank_members, rank_nodes
from llmprism.logs.reader import read_job
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.sequences import Lag, find_lags
from llmprism.logs.signs import find_signs
from llmprism.logs.suspects import Blame, find_blame
from llmprism.model.log import (
    Cause,
    CauseClass,
    LogDiagnosis,
    LogInput,
    Outcome,
    Sign,
    SignKind,
    Stage,
    Suspect,
    Symptom,
)

__all__ = ["Expected", "diagnose_log", "diagnose_paths"]

_ADVICE: Final = {
    SignKind.HANG: "Take stacks of that rank (py-spy dump), look at its GPU and at the kernel log of its node.",
    SignKind.SLOW: "Compare clocks, temperatures and link counters of the nodes since that iteration.",
    SignKind.NAN: "Go back to the checkpoint before it; check data and learning rate; rerun the step on other GPUs.",
    SignKind.DIVERGED: "Look at data and learning rate at that iteration; go back to a checkpoint before it.",
    SignKind.LOSS_SCALE: "Every step overflows: check data and weights for NaN, lower the learning rate, or use bf16.",
}
_SYMPTOM: Final = {SignKind.HANG: Symptom.HANG, SignKind.SLOW: Symptom.SLOW}


class Expected(StrEnum):
    """What the user says happened to the job."""

    FAILED = "failed"
    HUNG = "hung"
    SLOW = "slow"


_EXPECTED_SIGN: Final = {Expected.HUNG: SignKind.HANG, Expected.SLOW: SignKind.SLOW}


@dataclass(frozen=True, slots=True)
class _LogFacts:
    """Everything known of a job before it is judged."""

    log: JobLog
    members: LogMembers
    progress: Progress
    ends: EndMarks
    incidents: list[Incident]
    lags: list[Lag]
    signs: list[Sign]
    expected: Expected | None
    rules: LogRules

    @property
    def terminal(self) -> list[Incident]:
        return [i for i in self.incidents if i.terminal]

    @property
    def lasting(self) -> list[Sign]:
        """Signs of trouble that was there until the end of the logs."""
        return [sign for sign in self.signs if sign.lasts]

    @property
    def counts(self) -> LogInput:
        ranks = sum(actor.rank is not None for actor in self.members.actors)
        log = self.log
        return LogInput(len(log.files), log.lines, ranks, len(self.members.nodes), log.bytes, log.dropped.as_tuple())


def diagnose_paths(
    paths: list[Path],
    *,
    library: Library | None = None,
    normal: Normality | None = None,
    expected: Expected | None = None,
    rules: LogRules = RULES,
) -> LogDiagnosis:
    """Read the logs of one job and diagnose them."""
    return diagnose_log(read_job(paths, library or load_library()), normal=normal, expected=expected, rules=rules)


def diagnose_log(
    log: JobLog,
    *,
    normal: Normality | None = None,
    expected: Expected | None = None,
    rules: LogRules = RULES,
) -> LogDiagnosis:
    members = identify_members(log)
    progress = measure_progress(log, rules)
    ends = find_end_marks(log, progress)
    incidents = find_incidents(log, members, progress, ends, normal)
    lags = find_lags(log, members)
    sign = _EXPECTED_SIGN.get(expected) if expected else None
    signs = find_signs(log, members, progress, lags, rules, expected=sign)
    case = _LogFacts(log, members, progress, ends, incidents, lags, signs, expected, rules)
    outcome = decide_outcome(log, members, progress, ends, incidents, rules)
    return _failed(case) if outcome is Outcome.FAILED else _not_failed(case, outcome)


def _failed(case: _LogFacts) -> LogDiagnosis:
    log, progress, terminal = case.log, case.progress, case.terminal
    blame = find_blame(log, case.members, terminal, case.lags, progress.step_ns, case.rules)
    if blame.root is None and not blame.suspects:
        blame = _with_precursor(blame, case)
    first = blame.root or first_proof(terminal)
    stage = failure_stage(log, progress, case.ends, first, blame, terminal, case.rules)
    symptom = failure_symptom(terminal, blame, stage, first, case.members)
    cause = explain_failure(log, blame, terminal, progress, case.ends, case.rules)
    return _finished(
        case,
        outcome=Outcome.FAILED,
        symptom=symptom,
        stage=stage,
        iteration=failure_iteration(progress, first, stage),
        cause=cause,
        suspects=blame.suspects,
        shown=terminal,
        blame=blame,
        notes=_notes(case),
    )


def _finished(
    case: _LogFacts,
    *,
    outcome: Outcome,
    symptom: Symptom,
    stage: Stage,
    iteration: int | None,
    cause: Cause,
    suspects: tuple[Suspect, ...],
    shown: Iterable[Incident],
    blame: Blame,
    notes: list[str],
) -> LogDiagnosis:
    wrong = cause.cause_class is not CauseClass.NONE
    ranking = rank_members(case.log, case.members, case.progress, case.terminal, suspects, case.rules) if wrong else ()
    return LogDiagnosis(
        case.counts,
        outcome,
        symptom,
        stage,
        iteration,
        cause,
        suspects,
        build_events(case.log, case.members, list(shown), blame, case.rules),
        tuple(notes),
        build_heat(case.log, case.members),
        tuple(case.signs),
        ranking,
        rank_nodes(ranking, case.rules),
    )


def _with_precursor(blame: Blame, case: _LogFacts) -> Blame:
    """A hardware or network line that the run survived for a while may still be the cause of the complaints."""
    terminal = case.terminal
    first = next((i for i in terminal if i.proves_failure and i.time_ns), None)
    if first is None:
        return blame
    early = [incident for incident in case.incidents if _may_precede(incident, first, case.rules)]
    broken = {one.actor for one in early if one.fault is not None and one.fault.cause.value.startswith("hardware")}
    for incident in early:
        # where many write of broken hardware and go on, such lines are no sign of anything
        others = len(broken - {incident.actor, -1})
        if not others or (others + 1) / (len(case.members.actors) + 1) <= case.rules.noise_share:
            widened = [replace(incident, terminal=True), *terminal]
            found = find_blame(case.log, case.members, widened, case.lags, case.progress.step_ns, case.rules)
            if found.root is not None:
                return found
    return blame


def _may_precede(incident: Incident, first: Incident, rules: LogRules) -> bool:
    """Whether the run survived it, and it may have led to the first complaint."""
    fault = incident.fault
    if incident.terminal or incident.late or fault is None or fault.role is not FaultRole.ROOT or fault.echo:
        return False
    near = 0 <= first.time_ns - incident.time_ns <= rules.precursor_ns
    return near and fault.cause.value.split(".")[0] in ("hardware", "network", "storage")


def _not_failed(case: _LogFacts, outcome: Outcome) -> LogDiagnosis:
    stage = last_stage(case.progress, case.ends, outcome)
    confidence, doubts = quiet_confidence(case.log, case.progress, case.ends, outcome, case.rules)
    judged = _judge(case, outcome, stage, confidence)
    cause, symptom = judged.cause, judged.symptom
    if case.expected is not None and cause.cause_class is CauseClass.NONE:
        ranked = rank_members(case.log, case.members, case.progress, case.terminal, judged.suspects, case.rules)
        cause, symptom = _as_expected(case.expected, case.rules, ranked=bool(ranked))
    passed = [f"{sign.summary}, and back to normal" for sign in case.signs if not sign.lasts]
    return _finished(
        case,
        outcome=outcome,
        symptom=symptom,
        stage=stage,
        iteration=judged.iteration,
        cause=cause,
        suspects=judged.suspects,
        shown=[i for i in case.incidents if i.late and i.proves_failure],
        blame=Blame(None, ()),
        notes=[*doubts, *_notes(case), *judged.notes, *passed],
    )


@dataclass(frozen=True, slots=True)
class _Assessment:
    """What is said of a run that did not fail."""

    cause: Cause
    symptom: Symptom = Symptom.NONE
    iteration: int | None = None
    suspects: tuple[Suspect, ...] = ()
    notes: tuple[str, ...] = ()


def _judge(case: _LogFacts, outcome: Outcome, stage: Stage, confidence: float) -> _Assessment:
    """The signs of trouble that last decide, each outcome in its way; where there are none, nothing is wrong."""
    nothing = _Assessment(Cause(CauseClass.NONE, None, confidence, "nothing wrong was found", ""))
    if outcome in (Outcome.CANCELLED, Outcome.TIME_LIMIT):
        return _ended_from_outside(case, outcome, stage)
    if outcome is Outcome.SUCCESS:  # it may have hung or been slow on its way, but its result is spoilt by NaN only
        return _by_sign(case, [sign for sign in case.lasting if sign.kind is SignKind.NAN], nothing)
    if outcome is Outcome.RUNNING:
        since = case.lasting[0].iteration if case.lasting else None
        iteration = case.progress.last_iteration if since is None else since
        return _by_sign(case, case.lasting, replace(nothing, iteration=iteration))
    return _by_sign(case, case.lasting, _end_unknown(case))


def _ended_from_outside(case: _LogFacts, outcome: Outcome, stage: Stage) -> _Assessment:
    what = "hit its time limit" if outcome is Outcome.TIME_LIMIT else "was ended from outside"
    advice = "Nothing to repair; ask who ended it, or for more time."
    summary = f"the run {what}; no fault came before"
    cause = Cause(CauseClass.PLATFORM, None, case.rules.confidence.ended_from_outside, summary, advice)
    done = case.progress.last_iteration
    iteration = None if done is None or stage in NOT_YET_TRAINING else done + 1
    if not case.lasting:
        return _Assessment(cause, iteration=iteration)
    sign = case.lasting[0]
    symptom = _SYMPTOM.get(sign.kind, Symptom.NONE)
    return _Assessment(cause, symptom, iteration, notes=(f"before it ended: {sign.summary}",))


def _end_unknown(case: _LogFacts) -> _Assessment:
    unclear = CauseClass.UNKNOWN if case.incidents or case.lasting else CauseClass.NONE
    cause = Cause(unclear, None, 0.0, "the logs do not say how the run ended", "")
    last = case.progress.last_iteration
    if last is None or not case.terminal:
        return _Assessment(cause, Symptom.UNKNOWN)
    note = f"all ranks completed iteration {last} and left their loop; then they lost one another"
    return _Assessment(cause, Symptom.UNKNOWN, notes=(note,))


def _by_sign(case: _LogFacts, signs: list[Sign], otherwise: _Assessment) -> _Assessment:
    """By the first of the signs, where there is one."""
    if not signs:
        return otherwise
    cause, symptom, suspects = _from_sign(signs[0], case)
    return replace(otherwise, cause=cause, symptom=symptom, suspects=suspects)


def _from_sign(sign: Sign, case: _LogFacts) -> tuple[Cause, Symptom, tuple[Suspect, ...]]:
    """The verdict on a running job whose numbers show trouble; a hardware line near its beginning may be the cause."""
    symptom = _SYMPTOM.get(sign.kind, Symptom.UNKNOWN)
    cause = Cause(CauseClass.UNKNOWN, f"sign.{sign.kind.value}", sign.confidence, sign.summary, _ADVICE[sign.kind])
    for incident in case.incidents:
        fault = incident.fault
        if fault is None or incident.late or fault.role is FaultRole.CASCADE or fault.echo:
            continue
        near = sign.time_ns and incident.time_ns and abs(sign.time_ns - incident.time_ns) <= case.rules.precursor_ns
        if near and fault.cause.value.split(".")[0] in ("hardware", "network", "storage"):
            summary = f"{sign.summary}; {fault.summary}"
            confidence = min(sign.confidence, case.rules.confidence.hardware_near_a_sign)
            cause = Cause(fault.cause, fault.id, confidence, summary, fault.advice)
            break
    return cause, symptom, sign.suspects


_WITHOUT_A_SIGN: Final = {
    Expected.FAILED: "Look at the kernel logs of the nodes and at the scheduler's record of the job.",
    Expected.HUNG: "Take stacks of all ranks (py-spy dump) while it hangs; flow records of that time show who stopped "
    "first.",
    Expected.SLOW: "Look at the flow records of that time: they show which GPU, NIC or switch the others waited for.",
}
"""Where to look when nothing in the logs distinguishes one rank from another."""


def _as_expected(expected: Expected, rules: LogRules, *, ranked: bool) -> tuple[Cause, Symptom]:
    """The user knows that something happened which the logs do not show; `ranked`: some ranks differ from others."""
    symptom = {Expected.HUNG: Symptom.HANG, Expected.SLOW: Symptom.SLOW}.get(expected, Symptom.UNKNOWN)
    summary = f"the job is said to have {'hung' if expected is Expected.HUNG else 'failed'}; its logs do not show why"
    if expected is Expected.SLOW:
        summary = "the job is said to be slow; its logs show no change of pace"
    advice = _WITHOUT_A_SIGN[expected]
    if ranked:
        advice = f"Begin with the ranks that differ from the others (listed by suspicion). {advice}"
    return Cause(CauseClass.UNKNOWN, None, rules.confidence.only_said, summary, advice), symptom


def _notes(case: _LogFacts) -> list[str]:
    log, incidents = case.log, case.incidents
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
        assert incident.fault is not None  # noqa: S101 (filtered above)
        notes.append(f"{incident.fault.summary} ({log.files[incident.file].name}:{incident.line})")
    return notes
