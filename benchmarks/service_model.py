"""What a live service for 100,000 GPUs takes: workers, Kafka, PostgreSQL, disk and network, from measured costs.

Sizes are measured here, on records of the bundled capture; processor times are those of `benchmarks/service_cost.py`,
of JSON Lines through the intake, and of shares (docs/decisions/live-at-scale.md), given as arguments. Prints the table
of docs/explanation/live-at-100000-gpus.md.
Usage: python benchmarks/service_model.py [--gpus N] [--json S] [--windows S] [--shares S] [--jobs N]
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

from llmprism.ingest.accept import TimeBounds, accept_flows
from llmprism.model.live import LiveState, TrackedRun
from tenants import Tenants

RECORDS_PER_GPU_S = 60_857_328 / 99_968 / 60
"""A minute of 99,968 GPUs in 383 jobs (docs/performance.md)."""

HOP_S, LENGTH_S, CHECK_S = 44, 60, 4
BUSY = 0.6
"""Share of a core that is planned for; the rest is for catching up."""

CORES = 4
BATCH_S = 1.0
STATEMENTS = 12
"""Statements of the transaction that stores a batch (`service/batch_rows.py`)."""

STEP_S = 5.0
"""Step time of a large job; smaller ones step faster."""

STEP_ROW_BYTES = 120
REPLICAS, RETENTION_H = 3, 4


@dataclass(frozen=True)
class Sizes:
    """Bytes per record: in a stored segment, as a JSON line, as a JSON line compressed by the producer (gzip -1 on
    batches of a second); and bytes of the tracker's state per GPU."""

    segment: float
    json_line: float
    compressed: float
    state: float


def measured(folder: Path) -> Sizes:
    tenants = Tenants(folder, 0, 20)
    body, count = tenants.body(folder, 40)
    segment = folder / "segment.parquet"
    accept_flows([body], segment, TimeBounds(0, 2**62))
    lines = folder / "lines.jsonl"
    duckdb.execute(
        f"COPY (SELECT start_ns, end_ns, src, dst, bytes, switches, sport, dport FROM '{body}') TO '{lines}' "
        "(FORMAT json)"
    )
    text = lines.read_bytes()
    members = tuple(f"10.{one // 250}.{one % 250}.1" for one in range(256))
    run = TrackedRun("job-0123456789", members, (), LiveState.RUNNING, *(1_790_000_000_000_000_000,) * 4)
    state = len(json.dumps(asdict(run))) / len(members)
    return Sizes(segment.stat().st_size / count, len(text) / count, len(gzip.compress(text, 1)) / count, state)


def table(gpus: int, jobs: int, sizes: Sizes, json_lines: float, windows: float, shares: float) -> list[str]:
    rate = gpus * RECORDS_PER_GPU_S
    million = rate / 1e6
    passes = LENGTH_S / HOP_S
    windows_cores = million * (windows + passes * shares)
    intake_cores = million * json_lines
    workers = max(math.ceil((intake_cores + windows_cores) / BUSY / CORES), math.ceil(intake_cores / BUSY))
    partitions = 4 * workers
    day = 86_400
    rows = [
        ("records", f"{gpus:,} GPUs x {RECORDS_PER_GPU_S:.1f}/s", f"{million:.2f} million/s"),
        ("records of a window", f"{million:.2f} million/s x {LENGTH_S} s", f"{million * LENGTH_S:.0f} million"),
        ("cores, intake", f"{million:.2f} x {json_lines:.1f} CPU s, JSON Lines", f"{intake_cores:.1f}"),
        ("cores, windows", f"{million:.2f} x ({windows:.1f} + {passes:.2f} x {shares:.1f}) CPU s",
         f"{windows_cores:.1f}"),
        (f"workers of {CORES} cores", f"one intake thread each, {BUSY:.0%} busy", f"{workers}"),
        ("Kafka, in and out", f"{million:.2f} million/s x {sizes.compressed:.0f} bytes",
         _rate(rate * sizes.compressed)),
        ("Kafka, unpacked", f"{million:.2f} million/s x {sizes.json_line:.0f} bytes", _rate(rate * sizes.json_line)),
        ("Kafka, disk", f"{REPLICAS} copies, {RETENTION_H} h",
         _size(rate * sizes.compressed * REPLICAS * RETENTION_H * 3600)),
        ("shared folder, written", f"{million:.2f} million/s x {sizes.segment:.1f} bytes", _rate(rate * sizes.segment)),
        ("shared folder, read", f"{passes:.2f} passes and the checks (half)",
         _rate(rate * sizes.segment * (passes + 0.5))),
        ("shared folder, size", "24 h", _size(rate * sizes.segment * day)),
        ("PostgreSQL, transactions", f"{partitions} partitions / {BATCH_S:.0f} s + 1 / {CHECK_S} s",
         f"{partitions / BATCH_S + 1 / CHECK_S:.1f}/s of {STATEMENTS} statements"),
        ("PostgreSQL, tracker's state", f"{gpus:,} GPUs x {sizes.state:.0f} bytes, every {CHECK_S} s",
         _rate(gpus * sizes.state / CHECK_S)),
        ("PostgreSQL, steps", f"{jobs} jobs / {STEP_S:.0f} s x {STEP_ROW_BYTES} bytes, 30 days",
         _size(jobs / STEP_S * STEP_ROW_BYTES * 30 * day)),
    ]  # fmt: skip
    lines = ["| what | arithmetic | takes |", "| --- | --- | --- |"]
    return lines + [f"| {what} | {how} | {result} |" for what, how, result in rows]


def _rate(value: float) -> str:
    return f"{value / 1e6:.1f} MB/s"


def _size(value: float) -> str:
    return f"{value / 1e12:.2f} TB" if value >= 1e12 else f"{value / 1e9:.0f} GB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=383)
    parser.add_argument("--json", type=float, default=4.4, help="CPU s per million records as JSON Lines")
    parser.add_argument("--windows", type=float, default=1.8, help="CPU s per million records for all windows")
    parser.add_argument("--shares", type=float, default=3.2, help="CPU s per million to cut a window into shares")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        sizes = measured(Path(name))
    print("\n".join(table(options.gpus, options.jobs, sizes, options.json, options.windows, options.shares)))


if __name__ == "__main__":
    main()
