"""Flow records of synthetic clusters of any size, for measuring how cost grows. Exact shapes, no faults; seeded.

Every job has `pipeline` stages and `data` replicas on servers of eight GPUs, as in `make_minute`, whose pairs and
records it uses; jobs lie side by side on as many servers as they need. Records are written job by job, so memory stays
with the largest job. Shares no code with llmprism.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import make_minute
from make_minute import GPUS_PER_SERVER, Pairs

__all__ = ["Shape", "write_cluster"]


@dataclass(frozen=True, slots=True)
class Shape:
    """One sort of job: its degrees, how many of it there are, messages per step and pair, and the step in ns."""

    pipeline: int
    data: int
    jobs: int
    messages: int = 8
    step_ns: int = 1_000_000_000

    @property
    def gpus(self) -> int:
        return self.pipeline * self.data * GPUS_PER_SERVER * self.jobs


def write_cluster(out: Path, shapes: list[Shape], seconds: int, seed: int = 0) -> int:
    """Writes the records to `out` and the topology beside it; returns the number of records."""
    rng = np.random.default_rng(seed)
    gpus = sum(shape.gpus for shape in shapes)
    out.parent.mkdir(parents=True, exist_ok=True)
    addresses = pa.array([make_minute.address_of(gpu) for gpu in range(gpus)])
    writer: pq.ParquetWriter | None = None
    first = records = 0
    for shape in shapes:
        for _ in range(shape.jobs):
            columns = _job(shape, first, seconds, rng)
            table = _table(columns, addresses)
            writer = writer or pq.ParquetWriter(out, table.schema, compression="zstd")
            writer.write_table(table, row_group_size=make_minute.ROWS_PER_GROUP)
            first += shape.gpus // shape.jobs
            records += table.num_rows
    if writer is not None:
        writer.close()
    _write_topology(out.with_suffix(".topology.json"), gpus)
    return records


def _job(shape: Shape, first: int, seconds: int, rng: np.random.Generator) -> dict[str, make_minute.Ints]:
    period = int(shape.step_ns * rng.uniform(0.85, 1.15))
    parts = [
        make_minute.records_of(
            Pairs(pairs.src, pairs.dst, pairs.offsets[:, : shape.messages], pairs.sizes[: shape.messages]),
            period, seconds, rng,
        )
        for pairs in make_minute.job_pairs(first, shape.pipeline, shape.data)
    ]  # fmt: skip
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["end"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _leaf(gpu: make_minute.Ints) -> list[str]:
    leaves = make_minute.leaf_of(gpu)
    names = {int(leaf): f"leaf{leaf}" for leaf in np.unique(leaves)}
    return [names[int(leaf)] for leaf in leaves]


def _table(columns: dict[str, make_minute.Ints], addresses: pa.Array) -> pa.Table:
    leaf_src, leaf_dst = make_minute.leaf_of(columns["src"]), make_minute.leaf_of(columns["dst"])
    spine = np.where(leaf_src == leaf_dst, -1, (columns["src"] + columns["dst"]) % make_minute.SPINES)
    triple = np.stack([leaf_src, spine, leaf_dst])
    paths, path = np.unique(triple, axis=1, return_inverse=True)
    names = [[f"leaf{a}"] if s < 0 else [f"leaf{a}", f"spine{s}", f"leaf{b}"] for a, s, b in paths.T]
    return pa.table(
        {
            "start_ns": columns["start"],
            "end_ns": columns["end"],
            "src": addresses.take(pa.array(columns["src"])),
            "dst": addresses.take(pa.array(columns["dst"])),
            "sport": pa.array(columns["sport"].astype(np.uint16)),
            "dport": pa.array(np.full(columns["sport"].size, 4791, np.uint16)),
            "bytes": columns["bytes"],
            "switches": pa.array(names, pa.list_(pa.string())).take(pa.array(path.ravel())),
        }
    )


def _write_topology(path: Path, gpus: int) -> None:
    ids = np.arange(gpus)
    leaf = _leaf(ids)
    servers = [
        {
            "name": f"server{first // GPUS_PER_SERVER:05d}",
            "nics": [
                {"address": make_minute.address_of(gpu), "gpu": gpu - first, "switch": leaf[gpu]}
                for gpu in range(first, first + GPUS_PER_SERVER)
            ],
        }
        for first in range(0, gpus, GPUS_PER_SERVER)
    ]
    switches = [{"name": name, "tier": "leaf"} for name in sorted(set(leaf))]
    switches += [{"name": f"spine{spine}", "tier": "spine"} for spine in range(make_minute.SPINES)]
    path.write_text(json.dumps({"servers": servers, "switches": switches}), encoding="utf-8")
