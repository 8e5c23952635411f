"""Where the time and the memory of `llmprism diagnose` go, stage by stage, and how far that is from the limit.

    python benchmarks/profile_stages.py FLOWS.parquet [--topology T.json] [--memory-limit 4GB] [--functions]

Each stage: wall time, CPU time of all threads, and the peak of the process's resident memory during it (the kernel's
high-water mark, reset before each). The limit: DuckDB reads the same columns and sorts them by pair and time, in a
process of its own; and one copy of as many bytes as the records' integer columns hold. `--functions` adds the
functions that took most time. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

SORT = (
    "import duckdb, sys; duckdb.connect().execute("
    "f\"CREATE TABLE t AS SELECT * FROM read_parquet('{sys.argv[1]}') ORDER BY src, dst, start_ns\")"
)
BYTES_PER_RECORD = 3 * 8 + 3 * 4
"""Start, end, bytes; source, destination, path."""

T = TypeVar("T")


class Stages:
    """Measures calls and keeps what they cost."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float, float]] = []

    def run(self, name: str, call: Callable[[], T]) -> T:
        _reset_peak()
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        self.add(name, time.perf_counter() - wall, time.process_time() - cpu, _peak_mb())
        return result

    def add(self, name: str, wall: float, cpu: float, peak: float) -> None:
        self.rows.append((name, wall, cpu, peak))
        print(f"  {name}: {wall:.2f} s wall, {cpu:.2f} s CPU, {peak:.0f} MB", file=sys.stderr, flush=True)

    def table(self, records: int) -> str:
        total = (
            "all stages",
            sum(row[1] for row in self.rows),
            sum(row[2] for row in self.rows),
            max(row[3] for row in self.rows),
        )
        lines = ["| stage | wall s | CPU s | CPU s per million records | peak MB |", "| --- | --- | --- | --- | --- |"]
        for name, wall, cpu, peak in (*self.rows, total):
            lines.append(f"| {name} | {wall:.2f} | {cpu:.2f} | {cpu / records * 1e6:.3f} | {peak:.0f} |")
        return "\n".join(lines)


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_mb() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def stages(flows_path: Path, topology_path: Path | None, memory_limit: str | None) -> tuple[Stages, int]:
    """The pipeline of `diagnose --json`, one stage after the other."""
    from llmprism.ingest import read_topology, read_transfers
    from llmprism.pipeline.local import LocalCluster
    from llmprism.pipeline.order import find_findings, recognise_jobs

    done = Stages()
    topology = done.run("topology", lambda: read_topology(topology_path)) if topology_path else None
    flows = done.run("read, order, put together", lambda: read_transfers([flows_path], memory_limit=memory_limit))
    records, window, transfers = flows.counts.records, flows.window, flows.transfers
    cluster = done.run("totals of pairs", lambda: LocalCluster(flows, window, with_events=False))
    draft, drafts = done.run("jobs", lambda: recognise_jobs(cluster, topology))
    rows = transfers.start_ns.size
    jobs = done.run("layouts, steps, states", lambda: cluster.analyse(draft, drafts, lambda _share: None))
    findings, _ = done.run("faults", lambda: find_findings(cluster, draft, drafts, jobs))
    print(
        f"{records:,} records, {rows:,} transfers, {len(transfers.addresses):,} addresses, {len(jobs):,} jobs, "
        f"{sum(one.job.transfers.pair_count for one in jobs):,} pairs, {len(findings)} findings\n"
    )
    return done, records


def limit(flows_path: Path, records: int) -> None:
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", SORT, str(flows_path)])
    _, _, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    cpu = usage.ru_utime + usage.ru_stime
    print(f"DuckDB reads and sorts: {wall:.2f} s wall, {cpu:.2f} s CPU, {usage.ru_maxrss / 1024:.0f} MB")
    block = np.ones(min(records * BYTES_PER_RECORD, 1 << 30) // 8)
    copy = np.empty_like(block)
    np.copyto(copy, block)
    begin = time.process_time()
    np.copyto(copy, block)
    seconds = time.process_time() - begin
    rate = block.nbytes / seconds / 1e9
    print(f"one copy of the columns: {records * BYTES_PER_RECORD / rate / 1e9:.2f} s at {rate:.1f} GB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flows", type=Path)
    parser.add_argument("--topology", type=Path)
    parser.add_argument("--memory-limit")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--no-limit", action="store_true", help="Leave DuckDB's own sort out.")
    options = parser.parse_args()
    usual = [options.flows.with_name(options.flows.stem + ".topology.json"), options.flows.with_name("topology.json")]
    topology = options.topology or next((file for file in usual if file.exists()), None)
    profile: Any = cProfile.Profile() if options.functions else None
    if profile:
        profile.enable()
    done, records = stages(options.flows, topology, options.memory_limit)
    if profile:
        profile.disable()
    print(done.table(records) + "\n")
    if not options.no_limit:
        limit(options.flows, records)
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
