# ruff: noqa: E501 (log lines as they are)
"""Speed of the log reader: MB/s per core end to end beside `grep -c` and drain3 in the same run. `make bench-logs`.

Writes a synthetic multi-rank log (2 GB by default) once, reads it through read and diagnose, and prints the ratios and
the peak memory. Times are CPU seconds of this process, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.library import load_library
from llmprism.logs.reader import read_job


def write_log(path: Path, size: int, ranks: int = 64) -> None:
    """Iteration lines, NCCL lines and data lines of many ranks with `srun -l` numbers, about `size` bytes."""
    rng = random.Random(7)
    block: list[str] = []
    for step in range(1, 400):
        clock = f"2026-11-15 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
        for rank in range(ranks):
            block.append(
                f"{rank:2d}: [{clock}] iteration {step:8d}/ 1000000 | consumed samples: {step * 512:12d} | elapsed time per iteration (ms): {rng.uniform(400, 900):.1f} | "
                f"learning rate: {rng.random() * 1e-4:.6E} | global batch size: 512 | lm loss: {rng.uniform(1, 9):.6E} | loss scale: 1.0 | grad norm: {rng.random():.3f} | number of skipped iterations: 0 |"
            )
            if step % 10 == rank % 10:
                block.append(
                    f"{rank:2d}: node{rank // 8:03d}:{4000 + rank}:{5000 + rank} [{rank % 8}] NCCL INFO Channel {step % 16:02d}/0 : {rank}[{rank % 8}] -> {(rank + 1) % ranks}[{(rank + 1) % 8}] [send] via NET/IB/{rank % 8}/GDRDMA"
                )
            if step % 7 == 0:
                block.append(
                    f"{rank:2d}: [NeMo I {clock} data_samplers:{rank}] loading sample {rng.randint(0, 10**9)} from /data/train/part_{rng.randint(0, 4096):05d}_of_04096.bin in {rng.random():.3f} s"
                )
    text = ("\n".join(block) + "\n").encode()
    with path.open("wb") as file:
        for _ in range(max(size // len(text), 1)):
            file.write(text)


def drain3_rate(path: Path, size: int) -> float | None:
    """MB/s of drain3 with its own masking on the first `size` bytes, or None where it is not installed."""
    try:
        from drain3 import TemplateMiner
    except ImportError:
        return None
    lines = path.open("rb").read(size).decode().splitlines()
    miner = TemplateMiner()
    begun = time.process_time()
    for line in lines:
        miner.add_log_message(line)
    return size / (time.process_time() - begun) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2000)
    options = parser.parse_args()
    library = load_library()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        write_log(path, options.megabytes * 1_000_000)
        small = Path(folder) / "small.log"
        write_log(small, 1)
        diagnose_log(read_job([small], library))  # compile the kernels
        size = path.stat().st_size
        begun = time.process_time()
        log = read_job([path], library)
        result = diagnose_log(log)
        ours = size / (time.process_time() - begun) / 1e6
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["grep", "-c", "fallen off the bus", str(path)], capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        grep = size / max(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1e-9) / 1e6
        drain = drain3_rate(path, 4_000_000)
    print(f"{size / 1e6:.0f} MB, {log.lines} lines, {len(log.shapes)} shapes, outcome {result.outcome.value}")
    print(f"ours {ours:.0f} MB/s per core; grep -c {grep:.0f} MB/s, ratio {ours / grep:.3f}")
    print(
        f"drain3 {drain:.2f} MB/s, ours is {ours / drain:.0f} times faster"
        if drain
        else "drain3 is not installed: no ratio"
    )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
