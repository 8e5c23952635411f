"""A report of the flows and the logs of its jobs → one report whose findings name one cause each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from llmprism.logs.library import Library, load_library
from llmprism.logs.reader import read_job
from llmprism.logs.view import JobView, view_job, view_log
from llmprism.model.finding import Finding, FindingKind
from llmprism.model.job import JobState
from llmprism.model.report import JobReport, Report
from llmprism.model.verdict import LogJob, LogQuote, LogReading, NamedSuspect, Seat, Source, Verdict
from llmprism.verdict.case import JobCase, Judged, cause_of_kind, owner_of
from llmprism.verdict.ending import judge_ending
from llmprism.verdict.fingerprint import step_differences
from llmprism.verdict.folders import LogFolder, divided
from llmprism.verdict.layout_orders import mesh_signs
from llmprism.verdict.log_clock import host_clocks
from llmprism.verdict.matching import Match, match_logs
from llmprism.verdict.numbers import judge_numbers
from llmprism.verdict.quotes import quotes_of
from llmprism.verdict.rank_file import RankList
from llmprism.verdict.rules import RULES, VerdictRules
from llmprism.verdict.seats import FlowMembers, find_seats, host_of
from llmprism.verdict.slowness import judge_slowness

__all__ = ["LogSources", "LoggedJob", "read_logs", "read_together"]

_JUDGES: Final = (judge_ending, judge_slowness, judge_numbers)
"""Every judge, in the order in which they see a case."""

_STATE_OF: Final = {FindingKind.CRASH: JobState.CRASHED, FindingKind.HANG: JobState.HUNG}


@dataclass(frozen=True, slots=True)
class LogSources:
    """Where the logs of some jobs are, and a list of who is where."""

    folders: tuple[LogFolder, ...]
    listed: RankList | None = None


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """The logs of one job as they were read; `job` is the id that the user gave for them, if any."""

    name: str
    view: JobView
    job: str | None = None


def read_logs(folders: Sequence[LogFolder], library: Library | None = None) -> list[LoggedJob]:
    """Read the logs of every job, one after the other."""
    entries = library or load_library()
    return [one for folder in folders for one in _read_folder(folder, entries)]


def _read_folder(folder: LogFolder, library: Library) -> list[LoggedJob]:
    if not folder.archive:
        view = view_job([folder.path], library=library, only=folder.only)
        return [LoggedJob(folder.name, view, folder.job)]
    log = read_job([folder.path], library)
    parts = divided(folder, [file.name for file in log.files])
    if len(parts) == 1:
        return [LoggedJob(folder.name, view_log(log), folder.job)]
    del log
    return [one for part in parts for one in _read_folder(part, library)]


def read_together(
    report: Report, logged: Sequence[LoggedJob], listed: RankList | None = None, rules: VerdictRules = RULES
) -> Report:
    """The report with findings merged with what the logs say, and the reading of the logs.

    Findings of jobs without logs stay as they are.
    """
    matches = match_logs([(one.view, one.job) for one in logged], report, rules)
    pairs = list(zip(logged, matches, strict=True))
    cases = [_case(number, one, match, report, listed, rules) for number, (one, match) in enumerate(pairs)]
    cases = [replace(case, followed_ns=_next_attempt(case, cases)) for case in cases]
    judged: list[Judged] = []
    used: set[int] = set()
    notes: list[str] = []
    quotes: list[LogQuote] = []
    states: dict[str, JobState] = {}
    for case in cases:
        first = len(quotes)
        quotes += quotes_of(case)
        for judge in _JUDGES:
            result = judge(case)
            # a finding that the logs of an earlier attempt explained is not explained again
            fresh = [one for one in result.judged if one.verdict.flows is None or id(one.verdict.flows) not in used]
            judged += [_moved(one, first) for one in fresh]
            used |= {id(finding) for finding in result.used}
            notes += result.notes
            states |= _states(case, fresh, result.used)
        notes += _noise(case)
    rest = [_of_flows(finding, cases, rules) for finding in report.findings if id(finding) not in used]
    everything = sorted(rest + judged, key=lambda one: _order(one, report))
    reading = LogReading(
        tuple(_log_job(case, match) for case, match in zip(cases, matches, strict=True)),
        tuple(one.verdict for one in everything),
        tuple(quotes),
        tuple(dict.fromkeys(notes)),
    )
    jobs = tuple(replace(job, state=states.get(job.job.id, job.state)) for job in report.jobs)
    return replace(
        report,
        jobs=jobs,
        findings=tuple(one.finding for one in everything),
        notes=tuple(dict.fromkeys((*report.notes, *reading.notes))),
        reading=reading,
    )


def _case(
    number: int, logged: LoggedJob, match: Match, report: Report, listed: RankList | None, rules: VerdictRules
) -> JobCase:
    view = logged.view
    if match.job is None:
        hosts = host_of(view, _unseated(view), None)
        return JobCase(number, logged.name, view, report, seats=_unseated(view), hosts=hosts, rules=rules)
    job = report.jobs[match.job]
    addresses = tuple(report.addresses[member] for member in job.job.members)
    fit = match.fit
    trusted = fit is not None and fit.trusted
    apart = None
    if fit is not None and trusted:
        apart = step_differences(view.ranks, job.timeline.member_end_ns, fit, rules.seats)
    mesh = mesh_signs(job.layout, report.addresses)
    seats = find_seats(view, FlowMembers(addresses, report.topology, listed, apart, rules.seats, mesh))
    hosts = host_of(view, seats, report.topology)
    fit = fit if trusted else None
    clocks = host_clocks(view, job.timeline.steps, fit, hosts) if fit is not None else ()
    return JobCase(number, logged.name, view, report, job, fit, seats, hosts, clocks, match.zone_ns, rules=rules)


def _next_attempt(case: JobCase, cases: Sequence[JobCase]) -> int | None:
    """When the next attempt of the same job of which there are logs counted its first iteration."""
    begin, _ = case.log_span()
    if case.job is None or begin is None:
        return None
    own = case.job.job.id
    others = [one.log_span()[0] for one in cases if one.job is not None and one.job.job.id == own]
    return min((other for other in others if other is not None and other > begin), default=None)


def _unseated(view: JobView) -> tuple[Seat, ...]:
    return tuple(Seat(rank.rank, rank.node, None, 0.0, "the logs belong to no job of the flows") for rank in view.ranks)


def _moved(judged: Judged, first: int) -> Judged:
    """With quotes counted over all logs instead of over one job's."""
    verdict = judged.verdict
    return replace(judged, verdict=replace(verdict, quotes=tuple(first + at for at in verdict.quotes)))


