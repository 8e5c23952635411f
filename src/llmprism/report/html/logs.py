"""What logs add to the data of the page: why each finding came about, lines at their time, how the logs were read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llmprism.model.verdict import LogJob, LogQuote, LogReading, Verdict
from llmprism.report.text import clean

__all__ = ["MAX_LINES", "chosen_quotes", "logs_data", "why_data"]

MAX_LINES: Final = 4_000
"""Lines in one page, about a megabyte; those that findings quote come first."""

_TEXT_CHARS: Final = 300


def why_data(verdict: Verdict, chosen: dict[int, int], addresses: dict[str, int]) -> dict[str, Any]:
    """Why a finding came about; `chosen` maps a quote to its place in the page's lines."""
    cause = verdict.cause
    return {
        "source": verdict.source.value,
        "class": cause.cause_class.value,
        "cause": clean(cause.summary),
        "advice": clean(cause.advice),
        "sure": round(cause.confidence, 3),
        "owner": verdict.owner.value,
        "rank": verdict.rank,
        "node": None if verdict.node is None else clean(verdict.node),
        "iteration": verdict.iteration,
        "suspects": [
            [
                addresses.get(one.address, -1) if one.address is not None else -1,
                one.rank,
                clean(one.address or one.node or "?"),
                round(one.score, 3),
                clean(one.why),
            ]
            for one in verdict.suspects
        ],
        "differ": [
            [one.about, clean(one.flows), clean(one.logs), one.believed.value, clean(one.why)]
            for one in verdict.contradictions
        ],
        "lines": [chosen[at] for at in verdict.quotes if at in chosen],
    }


def chosen_quotes(reading: LogReading) -> dict[int, int]:
    """Which quotes the page holds, and where: those of findings, then the others in turn, up to the cap."""
    quoted = dict.fromkeys(at for verdict in reading.verdicts for at in verdict.quotes)
    order = [*quoted, *(at for at in range(len(reading.quotes)) if at not in quoted)][:MAX_LINES]
    return {at: place for place, at in enumerate(order)}


def logs_data(
    reading: LogReading,
    chosen: dict[int, int],
    addresses: dict[str, int],
    job_index: dict[str, int],
    to_ms: Callable[[int], float],
) -> dict[str, Any]:
    return {
        "jobs": [_log_job(job, addresses, job_index) for job in reading.jobs],
        "lines": [_line(reading.quotes[at], reading, addresses, job_index, to_ms) for at in chosen],
        "left_out": len(reading.quotes) - len(chosen),
    }


def _line(
    quote: LogQuote,
    reading: LogReading,
    addresses: dict[str, int],
    job_index: dict[str, int],
    to_ms: Callable[[int], float],
) -> dict[str, Any]:
    job = reading.jobs[quote.job].job
    return {
        "job": job_index.get(job, -1) if job is not None else -1,
        "address": addresses.get(quote.address, -1) if quote.address is not None else -1,
        "rank": quote.rank,
        "time": None if quote.time_ns is None else to_ms(quote.time_ns),
        "place": f"{clean(quote.file)}:{quote.line}",
        "text": clean(quote.text, _TEXT_CHARS),
        "count": quote.count,
        "role": quote.role,
    }


def _log_job(job: LogJob, addresses: dict[str, int], job_index: dict[str, int]) -> dict[str, Any]:
    return {
        "name": clean(job.name),
        "job": job_index.get(job.job, -1) if job.job is not None else -1,
        "sure": round(job.confidence, 3),
        "why": clean(job.why),
        "lines": job.input.lines,
        "files": job.input.files,
        "outcome": job.outcome.value,
        "symptom": job.symptom.value,
        "class": job.cause.cause_class.value,
        "ranks": [
            [
                seat.rank,
                None if seat.node is None else clean(seat.node),
                addresses.get(seat.address, -1) if seat.address is not None else -1,
                round(seat.confidence, 3),
                clean(seat.why),
            ]
            for seat in job.seats
        ],
        "clocks": [
            [clean(one.host), round(one.offset_ns / 1e6, 3), round(one.error_ns / 1e6, 3), one.steps]
            for one in job.clocks
        ],
        "unmatched": [clean(address) for address in job.unmatched],
        "notes": [clean(note) for note in job.notes],
    }
