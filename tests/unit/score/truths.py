"""Two jobs with a fault, as the truth of the tests of the score."""

from __future__ import annotations

from typing import Any

STEP_NS = 500_000_000
EMPTY = {"schema": "llmprism.report/1", "jobs": [], "findings": []}


def pipeline_job(name: str, subnet: int, start_ns: int, steps: int = 20) -> dict[str, Any]:
    """A job of 2 stages x 4 replicas, in the report's own terms."""
    stages = [[f"10.{subnet}.{stage}.{replica}" for replica in range(4)] for stage in range(2)]
    pipelines = [[stages[0][replica], stages[1][replica]] for replica in range(4)]
    rings = [(src, dst, "dp") for stage in stages for src, dst in zip(stage, stage[1:] + stage[:1], strict=True)]
    flows = [(a, b, "pp") for a, b in pipelines] + [(b, a, "pp") for a, b in pipelines]
    return {
        "id": name,
        "members": sorted(address for stage in stages for address in stage),
        "state": "running",
        "layout": {"tp": 1, "pp": 2, "dp": 4, "sharding": "none", "micro_batches": 8, "schedule": "1f1b"},
        "groups": [{"kind": "dp", "members": stage} for stage in stages],
        "pipelines": pipelines,
        "pairs": [{"src": src, "dst": dst, "kind": kind, "confidence": 1.0} for src, dst, kind in rings + flows],
        "steps": [
            {"index": i, "start_ns": start_ns + i * STEP_NS, "end_ns": start_ns + (i + 1) * STEP_NS}
            for i in range(steps)
        ],
    }


def truth_document() -> dict[str, Any]:
    jobs = [pipeline_job("a", 1, 10**18), pipeline_job("b", 2, 10**18 + 77_000_000)]
    fault = {
        "kind": "slow_nic",
        "job": "a",
        "where": {"type": "nic", "id": "10.1.0.2"},
        "start_ns": 10**18 + 4 * STEP_NS,
        "end_ns": 10**18 + 9 * STEP_NS,
    }
    return {"schema": "llmprism.truth/1", "jobs": jobs, "faults": [fault]}
