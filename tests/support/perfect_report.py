"""What a perfect tool would say, made of the truth: every score of it must be full."""

from __future__ import annotations

from typing import Any

from llmprism.score import Truth
from llmprism.score.document import REPORT_SCHEMA, LayoutFacts
from llmprism.score.pairs import expected_pairs

__all__ = ["truth_as_report"]


def truth_as_report(truth: Truth) -> dict[str, Any]:
    """The report that a perfect tool would write. A capture's DP pairs are the ring in the order of the group."""
    return {
        "schema": REPORT_SCHEMA,
        "window": {"start_ns": 0, "end_ns": 0},
        "input": {"records": 0, "used": 0, "dropped": {}},
        "jobs": [
            {
                "id": job.id,
                "members": sorted(job.members),
                "servers": [],
                "state": job.state,
                "confidence": 1.0,
                "layout": {name: getattr(job.layout, name) for name in LayoutFacts.__slots__},
                "groups": [{"kind": group.kind, "members": list(group.members)} for group in job.groups],
                "pipelines": [list(pipeline) for pipeline in job.pipelines],
                "pairs": [
                    {"src": src, "dst": dst, "kind": kind, "confidence": 1.0}
                    for src, dst, kind in sorted(expected_pairs(job))
                ],
                "steps": [
                    {"index": i, "start_ns": start, "end_ns": end}
                    for i, (start, end) in enumerate(zip(job.step_start_ns, job.step_end_ns, strict=True))
                ],
            }
            for job in truth.jobs
        ],
        "findings": [
            {
                "kind": fault.kind.value,
                "job": fault.job,
                "where": {
                    "type": fault.where.type.value,
                    "id": fault.where.id if isinstance(fault.where.id, str) else list(fault.where.id),
                },
                "start_ns": fault.start_ns,
                "end_ns": fault.end_ns,
                "severity": 1.0,
                "confidence": 1.0,
                "lost_gpu_seconds": 0.0,
                "summary": "",
                "evidence": [],
            }
            for fault in truth.faults
        ],
    }
