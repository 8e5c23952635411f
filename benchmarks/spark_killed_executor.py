"""Kills executors of a running Spark diagnosis and compares the report with the local engine's.

    python benchmarks/spark_killed_executor.py [FLOWS] [--topology FILE] [--kills 3]

Starts a Spark of two executors, each a JVM of its own, on this machine (`local-cluster`). In every run but the first,
one executor is killed with SIGKILL, at a moment spread over the time that the undisturbed run took, with what it has
computed and kept. Spark starts another and runs again what was lost; the report must not change by a byte.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import command_of, descendants

MASTER = "local-cluster[2,1,1024]"
EXECUTOR = "CoarseGrainedExecutorBackend"
EXAMPLE = Path(__file__).parents[1] / "examples" / "slow_nic"
POLL_S = 0.1


def executors(pid: int) -> list[int]:
    return [child for child in descendants(pid) if EXECUTOR in command_of(child)]


def run(command: list[str], kill_after_s: float | None) -> tuple[float, int, str]:
    """(seconds since the first executor was there, the executor killed or 0, errors); the time counts from there."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    first, killed = 0.0, 0
    while process.poll() is None:
        alive = executors(process.pid)
        first = first or (time.perf_counter() if alive else 0.0)
        if kill_after_s is not None and not killed and alive and time.perf_counter() - first >= kill_after_s:
            killed = alive[0]
            os.kill(killed, signal.SIGKILL)
        time.sleep(POLL_S)
    _, errors = process.communicate()
    return time.perf_counter() - first, killed, errors if process.returncode != 0 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flows", nargs="?", default=str(EXAMPLE / "flows.parquet"))
    parser.add_argument("--topology", default=str(EXAMPLE / "topology.json"))
    parser.add_argument("--kills", type=int, default=3)
    arguments = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        diagnose = [sys.executable, "-m", "llmprism", "diagnose", arguments.flows, "-t", arguments.topology, "-q"]
        local, spark = Path(folder) / "local.json", Path(folder) / "spark.json"
        subprocess.run([*diagnose, "--json", str(local)], check=True)
        command = [*diagnose, "--json", str(spark), "--engine", "spark", "--master", MASTER]
        whole = 0.0
        for number in range(arguments.kills + 1):
            spark.unlink(missing_ok=True)
            after = whole * number / (arguments.kills + 1) if number else None
            seconds, killed, errors = run(command, after)
            whole = whole or seconds
            same = spark.exists() and spark.read_bytes() == local.read_bytes()
            what = f"executor {killed} killed after {after:.0f} s" if after is not None else "nothing killed"
            print(f"{what}: {seconds:.0f} s, report {'identical' if same else 'DIFFERENT'} {errors[-500:]}", flush=True)
            failures += not same or (after is not None and not killed)
    raise SystemExit(failures)


if __name__ == "__main__":
    main()