def _states(case: JobCase, judged: list[Judged], used: list[Finding]) -> dict[str, JobState]:
    """The job's state after the verdict: that of its last stop, or ended where a stop was withdrawn."""
    if case.job is None:
        return {}
    ends = {one.finding.kind: one.finding for one in judged if one.finding.kind in _STATE_OF}
    for kind, finding in ends.items():
        if finding.end_ns is None:
            return {case.job.job.id: _STATE_OF[kind]}
    withdrawn = any(finding.kind in _STATE_OF and finding.end_ns is None for finding in used) and not ends
    return {case.job.job.id: JobState.ENDED} if withdrawn else {}


def _noise(case: JobCase) -> list[str]:
    """A run that goes on though its logs are full of errors."""
    lines = [line for line in case.view.lines if line.survived and line.role in ("root", "cascade", "error")]
    count = sum(line.count for line in lines)
    if not count or case.job is None or case.job.timeline.steps.count < case.rules.slowness.change_steps:
        return []
    times = [when for line in lines if (when := case.line_time(line)) is not None]
    ends = case.job.timeline.steps.end_ns
    text = f"{case.name}: {count} error lines that the run survived"
    if times:
        lengths, after = np.diff(ends), ends[1:] > min(times)
        if min(after.sum(), (~after).sum()) >= case.rules.slowness.change_sides:
            ratio = float(np.median(lengths[after]) / max(np.median(lengths[~after]), 1))
            text += f"; the flows show steps of {ratio:.2f} times their length since the first"
    return [text]


def _of_flows(finding: Finding, cases: Sequence[JobCase], rules: VerdictRules) -> Judged:
    """A finding that no log bears on."""
    cause = cause_of_kind(finding, rules.slowness)
    place = finding.where.id if isinstance(finding.where.id, str) else None
    suspects = (NamedSuspect(place, None, None, round(finding.confidence, 3), "flows"),) if place else ()
    number = next((case.number for case in cases if case.job is not None and case.job.job.id == finding.job), None)
    return Judged(
        finding,
        Verdict(Source.FLOWS, cause, owner_of(cause.cause_class), log_job=number, suspects=suspects, flows=finding),
    )


def _order(judged: Judged, report: Report) -> tuple[int, int]:
    """The order of the flows' findings; those of the logs alone after them, by time."""
    flows = judged.verdict.flows
    places = {id(finding): at for at, finding in enumerate(report.findings)}
    return places.get(id(flows), len(places)) if flows is not None else len(places), judged.finding.start_ns


def _log_job(case: JobCase, match: Match) -> LogJob:
    found = case.diagnosis
    job: JobReport | None = case.job
    members = {case.report.addresses[member] for member in job.job.members} if job is not None else set()
    taken = {seat.address for seat in case.seats}
    return LogJob(
        name=case.name,
        job=job.job.id if job is not None else None,
        confidence=match.confidence,
        why=match.why,
        input=found.input,
        outcome=found.outcome,
        symptom=found.symptom,
        stage=found.stage,
        iteration=found.iteration,
        cause=found.cause,
        iteration_shift=case.fit.shift if case.fit is not None and case.fit.stride == 1 else None,
        seats=case.seats,
        unmatched=tuple(sorted(members - taken)),
        clocks=case.clocks,
        notes=found.notes,
    )
