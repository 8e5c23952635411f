"""Claim: several workers take more than one does, and each window's work is spread over them.

Starts PostgreSQL, librdkafka's mock cluster and 1, 2, 3 workers in turn on this machine, replays the same busy cluster
(copies of a bundled capture under addresses of their own) as fast as it goes, and prints records per second until the
last window was made, the CPU seconds of all workers, and the ratio to one worker. Workers on one machine share its
cores: with fewer than three to spare the ratio says more about the machine than about the workers.
Usage: PYTHONPATH=src:tests python benchmarks/service_workers.py [JOBS] [WORKERS...]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from llmprism.service.player import KafkaTarget, opened, play
from support.postgres import Postgres  # type: ignore[import-not-found]
from support.workers import MockKafka, busy_cluster, last_due_window, worker  # type: ignore[import-not-found]


def cpu_seconds(processes: list[int]) -> float:
    """CPU time of these processes and of all their children, living or dead."""
    ticks = 0
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            used[int(entry.name)] = sum(int(field) for field in fields[11:15])
    waiting = list(processes)
    while waiting:
        process = waiting.pop()
        ticks += used.get(process, 0)
        waiting += children.get(process, [])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, count: int, brokers: str, database: str, topology: Path, records: int) -> dict[str, float]:
    group = folder / f"group{count}"
    running = [worker(group, f"w{number}", brokers, database, topology, 50_000) for number in range(count)]
    try:
        for one in running:
            one.start()
        first = running[0]

        def stored() -> int:
            return sum(one.get("stored", 0) for one in first.get("/api/v1/sources")["items"])

        first.until(lambda: stored() > 0, 300)
        begun = time.monotonic()
        first.until(lambda: stored() == records, 600)
        taken = time.monotonic() - begun
        end = last_due_window(database)
        first.until(lambda: _last_end(first) >= end, 600)
        made = time.monotonic() - begun
        busy = cpu_seconds([one.process.pid for one in running if one.process is not None])
        shares = [one.get("shares", 0) for one in first.get("/api/v1/workers")["items"]]
        print(f"{count} workers: shares worked off {shares}", flush=True)
    finally:
        for one in running:
            one.stop()
    return {"intake": records / taken, "windows": records / made, "cpu": busy}


def _last_end(service: Any) -> int:
    windows = service.get("/api/v1/windows?limit=1")["items"]
    return int(windows[0]["end_ns"]) if windows else 0


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    counts = [int(text) for text in sys.argv[2:]] or [1, 2, 3]
    with tempfile.TemporaryDirectory() as name, Postgres() as postgres:
        folder = Path(name)
        flows, topology, records = busy_cluster(folder, ("slow_nic",) * jobs)
        cluster = MockKafka()
        with opened([str(flows)]) as capture:
            play(capture, KafkaTarget(cluster.brokers, "flows"), speed=0, keep_times=True)
        print(f"{records:,} records of {jobs} jobs, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
        alone: dict[str, float] = {}
        for count in counts:
            url = postgres.create(f"workers{count}")
            found = measure(folder, count, cluster.brokers, url, topology, records)
            alone = alone or found
            ratios = ", ".join(f"{key} x{found[key] / alone[key]:.2f}" for key in ("intake", "windows"))
            print(
                f"{count} workers: {found['intake']:,.0f} records/s stored, {found['windows']:,.0f} records/s to "
                f"the last window, {found['cpu']:.0f} CPU-s ({ratios})",
                flush=True,
            )


if __name__ == "__main__":
    main()
