"""What logs say of a finding, kept with it from window to window.

An explanation never gets worse: a window that no longer holds the stop, or logs of which the beginning is gone, do not
take a cause away that was known. Lines are kept in full length by the spool; here they are short and few.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llmprism.model.live import Explanation, TrackedFinding
from llmprism.model.log import CauseClass
from llmprism.model.report import Report
from llmprism.model.verdict import LogQuote, Source

__all__ = ["explained", "explanation_of", "knowledge", "short_quote"]

MAX_LINES: Final = 12
"""Lines kept with a finding: those that a verdict quotes."""

TEXT_CHARS: Final = 300


def explanation_of(report: Report, number: int) -> Explanation | None:
    """What the logs say of the finding of this number; None where they bear nothing on it."""
    reading = report.reading
    if reading is None or reading.verdicts[number].source is Source.FLOWS:
        return None
    verdict = reading.verdicts[number]
    lines = tuple(short_quote(reading.quotes[at]) for at in verdict.quotes[:MAX_LINES])
    return Explanation(replace(verdict, quotes=(), flows=None, log_job=None), lines)


def short_quote(quote: LogQuote) -> LogQuote:
    return replace(quote, text=quote.text[:TEXT_CHARS])


def knowledge(why: Explanation | None) -> int:
    """How much is known: 0 nothing by the logs, 1 lines about it, 2 lines and a class of cause."""
    if why is None or not why.lines:
        return 0
    return 1 if why.verdict.cause.cause_class in (CauseClass.NONE, CauseClass.UNKNOWN) else 2


def explained(before: TrackedFinding, now: TrackedFinding, why: Explanation | None) -> TrackedFinding:
    """The finding as seen now with the better of its two explanations, and the words that go with it."""
    if before.why is None or knowledge(why) >= knowledge(before.why):
        return replace(now, why=why or before.why)
    known = before.finding
    finding = replace(
        now.finding,
        kind=known.kind,
        where=known.where,
        confidence=known.confidence,
        summary=known.summary,
        evidence=known.evidence,
    )
    return replace(now, finding=finding, why=before.why)
