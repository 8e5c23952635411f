"""What logs add to the JSON document: why each finding came about, and how the logs were read.

Only reports that were made with logs have these fields: `source`, `cause`, `owner`, `rank`, `node`, `iteration`,
`suspects`, `contradictions`, `lines` and `flows` on findings, and `logs` on the report.
"""

from __future__ import annotations

from typing import Any, Final

from llmprism.model.finding import Finding
from llmprism.model.log import Cause
from llmprism.model.verdict import LogJob, LogQuote, LogReading, Verdict

__all__ = ["log_job_document", "logs_document", "quote_document", "verdict_document"]

_DECIMALS: Final = 4


def verdict_document(verdict: Verdict, reading: LogReading) -> dict[str, Any]:
    """The further fields of a finding."""
    return {
        "source": verdict.source.value,
        "cause": _cause(verdict.cause),
        "owner": verdict.owner.value,
        "rank": verdict.rank,
        "node": verdict.node,
        "iteration": verdict.iteration,
        "logs": verdict.log_job,
        "suspects": [
            {
                "address": one.address,
                "rank": one.rank,
                "node": one.node,
                "score": round(one.score, _DECIMALS),
                "why": one.why,
            }
            for one in verdict.suspects
        ],
        "contradictions": [
            {"about": one.about, "flows": one.flows, "logs": one.logs, "believed": one.believed.value, "why": one.why}
            for one in verdict.contradictions
        ],
        "lines": [quote_document(reading.quotes[at]) for at in verdict.quotes],
        "flows": None if verdict.flows is None else _flows(verdict.flows),
    }


def logs_document(reading: LogReading) -> list[dict[str, Any]]:
    """How the logs of each job were read."""
    return [log_job_document(job) for job in reading.jobs]


def log_job_document(job: LogJob) -> dict[str, Any]:
    counts = job.input
    return {
        "name": job.name,
        "job": job.job,
        "confidence": round(job.confidence, _DECIMALS),
        "why": job.why,
        "input": {
            "files": counts.files,
            "lines": counts.lines,
            "ranks": counts.ranks,
            "nodes": counts.nodes,
            "dropped": dict(counts.dropped),
        },
        "outcome": job.outcome.value,
        "symptom": job.symptom.value,
        "stage": job.stage.value,
        "iteration": job.iteration,
        "cause": _cause(job.cause),
        "iteration_shift": job.iteration_shift,
        "ranks": [
            {
                "rank": seat.rank,
                "node": seat.node,
                "address": seat.address,
                "confidence": round(seat.confidence, _DECIMALS),
                "why": seat.why,
            }
            for seat in job.seats
        ],
        "unmatched_addresses": list(job.unmatched),
        "clocks": [
            {"host": one.host, "offset_ns": one.offset_ns, "error_ns": one.error_ns, "steps": one.steps}
            for one in job.clocks
        ],
        "notes": list(job.notes),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "class": cause.cause_class.value,
        "signature": cause.signature,
        "confidence": round(cause.confidence, _DECIMALS),
        "summary": cause.summary,
        "advice": cause.advice,
    }


def quote_document(quote: LogQuote) -> dict[str, Any]:
    return {
        "rank": quote.rank,
        "address": quote.address,
        "time_ns": quote.time_ns,
        "file": quote.file,
        "line": quote.line,
        "text": quote.text,
        "count": quote.count,
        "role": quote.role,
        "signature": quote.signature,
    }


def _flows(finding: Finding) -> dict[str, Any]:
    """What the flows alone had said."""
    place = finding.where.id
    return {
        "kind": finding.kind.value,
        "where": {"type": finding.where.type.value, "id": place if isinstance(place, str) else list(place)},
        "confidence": round(finding.confidence, _DECIMALS),
        "summary": finding.summary,
    }
