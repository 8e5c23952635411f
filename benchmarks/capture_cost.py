"""CPU seconds of `llmprism diagnose --json` on each capture, against a bound that grows with its records.

    python benchmarks/capture_cost.py FOLDER... [--rounds 3] [--all] [--start 1.5] [--per-million 3]

A FOLDER holds `flows.parquet` and maybe `topology.json`, or folders that do. Every run is a process of its own; counted
is the user and system time of all its threads, as the kernel says, and the least of the rounds is taken: what disturbs
a run can only make it longer (so can a busy machine, by a half: a CPU second does less there). One more run before the
first round compiles kernels and keeps Python's byte code, as an installation does, whatever the environment says about
that. The bound: a start of 1.5 s and 3 s per million flow records. Prints the captures above it (`--all`: each), the
ratio of each to its bound, and how many are within; exits with 1 where one is above.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb

START_S = 1.5
PER_MILLION_S = 3.0
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """What one capture cost, and what it may cost."""

    name: str
    records: int
    cpu_s: float
    bound_s: float

    @property
    def above_s(self) -> float:
        return self.cpu_s - self.bound_s

    def line(self) -> str:
        return (
            f"{self.name:<44}{self.records:>10,}{self.cpu_s:>8.2f}{self.bound_s:>8.2f}{self.above_s:>+8.2f}"
            f"{self.cpu_s / self.bound_s:>7.2f}"
        )


def captures(folders: list[Path]) -> list[Path]:
    """The folders that hold flow records: these and the ones right inside them."""
    found = [
        one for folder in folders for one in (folder, *sorted(folder.iterdir())) if (one / "flows.parquet").exists()
    ]
    if not found:
        raise SystemExit("no flows.parquet in these folders")
    return found


def cpu_seconds(folder: Path) -> float:
    """User and system time of one process that diagnoses a capture."""
    command = [sys.executable, "-m", "llmprism", "diagnose", str(folder / "flows.parquet")]
    command += ["--json", os.devnull, "--quiet"]
    if (folder / "topology.json").exists():
        command += ["--topology", str(folder / "topology.json")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime


def records_of(folder: Path) -> int:
    metadata = duckdb.execute("SELECT num_rows FROM parquet_file_metadata(?)", [str(folder / "flows.parquet")])
    [(rows,)] = metadata.fetchall()
    return int(rows)


def cost_of(folder: Path, rounds: int, start_s: float, per_million_s: float) -> Cost:
    records = records_of(folder)
    cpu_seconds(folder)  # compiles what is not cached
    least = min(cpu_seconds(folder) for _ in range(rounds))
    return Cost(f"{folder.parent.name}/{folder.name}", records, least, start_s + per_million_s * records / 1e6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--start", type=float, default=START_S, help="Seconds that a run may take without a record.")
    parser.add_argument("--per-million", type=float, default=PER_MILLION_S, help="Seconds per million records.")
    parser.add_argument("--all", action="store_true", help="Print those within the bound too.")
    options = parser.parse_args()
    print(f"{'capture':<44}{'records':>10}{'CPU s':>8}{'bound':>8}{'above':>8}{'ratio':>7}", flush=True)
    costs: list[Cost] = []
    for folder in captures(options.folders):
        costs.append(cost_of(folder, options.rounds, options.start, options.per_million))
        if options.all or costs[-1].above_s > 0:
            print(costs[-1].line(), flush=True)
    above = [cost for cost in costs if cost.above_s > 0]
    worst = max(cost.cpu_s / cost.bound_s for cost in costs)
    mean = sum(cost.cpu_s for cost in costs) / len(costs)
    print(f"{len(costs) - len(above)} of {len(costs)} within the bound, largest ratio {worst:.2f}, mean {mean:.2f} s")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
