"""How fast the simulator makes records, at 2,880 GPUs on one core, and how much memory it takes.

Prints records per second of processor time (kernels compiled before), the peak memory, and the ratio to the 500,000
records per second that the project promises.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from llmprism.sim import read_scenario, scaled, simulate

PROMISED = 500_000
"""Records per second on one core."""


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else "cluster-2880"
    scenario = read_scenario(name)
    with tempfile.TemporaryDirectory(prefix="simulate-") as work:
        simulate(scaled(scenario, minutes=0.02), Path(work) / "warm")
        begin = time.process_time()
        summary = simulate(scenario, Path(work) / "run")
        seconds = time.process_time() - begin
    rate = summary.records / seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {summary.gpus:,} GPUs, {summary.records:,} records in {seconds:.1f} s of one core")
    print(f"{rate:,.0f} records/s, {rate / PROMISED:.2f} times the promise; peak memory {peak:,.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
