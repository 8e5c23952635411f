"""LogDiagnosis → the JSON document of the contract (`llmprism.logs/1`), keys sorted."""

from __future__ import annotations

import json
from typing import Any, Final

from llmprism.model.log import LogDiagnosis, LogEvent, LogLine, Sign, Suspect

__all__ = ["SCHEMA", "as_document", "render_json"]

SCHEMA: Final = "llmprism.logs/1"


def _line(line: LogLine) -> dict[str, Any]:
    return {"file": line.file, "line": line.line, "text": line.text}


def _event(event: LogEvent) -> dict[str, Any]:
    return {
        "template": event.template,
        "count": event.count,
        "ranks": list(event.ranks),
        "first_ns": event.first_ns,
        "first_line": _line(event.first_line),
        "before": [_line(line) for line in event.before],
        "after": [_line(line) for line in event.after],
        "score": event.score,
        "role": event.role.value,
        "signature": event.signature,
    }


def _suspect(suspect: Suspect) -> dict[str, Any]:
    return {"rank": suspect.rank, "node": suspect.node, "score": suspect.score, "why": suspect.why}


def _sign(sign: Sign) -> dict[str, Any]:
    return {
        "kind": sign.kind.value,
        "summary": sign.summary,
        "confidence": sign.confidence,
        "iteration": sign.iteration,
        "time_ns": sign.time_ns,
        "value": sign.value,
        "expected": sign.expected,
        "lasts": sign.lasts,
    }


def as_document(diagnosis: LogDiagnosis) -> dict[str, Any]:
    """The document as dictionaries and lists."""
    counts = diagnosis.input
    cause = diagnosis.cause
    return {
        "schema": SCHEMA,
        "input": {
            "files": counts.files,
            "lines": counts.lines,
            "bytes": counts.bytes,
            "ranks": counts.ranks,
            "nodes": counts.nodes,
            "dropped": dict(counts.dropped),
        },
        "outcome": diagnosis.outcome.value,
        "symptom": diagnosis.symptom.value,
        "stage": diagnosis.stage.value,
        "iteration": diagnosis.iteration,
        "cause": {
            "class": cause.cause_class.value,
            "signature": cause.signature,
            "confidence": cause.confidence,
            "summary": cause.summary,
            "advice": cause.advice,
        },
        "suspects": [_suspect(suspect) for suspect in diagnosis.suspects],
        "ranking": {
            "ranks": [_suspect(suspect) for suspect in diagnosis.ranking],
            "nodes": [{"node": s.node, "score": s.score, "why": s.why} for s in diagnosis.node_ranking],
        },
        "signs": [_sign(sign) for sign in diagnosis.signs],
        "events": [_event(event) for event in diagnosis.events],
        "notes": list(diagnosis.notes),
    }


def render_json(diagnosis: LogDiagnosis) -> str:
    return json.dumps(as_document(diagnosis), indent=2, sort_keys=True, ensure_ascii=True) + "\n"
