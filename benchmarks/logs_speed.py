# ruff: noqa: E501 (log lines as they are)
"""Speed of the log reader: MB/s per core end to end for a folder, .gz and .tar.gz. `make bench-logs`.

Writes synthetic logs of many ranks (500 MB by default) once in each form, reads each in a process of its own and prints
the rate, the peak memory and the ratio to `zcat | grep -c` (`grep -c` for the folder) on the same files, and to drain3.
Times are CPU seconds of the process, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import gzip
import random
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.library import load_library
from llmprism.logs.reader import read_job


def lines_of(rank: int, rng: random.Random, steps: int = 400) -> list[str]:
    """Iteration lines, NCCL lines and data lines of one rank."""
    lines: list[str] = []
    for step in range(1, steps):
        clock = f"2026-11-15 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
        lines.append(
            f"{rank:2d}: [{clock}] iteration {step:8d}/ 1000000 | consumed samples: {step * 512:12d} | elapsed time per iteration (ms): {rng.uniform(400, 900):.1f} | "
            f"learning rate: {rng.random() * 1e-4:.6E} | global batch size: 512 | lm loss: {rng.uniform(1, 9):.6E} | loss scale: 1.0 | grad norm: {rng.random():.3f} | number of skipped iterations: 0 |"
        )
        if step % 10 == rank % 10:
            lines.append(
                f"{rank:2d}: node{rank // 8:03d}:{4000 + rank}:{5000 + rank} [{rank % 8}] NCCL INFO Channel {step % 16:02d}/0 : {rank}[{rank % 8}] -> {rank + 1}[{(rank + 1) % 8}] [send] via NET/IB/{rank % 8}/GDRDMA"
            )
        if step % 7 == 0:
            lines.append(
                f"{rank:2d}: [NeMo I {clock} data_samplers:{rank}] loading sample {rng.randint(0, 10**9)} from /data/train/part_{rng.randint(0, 4096):05d}_of_04096.bin in {rng.random():.3f} s"
            )
    return lines


def write_forms(folder: Path, size: int, ranks: int) -> dict[str, tuple[Path, int]]:
    """The same logs as a folder of ranks, as one packed file and as a packed archive: (path, bytes unpacked)."""
    rng = random.Random(7)
    job = folder / "job"
    job.mkdir()
    total = 0
    for rank in range(ranks):
        text = ("\n".join(lines_of(rank, rng)) + "\n").encode()
        repeats = max(size // ranks // len(text), 1)
        with (job / f"rank{rank}.log").open("wb") as file:
            for _ in range(repeats):
                file.write(text)
        total += repeats * len(text)
    packed, archive = folder / "job.log.gz", folder / "job.tar.gz"
    with gzip.open(packed, "wb", compresslevel=1) as out:
        for path in sorted(job.iterdir()):
            out.write(path.read_bytes())
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(job, "job")
    return {"folder": (job, total), ".gz": (packed, total), ".tar.gz": (archive, total)}


def own_rate(path: Path, size: int) -> tuple[float, float]:
    """(MB/s, peak MiB) of reading and diagnosing in a process of its own, kernels compiled before."""
    done = subprocess.run([sys.executable, __file__, "--read", str(path)], capture_output=True, text=True, check=True)
    seconds, peak = map(float, done.stdout.split())
    return size / seconds / 1e6, peak


def read_one(path: Path) -> None:
    library = load_library()
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.log"
        small.write_text("\n".join(lines_of(0, random.Random(1), 30)))
        diagnose_log(read_job([small], library))
    begun = time.process_time()
    diagnose_log(read_job([path], library))
    print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def grep_rate(path: Path, size: int) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if path.is_dir():
        subprocess.run(["grep", "-rc", "fallen off the bus", str(path)], capture_output=True, check=False)
    else:
        unpack = subprocess.Popen(["zcat", str(path)], stdout=subprocess.PIPE)
        subprocess.run(["grep", "-ac", "fallen off the bus"], stdin=unpack.stdout, capture_output=True, check=False)
        unpack.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return size / max(used, 1e-9) / 1e6


def drain3_rate(path: Path, size: int) -> float | None:
    """MB/s of drain3 with its own masking on the first `size` bytes, or None where it is not installed."""
    try:
        from drain3 import TemplateMiner
    except ImportError:
        return None
    with path.open("rb") as file:
        lines = file.read(size).decode().splitlines()
    miner = TemplateMiner()
    begun = time.process_time()
    for line in lines:
        miner.add_log_message(line)
    return size / (time.process_time() - begun) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--ranks", type=int, default=200)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read_one(options.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        forms = write_forms(Path(folder), options.megabytes * 1_000_000, options.ranks)
        for name, (path, size) in forms.items():
            rate, peak = own_rate(path, size)
            grep = grep_rate(path, size)
            print(
                f"{name}: {size / 1e6:.0f} MB, ours {rate:.0f} MB/s per core, peak {peak:.0f} MiB; grep {grep:.0f} MB/s, ratio {rate / grep:.3f}"
            )
        drain = drain3_rate(forms["folder"][0] / "rank0.log", 2_000_000)
        print(f"drain3 {drain:.2f} MB/s" if drain else "drain3 is not installed: no ratio")


if __name__ == "__main__":
    main()
