"""The published L4 rules (arXiv 2503.20263), as a baseline: `llmprism logs diagnose --method l4`.

Drain templates; events that successful jobs of the same kind print often are dropped; an Isolation Forest over the
actors' event counts ranks them; the stage comes from marker lines; every iteration's sequence of events is compared by
dynamic time warping with the ten before it, and the first whose likeness lies below mean - 3 sigma of those before is
reported; the fault library is looked up first. No roles, no consequences, no accusations: what the paper says and no
more. L4 is given jobs that failed; it does not decide whether one did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Int64
from llmprism.kernel_cache import compiled
from llmprism.logs.isolation import isolation_scores
from llmprism.logs.joblog import JobLog, LineTable
from llmprism.logs.library import FaultRole
from llmprism.logs.members import LogMembers, identify_members
from llmprism.logs.progress import Progress, measure_progress
from llmprism.logs.reference import Reference
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.shapes import LogLevel, ShapeFlag
from llmprism.logs.templates import group_shapes
from llmprism.model.log import (
    Cause,
    CauseClass,
    EventRole,
    LogDiagnosis,
    LogEvent,
    LogInput,
    LogLine,
    Outcome,
    Stage,
    Suspect,
    Symptom,
)

__all__ = ["LOOK_BACK", "L4Verdict", "diagnose_by_l4", "l4_verdict", "odd_iteration"]

LOOK_BACK: Final = 10
"""Iterations before the current one that it is compared with, as in the paper."""

SIGMAS: Final = 3.0
FREQUENT_SHARE: Final = 0.5
"""Share of the reference runs from which an event is frequent in successful jobs; the paper does not give its value."""

MAX_SEQUENCE: Final = 200
"""Events of one iteration that are compared: warping is quadratic in it."""

RANKED: Final = 8


@dataclass(frozen=True, slots=True)
class L4Verdict:
    """`shapes` are those of the lines reported as indicating the failure; `actors` are ranked, the worst first."""

    shapes: frozenset[int]
    actors: tuple[int, ...]
    scores: tuple[float, ...]
    stage: Stage
    iteration: int | None


@compiled
def _warping_distance(one: Int64, other: Int64) -> float:
    """Dynamic time warping of two event sequences, per step of the longer."""
    if one.size == 0 or other.size == 0:
        return 1.0
    before = np.full(other.size + 1, np.inf)
    before[0] = 0.0
    for i in range(one.size):
        now = np.full(other.size + 1, np.inf)
        for j in range(other.size):
            cost = 0.0 if one[i] == other[j] else 1.0
            now[j + 1] = cost + min(before[j + 1], now[j], before[j])
        before = now
    return float(before[other.size]) / max(one.size, other.size)


def odd_iteration(sequences: list[Int64]) -> int | None:
    """The first sequence that is unlike the ten before it, by the paper's 3 sigma; None where all are alike."""
    history: list[float] = []
    for number, sequence in enumerate(sequences):
        before = sequences[max(0, number - LOOK_BACK) : number]
        if not before:
            continue
        likeness = 1.0 - float(np.mean([_warping_distance(sequence, other) for other in before]))
        recent = history[-LOOK_BACK:]
        if len(recent) >= 3 and likeness < np.mean(recent) - SIGMAS * max(float(np.std(recent)), 1e-3):
            return number
        history.append(likeness)
    return None


def l4_verdict(
    log: JobLog, lines: LineTable, members: LogMembers, progress: Progress, reference: Reference | None
) -> L4Verdict:
    kept = _kept_shapes(log, reference)
    events = _event_of_shape(log)
    actors, scores = _ranked(log, members, kept, events)
    first = np.flatnonzero(np.isin(lines.shape, list(kept)))[:1]
    stage = Stage.UNKNOWN
    if first.size:
        file, line = int(lines.file[first[0]]), int(lines.line[first[0]])
        stage = progress.stage_at(file, line, 0)
    return L4Verdict(frozenset(kept), actors, scores, stage, _odd_iteration_of(lines, events, progress))


