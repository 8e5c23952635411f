"""Speed of `llmprism diagnose --json` against DuckDB reading and sorting the same file, and how it grows.

    python benchmarks/speed.py [--records 4000000] [--growth]

Both run as processes of their own on the same file, in turn, so that load on the machine hits both; the CPU time and
the peak memory of each process are what the kernel says of it. `--growth` also takes ten times the records.
Prints ratios; the bounds (4 times, 3 GB, 12 times) are those that the project set itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import make_minute

ROUNDS = 3
SORT = (
    "import duckdb, sys; duckdb.connect().execute("
    "f\"CREATE TABLE t AS SELECT * FROM read_parquet('{sys.argv[1]}') ORDER BY src, dst, start_ns\")"
)


@dataclass(frozen=True, slots=True)
class Run:
    wall_s: float
    cpu_s: float
    peak_mb: float


def measured(command: list[str]) -> Run:
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return Run(time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def middle(runs: list[Run]) -> Run:
    return Run(*(statistics.median(getattr(run, name) for run in runs) for name in ("wall_s", "cpu_s", "peak_mb")))


def compare(flows: Path, rounds: int) -> tuple[Run, Run]:
    """Medians of (sorting, diagnosing), taken in turn."""
    topology = flows.with_name(flows.stem + ".topology.json")
    diagnose = [sys.executable, "-m", "llmprism", "diagnose", str(flows), "--topology", str(topology),
                "--json", os.devnull, "--quiet"]  # fmt: skip
    sort = [sys.executable, "-c", SORT, str(flows)]
    measured(diagnose)  # compiles the kernels where they are not cached
    pairs = [(measured(sort), measured(diagnose)) for _ in range(rounds)]
    return middle([pair[0] for pair in pairs]), middle([pair[1] for pair in pairs])


def show(name: str, run: Run) -> None:
    print(f"{name:<28}{run.wall_s:8.2f} s wall {run.cpu_s:8.2f} s CPU {run.peak_mb:8.0f} MB")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=4_000_000)
    arguments.add_argument("--growth", action="store_true")
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    options = arguments.parse_args()
    folder = Path("out")
    folder.mkdir(exist_ok=True)
    minute = folder / f"minute-{options.records}.parquet"
    if not minute.exists():
        make_minute.write(minute, records=options.records)
    sort, diagnose = compare(minute, options.rounds)
    show("DuckDB reads and sorts", sort)
    show("llmprism diagnose --json", diagnose)
    print(f"ratio {diagnose.wall_s / sort.wall_s:.2f} of wall time, {diagnose.cpu_s / sort.cpu_s:.2f} of CPU (bound 4)")
    print(f"{diagnose.cpu_s / options.records * 1e6:.2f} CPU seconds per million records")
    print(f"peak memory {diagnose.peak_mb:.0f} MB (bound 3000)")
    if options.growth:
        longer = folder / f"minute-{10 * options.records}.parquet"
        if not longer.exists():
            make_minute.write(longer, seconds=600, records=10 * options.records)
        _, grown = compare(longer, 1)
        show("ten times the records", grown)
        print(f"growth {grown.wall_s / diagnose.wall_s:.1f} of wall time (bound 12)")


if __name__ == "__main__":
    main()
