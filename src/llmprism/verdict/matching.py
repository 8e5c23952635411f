"""Which logs belong to which job of the flows.

For every pair the evidence is added up in nats: addresses and hosts that the logs name, the number of ranks, whether
the times overlap, and whether the steps have the same length and vary alike (`log_clock`), which two runs do not do by
chance. The best pairs are taken first. Several logs may belong to one job, one after the other: attempts of a job
that was restarted. What fits nothing belongs to no job of these flows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmprism.errors import UsageError
from llmprism.logs.view import JobView
from llmprism.model.report import JobReport, Report
from llmprism.verdict.log_clock import ZONE_NS, ClockFit, fit_clock
from llmprism.verdict.rules import RULES, VerdictRules
from llmprism.verdict.seats import short_host

__all__ = ["Match", "match_logs"]


@dataclass(frozen=True, slots=True)
class Match:
    """`job` is the index into the report's jobs, None where the logs belong to none. `zone_ns` is how far the log's
    times are off as whole time zones, by the time that both cover."""

    job: int | None
    confidence: float
    why: str
    fit: ClockFit | None = None
    zone_ns: int = 0


def match_logs(views: list[tuple[JobView, str | None]], report: Report, rules: VerdictRules = RULES) -> list[Match]:
    """A match for every view; second, the job's id that the user gave for it."""
    scores = [_scores(view, report, given, rules) for view, given in views]
    matches: list[Match | None] = [None] * len(views)
    for number, (_, given) in enumerate(views):
        if given is not None:
            job = _by_id(report, given)
            fit, zone = scores[number][job][2], _zone(views[number][0], report, rules)
            matches[number] = Match(job, 1.0, "the job was given with the logs", fit, zone)
    pairs = sorted(
        ((score, v, j) for v, row in enumerate(scores) for j, (score, _, _) in enumerate(row)),
        key=lambda item: -item[0],
    )
    for score, v, j in pairs:
        if matches[v] is not None or score < rules.match.least or not _free(j, v, matches, views):
            continue
        _, why, fit = scores[v][j]
        others = [scores[v][other][0] for other in range(len(report.jobs)) if other != j]
        others += [scores[other][j][0] for other in range(len(views)) if other != v and not _apart(views, v, other)]
        rival = max([0.0, *others])
        matches[v] = Match(
            j, round(1 / (1 + math.exp(-(score - rival))), 3), why, fit, _zone(views[v][0], report, rules)
        )
    return [match or Match(None, 0.0, "no job of the flows fits these logs") for match in matches]


def _by_id(report: Report, given: str) -> int:
    ids = [job.job.id for job in report.jobs]
    found = [at for at, name in enumerate(ids) if name == given] or [
        at for at, name in enumerate(ids) if name.startswith(given) or name.removeprefix("job-").startswith(given)
    ]
    if len(found) != 1:
        known = ", ".join(ids[:8]) or "none"
        raise UsageError(f"--logs {given}=...: the flows have no such job; their jobs: {known}")
    return found[0]


def _free(job: int, view: int, matches: list[Match | None], views: list[tuple[JobView, str | None]]) -> bool:
    """Whether the job can have these logs too: it has none yet, or those of another time."""
    taken = [other for other, match in enumerate(matches) if match is not None and match.job == job]
    return all(_apart(views, view, other) for other in taken)


def _apart(views: list[tuple[JobView, str | None]], one: int, other: int) -> bool:
    """Whether two logs are of one job's attempts: as many ranks, and one began when the other had ended."""
    a, b = views[one][0], views[other][0]
    spans = [_span(a), _span(b)]
    if len(a.ranks) != len(b.ranks) or None in spans:
        return False
    (low_a, high_a), (low_b, high_b) = (span for span in spans if span is not None)
    return high_a <= low_b or high_b <= low_a


def _span(view: JobView) -> tuple[int, int] | None:
    """First and last iteration by the log's clock."""
    first = [rank.first_ns for rank in view.ranks if rank.first_ns]
    last = [int(rank.iteration_ns.max()) for rank in view.ranks if rank.iteration_ns.size and rank.iteration_ns.any()]
    return (min(first), max(last)) if first and last else None


_Score = tuple[float, str, ClockFit | None]


