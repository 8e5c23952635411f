"""What the Spark engine costs on one machine against the local engine, on the same file, and that both say the same.

    python benchmarks/spark.py [--records 4000000] [--master 'local[*]']

Each runs as a process of its own. CPU time is that of the process and all that it started (Spark's JVM and Python
workers are not its children to wait for, so they are looked up twice a second). Spark is expected to be slower here:
it starts a JVM, moves every record through it and starts Python beside it. The ratio says by how much.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import make_minute
from processes import cpu_seconds, descendants

EVERY_S = 0.5
SECONDS = 60


@dataclass(frozen=True, slots=True)
class Run:
    wall_s: float
    cpu_s: float
    report: bytes


def run(flows: Path, out: Path, *arguments: str) -> Run:
    """One diagnosis, timed with everything that it starts."""
    topology = flows.with_name(flows.stem + ".topology.json")
    command = [sys.executable, "-m", "llmprism", "diagnose", str(flows), "-t", str(topology), "--json", str(out), "-q"]
    begin = time.perf_counter()
    process = subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True)
    used: dict[int, float] = {}
    while process.poll() is None:
        used |= {pid: cpu_seconds(pid) for pid in (process.pid, *descendants(process.pid))}
        time.sleep(EVERY_S)
    if process.returncode != 0:
        raise SystemExit(f"failed: {process.stderr.read() if process.stderr else ''}")
    return Run(time.perf_counter() - begin, sum(used.values()), out.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--master", default="local[*]")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        flows = Path(folder) / "minute.parquet"
        make_minute.write(flows, SECONDS, arguments.records, 0)
        run(flows, Path(folder) / "warm.json")  # compiles the kernels where they are not cached
        local = run(flows, Path(folder) / "local.json")
        spark = run(flows, Path(folder) / "spark.json", "--engine", "spark", "--master", arguments.master)
    print(f"{arguments.records:,} records, {os.cpu_count()} cores, {arguments.master}")
    print(f"local: {local.wall_s:6.1f} s of wall time, {local.cpu_s:6.1f} s of CPU time")
    print(f"spark: {spark.wall_s:6.1f} s of wall time, {spark.cpu_s:6.1f} s of CPU time")
    print(f"ratio: {spark.wall_s / local.wall_s:6.1f} in wall time, {spark.cpu_s / local.cpu_s:6.1f} in CPU time")
    print(f"reports {'identical' if spark.report == local.report else 'DIFFERENT'}, {len(local.report):,} bytes")
    if spark.report != local.report:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
