"""What logs say, as the documents that the store keeps and the page shows. Text of logs is cleaned here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from llmprism.model.live import Explanation
from llmprism.model.verdict import LogQuote, LogReading
from llmprism.report.text import clean
from llmprism.report.verdict_json import log_job_document, quote_document, verdict_document
from llmprism.service.joblogs.explanations import TEXT_CHARS
from llmprism.service.looks import Look

__all__ = ["log_documents", "why_document"]

MAX_LINES: Final = 1_000
"""Lines of one run: a few hundred kilobytes, more than a timeline can show."""

_ROLES: Final = {"root": 0, "cascade": 1}


def why_document(why: Explanation | None) -> dict[str, Any] | None:
    """A finding's explanation; None where logs say nothing of it."""
    if why is None:
        return None
    numbered = replace(why.verdict, quotes=tuple(range(len(why.lines))))
    document = verdict_document(numbered, LogReading((), (), tuple(_cleaned(line) for line in why.lines)))
    wanted = ("source", "cause", "owner", "rank", "node", "iteration", "suspects", "contradictions", "lines")
    return {key: document[key] for key in wanted}


def log_documents(looks: Sequence[Look], followed: Sequence[Mapping[str, str]]) -> dict[str, dict[str, Any]]:
    """Run id → how its logs were read in these looks, with its lines about trouble in the order of time."""
    made: dict[str, dict[str, Any]] = {}
    for look, run_of in zip(looks, followed, strict=True):
        reading = look.report.reading
        for number, job in enumerate(reading.jobs if reading is not None else ()):
            run = run_of.get(job.job or "")
            if run is None or reading is None:
                continue
            own = [quote for quote in reading.quotes if quote.job == number]
            kept = sorted(own, key=lambda quote: _ROLES.get(quote.role, 2))[:MAX_LINES]
            kept.sort(key=lambda quote: quote.time_ns or 0)
            made[run] = {
                **log_job_document(job),
                "job": run,
                "lines": [quote_document(_cleaned(quote)) for quote in kept],
                "left_out": len(own) - len(kept),
            }
    return made


def _cleaned(quote: LogQuote) -> LogQuote:
    return replace(quote, file=clean(quote.file), text=clean(quote.text, TEXT_CHARS))