def _scores(view: JobView, report: Report, given: str | None, rules: VerdictRules) -> list[_Score]:
    """Evidence for every job. Clocks are compared only where what is cheap to know leaves the question open."""
    cheap = [_names_and_sizes(view, job, report, rules) for job in report.jobs]
    best = max((score for score, _ in cheap), default=0.0)
    scores: list[_Score] = []
    for job, (score, words) in zip(report.jobs, cheap, strict=True):
        open_question = score >= best - rules.match.decided or (given is not None and job.job.id.endswith(given))
        fit = fit_clock(view, job.timeline.steps, rules.clock) if open_question else None
        points, text = _clock_points(view, fit, report, rules)
        words = [*words, text] if text else words
        said = "both show " + ", ".join(words) if words else "nothing in common"
        scores.append((score + points + rules.match.given_together, said, fit))
    return scores


def _names_and_sizes(view: JobView, job: JobReport, report: Report, rules: VerdictRules) -> tuple[float, list[str]]:
    """Evidence in nats, and in words, of the addresses and hosts that the logs name and of the number of ranks."""
    words: list[str] = []
    worth = rules.match
    members = {report.addresses[member] for member in job.job.members}
    printed = {address for rank in view.ranks for address in rank.addresses}
    here, elsewhere = len(printed & members), len((printed & set(report.addresses)) - members)
    score = min(worth.address * here, worth.address_cap)
    score -= min(worth.address * elsewhere, worth.address_cap)
    if here:
        words.append("the same address" if here == 1 else f"the same {here} addresses")
    named = {address for rank in view.ranks for address in rank.named} & members
    score += min(worth.host * len(named), worth.host_cap)
    if named and not here:
        words.append(
            "an address that the logs name" if len(named) == 1 else f"{len(named)} addresses that the logs name"
        )
    servers = {short_host(server) for server in job.job.servers}
    hosts = len({short_host(rank.node) for rank in view.ranks if rank.node} & servers)
    score += min(worth.host * hosts, worth.host_cap)
    if hosts:
        words.append("the same host" if hosts == 1 else f"the same {hosts} hosts")
    world = max(view.world or 0, len([rank for rank in view.ranks if rank.rank is not None]))
    if world:
        fits = world % len(members) == 0 or len(members) % world == 0
        score += worth.same_size if world == len(members) else worth.same_size / 2 if fits else worth.other_size
        if world == len(members):
            words.append(f"{world} ranks")
    return score, words


def _clock_points(view: JobView, fit: ClockFit | None, report: Report, rules: VerdictRules) -> tuple[float, str]:
    score, words = 0.0, ""
    if fit is not None and fit.same_run:
        score, words = rules.match.same_run, f"the same lengths of {fit.steps} steps"
    elif fit is not None and fit.same_pace:
        score, words = rules.match.same_pace, "the same pace"
    elif fit is not None and fit.rest is not None:
        score = rules.match.other_pace
    overlap = _time_points(view, report, rules)
    if overlap > 0:
        words = f"{words}, the same time" if words else "the same time"
    elif fit is not None and fit.same_run:
        overlap = 0.0  # the same lengths at other times: the clock is wrong, not the match
    return score + overlap, words


def _time_points(view: JobView, report: Report, rules: VerdictRules) -> float:
    """Whether the log's iterations lie in the window of the flows, by its clock or in another time zone."""
    span = _span(view)
    window = report.window
    if span is None or window.end_ns <= window.start_ns:
        return 0.0
    if _overlaps(span[0], span[1], window.start_ns, window.end_ns):
        return rules.match.same_time
    return 0.0 if _zone(view, report, rules) else rules.match.other_time


def _zone(view: JobView, report: Report, rules: VerdictRules) -> int:
    """The whole zones between the log's times and the window of the flows; 0 where they overlap, or none makes them."""
    span, window = _span(view), report.window
    if span is None or _overlaps(span[0], span[1], window.start_ns, window.end_ns):
        return 0
    away = (span[0] + span[1] - window.start_ns - window.end_ns) // 2
    zone = round(away / ZONE_NS) * ZONE_NS
    fits = _overlaps(span[0] - zone, span[1] - zone, window.start_ns, window.end_ns)
    return zone if fits and abs(zone) <= rules.match.most_zone_ns else 0


def _overlaps(low: int, high: int, start: int, end: int) -> bool:
    """Whether they share half of the shorter one."""
    shared = min(high, end) - max(low, start)
    return 2 * shared >= min(high - low, end - start) and shared >= 0
