"""The contract's JSON document, schema `llmprism.report/1`.

Keys are sorted, times are integer nanoseconds, floats are rounded, and everything that has no natural order is put
in one, so that equal reports give equal bytes. The text is ASCII: a hostile name can neither steer a terminal nor
break an encoder. Objects below the fourth level stand on one line each, which keeps the document readable and
lets the fast encoder write the long lists.

Fields beyond the contract: `confidence` and `alternatives` on layouts, `alternatives` on findings (next best causes;
`same_place`: another name of the same place), `setup` on steps, `ring` on groups, `facts` and `steps_confidence` on
jobs, `notes` on jobs and on the report, `switches`, `watched_until_ns` on the window; with logs those of
`verdict_json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

import numpy as np

from llmprism.model.finding import Finding, Where
from llmprism.model.layout import JobLayout, Layout, PairKind
from llmprism.model.report import JobReport, Report, SwitchLoad
from llmprism.model.timeline import Steps
from llmprism.report.job_facts import facts_document
from llmprism.report.verdict_json import logs_document, verdict_document

__all__ = ["SCHEMA", "document", "render"]

SCHEMA: Final = "llmprism.report/1"

_CONFIDENCE_DECIMALS: Final = 4
_SECONDS_DECIMALS: Final = 3
_EVIDENCE_DIGITS: Final = 6
"""Significant digits of evidence values, which come in any unit."""

_EXPANDED_LEVELS: Final = 4

_encode = json.JSONEncoder(sort_keys=True, separators=(", ", ": "), allow_nan=False).encode


def render(report: Report) -> bytes:
    """The document as bytes, ending in a newline."""
    return ("".join(_lines(document(report), _EXPANDED_LEVELS, "")) + "\n").encode("ascii")


def document(report: Report) -> dict[str, Any]:
    """The document as JSON values."""
    values = _without_logs(report)
    if report.reading is not None:
        for entry, verdict in zip(values["findings"], report.reading.verdicts, strict=True):
            entry |= verdict_document(verdict, report.reading)
        values["logs"] = logs_document(report.reading)
    return values


def _without_logs(report: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "window": {
            "start_ns": report.window.start_ns,
            "end_ns": report.window.end_ns,
            "watched_until_ns": report.window.end_ns,
        },
        "input": {
            "records": report.input.records,
            "used": report.input.used,
            "dropped": dict(report.input.dropped),
        },
        "jobs": [_job(job, report.addresses) for job in report.jobs],
        "findings": [_finding(finding) for finding in report.findings],
        "switches": [_switch(load) for load in report.switches],
        "notes": list(report.notes),
    }


def _job(job: JobReport, addresses: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": job.job.id,
        "members": [addresses[member] for member in job.job.members],
        "servers": list(job.job.servers),
        "state": job.state.value,
        "confidence": _rounded(job.job.confidence, _CONFIDENCE_DECIMALS),
        "lost_gpu_seconds": _rounded(job.lost_gpu_seconds, _SECONDS_DECIMALS),
        "layout": {
            **_layout(job.layout.layout, job.layout.confidence),
            "alternatives": [
                {**_layout(one.layout, one.confidence), "why": one.why} for one in job.layout.alternatives
            ],
        },
        "groups": [
            {"kind": group.kind.label, "members": [addresses[member] for member in group.members], "ring": group.ring}
            for group in job.layout.groups
        ],
        "pipelines": [[addresses[member] for member in pipeline] for pipeline in job.layout.pipelines],
        "pairs": _pairs(job.layout, addresses),
        "steps": _steps(job.timeline.steps),
        "steps_confidence": _rounded(job.layout.steps_confidence, _CONFIDENCE_DECIMALS),
        "facts": facts_document(job.timeline.facts),
        "notes": [*job.layout.notes, *job.timeline.notes],
    }


def _layout(layout: Layout, confidence: float) -> dict[str, Any]:
    return {
        "tp": layout.tp,
        "pp": layout.pp,
        "dp": layout.dp,
        "ep": layout.ep,
        "cp": layout.cp,
        "sharding": layout.sharding.value,
        "micro_batches": layout.micro_batches,
        "schedule": layout.schedule.value,
        "confidence": _rounded(confidence, _CONFIDENCE_DECIMALS),
    }


def _pairs(layout: JobLayout, addresses: tuple[str, ...]) -> list[dict[str, Any]]:
    labels = {int(kind): kind.label for kind in PairKind}
    pairs = layout.pairs
    columns = (pairs.src.tolist(), pairs.dst.tolist(), pairs.kind.tolist(), pairs.confidence.tolist())
    rows = [
        {
            "src": addresses[src],
            "dst": addresses[dst],
            "kind": labels[kind],
            "confidence": _rounded(confidence, _CONFIDENCE_DECIMALS),
        }
        for src, dst, kind, confidence in zip(*columns, strict=True)
    ]
    rows.sort(key=itemgetter("src", "dst", "kind"))
    return rows


def _steps(steps: Steps) -> list[dict[str, Any]]:
    """A step is over when its last member is done, and the next one begins then."""
    start = np.maximum(steps.start_ns, np.append(steps.start_ns[:1], steps.over_ns[:-1]))
    bounds = zip(start.tolist(), steps.over_ns.tolist(), steps.setup.tolist(), strict=True)
    return [
        {"index": index, "start_ns": start, "end_ns": end, "setup": setup}
        for index, (start, end, setup) in enumerate(bounds)
    ]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind.value,
        "job": finding.job,
        "where": _where(finding.where),
        "start_ns": finding.start_ns,
        "end_ns": finding.end_ns,
        "severity": _rounded(finding.severity, _CONFIDENCE_DECIMALS),
        "confidence": _rounded(finding.confidence, _CONFIDENCE_DECIMALS),
        "lost_gpu_seconds": _rounded(finding.lost_gpu_seconds, _SECONDS_DECIMALS),
        "summary": finding.summary,
        "evidence": [
            {"what": item.what, "value": _significant(item.value), "expected": _significant(item.expected)}
            for item in finding.evidence
        ],
        "alternatives": [
            {
                "kind": one.kind.value,
                "where": _where(one.where),
                "confidence": _rounded(one.confidence, _CONFIDENCE_DECIMALS),
                "same_place": one.same_place,
            }
            for one in finding.alternatives
        ],
    }


def _where(where: Where) -> dict[str, Any]:
    return {"type": where.type.value, "id": where.id if isinstance(where.id, str) else list(where.id)}


def _switch(load: SwitchLoad) -> dict[str, Any]:
    return {
        "switch": load.switch,
        "tier": load.tier,
        "bytes": load.bytes,
        "pairs": load.pairs,
        "median_rate_gbps": _significant(load.median_rate_gbps),
        "jobs": list(load.jobs),
    }


def _rounded(value: float | None, decimals: int) -> float | None:
    """A value that is not a number says nothing: it becomes null."""
    return round(float(value), decimals) + 0.0 if value is not None and math.isfinite(value) else None


def _significant(value: float | None) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    if float(value).is_integer() and abs(value) < 2**63:
        return int(value)
    return float(f"{value:.{_EVIDENCE_DIGITS}g}")


def _items(values: list[Any], between: str) -> str:
    """The values as JSON with `between` between two of them. Objects are encoded all at once and then taken apart,
    unless the text between two of them is found in some string or list too: one by one takes half as long again."""
    if all(isinstance(value, dict) for value in values):
        text = _encode(values)
        if text.count("}, {") == len(values) - 1:
            return text[1:-1].replace("}, {", f"}}{between}{{")
    return between.join(map(_encode, values))


def _lines(value: Any, levels: int, indent: str) -> Iterator[str]:
    """`value` as JSON: the outer `levels` one item per line, everything deeper on the line it starts on."""
    if levels == 0 or not isinstance(value, dict | list) or not value:
        yield _encode(value)
        return
    inner = indent + " "
    if levels == 1 and isinstance(value, list):  # by far the most: all at once
        yield f"[\n{inner}" + _items(value, f",\n{inner}") + f"\n{indent}]"
        return
    brackets = "{}" if isinstance(value, dict) else "[]"
    keys = sorted(value) if isinstance(value, dict) else range(len(value))
    separator = brackets[0] + "\n"
    for key in keys:
        yield separator + inner
        if isinstance(value, dict):
            yield _encode(key) + ": "
        yield from _lines(value[key], levels - 1, inner)
        separator = ",\n"
    yield "\n" + indent + brackets[1]