def _kept_shapes(log: JobLog, reference: Reference | None) -> set[int]:
    """Events that successful jobs do not print often; without a reference, lines of warnings and errors."""
    if reference is None or not reference.runs:
        return {
            number
            for number, shape in enumerate(log.shapes)
            if shape.level >= LogLevel.WARNING or shape.flags & ShapeFlag.EXCEPTION or shape.fault is not None
        }
    usual = {key for key, known in reference.known.items() if known.runs >= FREQUENT_SHARE * reference.runs}
    return {number for number, shape in enumerate(log.shapes) if shape.key not in usual}


def _event_of_shape(log: JobLog) -> Int64:
    groups = group_shapes(shape.template for shape in log.shapes)
    numbers: dict[int, int] = {}
    return np.array(
        [numbers.setdefault(id(groups[shape.template]), len(numbers)) for shape in log.shapes], dtype=np.int64
    )


def _ranked(
    log: JobLog, members: LogMembers, kept: set[int], events: Int64
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    if not members.actors or not kept:
        return (), ()
    pairs = np.flatnonzero(np.isin(log.pair_shape, list(kept)) & (members.actor_of_writer[log.pair_writer] >= 0))
    columns, column = np.unique(events[log.pair_shape[pairs]], return_inverse=True)
    counts = np.zeros((len(members.actors), columns.size))
    np.add.at(counts, (members.actor_of_writer[log.pair_writer[pairs]], column), log.pair_count[pairs])
    scores = isolation_scores(counts)
    order = np.argsort(-scores, kind="stable")
    return tuple(order.tolist()), tuple(scores[order].tolist())


def _odd_iteration_of(lines: LineTable, events: Int64, progress: Progress) -> int | None:
    numbers = np.zeros(lines.line.size, dtype=np.int64)
    for file, track in enumerate(progress.tracks):
        own = np.flatnonzero(lines.file == file)
        if own.size and track.line.size:
            place = np.searchsorted(track.line, lines.line[own], side="right") - 1
            numbers[own] = np.where(place >= 0, track.value[np.maximum(place, 0)], 0)
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] > 0]
    if not order.size:
        return None
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    parts = np.split(order, cuts)
    found = odd_iteration([events[lines.shape[part[:MAX_SEQUENCE]]] for part in parts])
    return int(numbers[parts[found if found is not None else -1][0]]) + 1


def diagnose_by_l4(
    log: JobLog, lines: LineTable, reference: Reference | None = None, rules: LogRules = RULES
) -> LogDiagnosis:
    """L4's answer in the form of ours."""
    members, progress = identify_members(log), measure_progress(log, rules)
    verdict = l4_verdict(log, lines, members, progress, reference)
    ranking = tuple(
        Suspect(members.actors[a].rank, members.actors[a].node, round(score, 3), "its event counts are isolated (L4)")
        for a, score in zip(verdict.actors[:RANKED], verdict.scores, strict=False)
    )
    counts = LogInput(
        len(log.files), log.lines, sum(a.rank is not None for a in members.actors), len(members.nodes), log.bytes,
        log.dropped.as_tuple(),
    )  # fmt: skip
    return LogDiagnosis(
        counts,
        Outcome.FAILED if verdict.shapes else Outcome.UNKNOWN,
        Symptom.UNKNOWN,
        verdict.stage,
        verdict.iteration,
        _library_cause(log),
        ranking,
        _events(log, verdict),
        ("by the published L4 rules, which take it for granted that the job failed",),
        ranking=ranking,
    )


def _library_cause(log: JobLog) -> Cause:
    """The library is looked up first: the heaviest root entry that any line matches."""
    roots = [shape.fault for shape in log.shapes if shape.fault is not None and shape.fault.role is FaultRole.ROOT]
    if not roots:
        return Cause(CauseClass.UNKNOWN, None, 0.0, "no pattern of the library matches", "")
    fault = max(roots, key=lambda entry: entry.weight)
    return Cause(fault.cause, fault.id, 0.5, fault.summary, fault.advice)


def _events(log: JobLog, verdict: L4Verdict) -> tuple[LogEvent, ...]:
    events = []
    for number in sorted(verdict.shapes):
        shape = log.shapes[number]
        if shape.place is None:
            continue
        line = LogLine(log.files[shape.place.file].name, shape.place.line, shape.place.text[:1000])
        signature = shape.fault.id if shape.fault else None
        events.append(
            LogEvent(shape.template[:400], int(log.count[number]), (), None, line, 0.5, EventRole.SYMPTOM, signature)
        )
    return tuple(events[:60])
