"""Lines of logs at their places in flow time: all that a report may show, and those that bear on a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from llmprism.logs.notable import NotableLine
from llmprism.model.verdict import LogQuote
from llmprism.verdict.case import Case

__all__ = ["quotes_of", "select_lines"]

MAX_QUOTED: Final = 12
"""Lines shown with one verdict: the root, and a few of those that followed from it."""


def quotes_of(case: Case) -> list[LogQuote]:
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
    case: Case, wanted: Callable[[NotableLine], bool], first: Callable[[NotableLine], bool] | None = None
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
