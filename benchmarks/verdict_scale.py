"""A large job with large logs: memory and time of the verdict beside those of its two parts. `make bench-verdict`.

Claim: reading flows and logs together takes the time of both added up, and no more memory than the larger of the two
and what the report itself holds. Flows come from the simulator (a job of some hundred ranks, one NIC slow), the logs
are written here with the same steps: one file per rank, iteration lines by the job's clock among lines of data
loading and NCCL. Each part runs in a process of its own; times are CPU seconds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

SCENARIO = """
title = "One large job, one slow NIC"
level = "medium"
seconds = 60
seed = 11
[cluster]
servers = {servers}
[[job]]
name = "large"
tp = 1
pp = 2
dp = {replicas}
micro_batches = 4
start_s = -30
[[fault]]
kind = "slow_nic"
job = "large"
rank = 9
at_s = 20
for_s = 20
factor = 6
"""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FILLER = (
    "INFO data_samplers: loading sample {n} from /data/train/part_{p:05d}_of_04096.bin in 0.{q:03d} s",
    "NCCL INFO Channel {q:02d}/0 : {p}[0] -> {n}[0] [send] via NET/IB/0/GDRDMA",
    "DEBUG allocator: reserved {n} bytes in {q} blocks, largest {p}",
)


def stamp(time_ns: int) -> str:
    return (EPOCH + timedelta(microseconds=time_ns // 1000)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def write_logs(folder: Path, members: list[str], ends: list[int], size: int) -> int:
    """One file per rank of `size` bytes in all; returns the bytes written."""
    folder.mkdir()
    total = 0
    filler = [form.format(n=17 * n, p=n % 4096, q=n % 999) for n in range(997) for form in FILLER]
    per_step = max(1, size // len(members) // len(ends) // 80)
    for rank, address in enumerate(members):
        lines = [
            f"host{rank}:7:7 [0] NCCL INFO Bootstrap: Using eth0:{address}<0>",
            f"host{rank}:7:7 [0] NCCL INFO comm 0x1 rank {rank} nranks {len(members)} - Init COMPLETE",
        ]
        for step, end in enumerate(ends, 1):
            took = (end - ends[step - 2]) / 1e6 if step > 1 else 900.0
            clock = stamp(end)
            begin = (rank * 31 + step * 7) % len(filler)
            some = [filler[(begin + n) % len(filler)] for n in range(per_step)]
            lines += [f"[{clock}] {text}" for text in some]
            lines.append(
                f"[{clock}] iteration {step}/90000 | elapsed time per iteration (ms): {took:.1f} | lm loss: 2.1 |"
            )
        text = "\n".join(lines) + "\n"
        (folder / f"rank{rank}.log").write_text(text)
        total += len(text)
    return total


def measured(arguments: list[str]) -> tuple[float, float]:
    """CPU seconds and peak MB of a command of its own."""
    code = (
        "import resource, sys\n"
        "from llmprism.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "own, kids = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "cpu = own.ru_utime + own.ru_stime + kids.ru_utime + kids.ru_stime\n"
        "print(f'MEASURED {cpu} {max(own.ru_maxrss, kids.ru_maxrss) / 1024} {code}', file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    line = next(line for line in reversed(run.stderr.splitlines()) if line.startswith("MEASURED"))
    seconds, peak, exit_code = line.split()[1:]
    if exit_code not in ("0", "None"):
        raise SystemExit(run.stderr)
    return float(seconds), float(peak)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=104, help="a multiple of 8")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--packed", action="store_true", help="also the same logs as one .tar.gz")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[1] / "src"))
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        (folder / "s.toml").write_text(SCENARIO.format(servers=options.ranks // 8, replicas=options.ranks // 2))
        measured(["simulate", str(folder / "s.toml"), "-o", str(folder / "flows"), "-q"])
        with gzip.open(folder / "flows/truth.json.gz", "rt") as file:
            (job,) = json.load(file)["jobs"]
        ends = [int(step["end_ns"]) for step in job["steps"]]
        size = write_logs(folder / "logs", job["members"], ends, options.megabytes * 10**6)
        flows, topology = str(folder / "flows/flows.parquet"), str(folder / "flows/topology.json")
        base = ["diagnose", flows, "-t", topology, "--quiet", "--jobs", "1"]
        one = str(folder / "logs/rank0.log")
        measured([*base, "--logs", one, "--json", str(folder / "a.json")])  # compiles what has to be, once
        parts = {
            "flows": measured([*base, "--json", str(folder / "a.json")]),
            "logs": measured(["logs", "diagnose", str(folder / "logs"), "-q"]),
            "both": measured([*base, "--logs", str(folder / "logs"), "--json", str(folder / "b.json")]),
        }
        if options.packed:
            packed = str(folder / "logs.tar.gz")
            with tarfile.open(packed, "w:gz", compresslevel=1) as archive:
                archive.add(folder / "logs", "logs")
            parts["logs, packed"] = measured(["logs", "diagnose", packed, "-q"])
            parts["both, packed"] = measured([*base, "--logs", packed, "--json", str(folder / "c.json")])
        joint = json.loads((folder / "b.json").read_text())
    print(f"{options.ranks} ranks, {len(ends)} steps, {size / 1e6:.0f} MB of logs")
    for name, (seconds, peak) in parts.items():
        print(f"{name:<14} {seconds:7.1f} CPU s {peak:8.0f} MB")
    added = parts["flows"][0] + parts["logs"][0]
    print(f"both / (flows + logs): {parts['both'][0] / added:.2f} in time")
    print(f"both / larger part: {parts['both'][1] / max(parts['flows'][1], parts['logs'][1]):.2f} in memory")
    (log,) = joint["logs"]
    matched = sum(rank["address"] is not None for rank in log["ranks"])
    said = "; ".join(
        f"{one['kind']} {one['where']['id']} rank {one['rank']} {one['source']}" for one in joint["findings"]
    )
    print(f"ranks matched {matched} of {options.ranks}, logs of job {log['job']} ({log['confidence']}); said: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
