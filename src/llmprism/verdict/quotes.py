"""Lines of logs at their places in flow time: all that a report may show, and those that bear on a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from llmprism.logs.notable import NotableLine
from llmprism.model.finding import Evidence, Finding
from llmprism.model.verdict import LogQuote
from llmprism.verdict.case import LOG_LINES, JobCase
from llmprism.verdict.nearby import lines_about
from llmprism.verdict.suspects import SuspectPlace

__all__ = ["lines_of_ending", "log_evidence", "quotes_of", "select_lines"]

MAX_QUOTED: Final = 12
"""Lines shown with one verdict: the root, and a few of those that followed from it."""


def quotes_of(case: JobCase) -> list[LogQuote]:
    """All lines about trouble of a case, in the order of `case.view.lines`."""
    return [
        LogQuote(
            line.file,
            line.line,
            line.text,
            line.count,
            line.role,
            line.signature,
            job=case.number,
            rank=case.view.ranks[line.actor].rank if 0 <= line.actor < len(case.view.ranks) else None,
            address=case.line_address(line)[0],
            time_ns=case.line_time(line),
        )
        for line in case.view.lines
    ]


def select_lines(
    case: JobCase, wanted: Callable[[NotableLine], bool], first: Callable[[NotableLine], bool] | None = None
) -> tuple[int, ...]:
    """Indices of lines of a case: those wanted, `first` ones before the others, one per kind and rank, then by time."""
    chosen: Iterable[int] = [at for at, line in enumerate(case.view.lines) if wanted(line)]
    lines = case.view.lines
    roles = {"root": 0, "cascade": 1}
    ordered = sorted(
        chosen,
        key=lambda at: (
            first is None or not first(lines[at]),
            roles.get(lines[at].role, 2),
            lines[at].time_ns == 0,
            lines[at].time_ns,
            at,
        ),
    )
    seen: set[tuple[int, str]] = set()
    kept = []
    for at in ordered:
        key = (lines[at].actor, lines[at].signature or lines[at].text[:60])
        if key not in seen:
            seen.add(key)
            kept.append(at)
    return tuple(kept[:MAX_QUOTED])


def lines_of_ending(case: JobCase, place: SuspectPlace, stop: Finding | None) -> tuple[int, ...]:
    """Indices of the lines to quote with the end of a job, those of its place first."""
    actor = next(
        (n for n, rank in enumerate(case.view.ranks) if place.rank is not None and rank.rank == place.rank), -1
    )

    near = {id(case.view.lines[at]) for at in lines_about(case, stop)} if stop is not None else set()

    def bears(line: NotableLine) -> bool:
        if id(line) in near:
            return True
        when = case.line_time(line)
        early = stop is not None and when is not None and when < stop.start_ns - case.near_ns - case.clock_error_ns
        return not line.survived and not line.late and not early

    return select_lines(case, bears, lambda line: line.actor == actor)


def log_evidence(case: JobCase) -> list[Evidence]:
    """What the logs hold about the end of a job, counted."""
    complain = {line.actor for line in case.last_words() if line.actor >= 0}
    lines = sum(line.count for line in case.last_words())
    found = []
    if lines:
        found.append(Evidence(LOG_LINES, lines, 0))
        found.append(Evidence("ranks that write of it", len(complain)))
    last = [rank.last_iteration for rank in case.view.ranks if rank.last_iteration is not None]
    if last:
        found.append(Evidence("last iteration in the logs, lowest and highest rank apart", max(last) - min(last), 0))
    return found
