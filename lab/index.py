"""The dataset's index: `cases.json` and the table of its datasheet, from the cases in a folder.

The words for frameworks, layouts and faults are the rows of the accuracy tables, so they name kinds, not sizes. The
split is that of the scenario of the same name.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lab.scenario import read_scenario

__all__ = ["fault_name", "framework_name", "layout_name", "write_index"]

SCHEMA = "llmprism.dataset/1"
FAMILIES = {
    "megatron-core": "Megatron-Core",
    "deepspeed": "DeepSpeed ZeRO",
    "transformers.trainer": "HF Trainer",
    "torch ddp": "torch DDP",
    "torch fsdp2": "torch FSDP2",
    "torch hsdp": "torch HSDP",
    "torch.distributed.pipelining": "torch pipelining",
}


def framework_name(job: dict[str, Any]) -> str:
    """The framework without its version; the engine where there are two."""
    said = job["framework"].lower()
    if said.startswith("deepspeed") and "pipeline" in said:
        return "DeepSpeed pipeline"
    return next((name for prefix, name in FAMILIES.items() if said.startswith(prefix)), job["framework"])


def layout_name(job: dict[str, Any]) -> str:
    """Which kinds of parallelism are combined, and the pipeline's schedule."""
    layout = job["layout"]
    replicas = {"fsdp": "sharded", "zero": "optimizer sharded", "none": "data"}[layout["sharding"]]
    if "HSDP" in job["framework"]:
        replicas = "hybrid sharded"
    parts = [replicas] if layout["dp"] > 1 else []
    parts += [name for name, key in (("experts", "ep"), ("context", "cp")) if layout[key]]
    parts += ["tensor"] if layout["tp"] > 1 else []
    parts += [f"pipeline {(job['schedule_name'] or '').replace('_', ' ')}"] if layout["pp"] > 1 else []
    return " + ".join(parts)


def fault_name(fault: dict[str, Any], job_came_back: bool) -> str:
    """What was planted, in the scenario's words."""
    planted: str = fault["planted"]["kind"].replace("_", " ")
    if fault["kind"] == "crash" and job_came_back:
        return f"{planted}, restart"
    return f"{planted} for a while" if planted == "link down" and fault["kind"] == "stall" else planted


def write_index(folder: Path) -> list[dict[str, Any]]:
    """Writes `cases.json` and returns its cases."""
    found = [_entry(path.parent) for path in sorted(folder.glob("*/truth.json.gz"))]
    text = json.dumps({"schema": SCHEMA, "cases": found}, indent=1, sort_keys=True)
    (folder / "cases.json").write_text(text + "\n", encoding="utf-8")
    return found


def table(entries: list[dict[str, Any]]) -> str:
    """The cases as a table of the datasheet."""
    lines = ["| case | split | what | records | s |", "| --- | --- | --- | ---: | ---: |"]
    for entry in entries:
        cells = (entry["name"], entry["split"], entry["about"], f"{entry['records']:,}", f"{entry['seconds']:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _entry(folder: Path) -> dict[str, Any]:
    truth = json.loads(gzip.decompress((folder / "truth.json.gz").read_bytes()))
    jobs = truth["jobs"]
    versions = jobs[0]["versions"]
    window = truth["window"]
    running = any(job["state"] == "running" for job in jobs)
    return {
        "name": folder.name,
        "split": read_scenario(folder.name).split,
        "about": truth["scenario"]["about"],
        "frameworks": sorted({framework_name(job) for job in jobs}),
        "layouts": sorted({layout_name(job) for job in jobs}),
        "faults": sorted(fault_name(fault, running) for fault in truth["faults"]),
        "backend": versions["backend"],
        "records": pq.read_metadata(folder / "flows.parquet").num_rows,
        "seconds": round((window["end_ns"] - window["start_ns"]) / 1e9, 1),
        "watched_until_ns": window["end_ns"],
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())},
    }
