"""Writes flow records of a synthetic cluster: 2,880 GPUs in eight jobs, by default one minute in four million records.

Every job is pipeline x data x tensor parallel with one rank per NIC. In each step neighbouring pipeline stages exchange
one message per micro-batch and direction, then every data-parallel ring sends its gradient buckets one way. A message
arrives as several records on several ports, as real collectors see it, and travels over one leaf or over leaf, spine,
leaf. The step period follows from the number of records that was asked for. Seeded; shares no code with llmprism.

    python benchmarks/make_minute.py out/minute.parquet
    python benchmarks/make_minute.py --seconds 600 --records 40000000 out/ten_minutes.parquet
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Ints = NDArray[np.int64]

GPUS_PER_SERVER = 8
SERVERS_PER_POD = 32
SPINES = 8
PORTS_PER_PAIR = 4
MICRO_BATCHES = 8
BUCKETS = 8
PIECES = 4
EPOCH_NS = 1_794_700_000_000_000_000
ROWS_PER_GROUP = 122_880
JOB_SHAPES = ((8, 16), (4, 16), (8, 8), (4, 8), (2, 16), (4, 4), (2, 8), (1, 8))
"""(pipeline, data) degrees; times eight tensor ranks per server: 1024, 512, 512, 256, 256, 128, 128 and 64 GPUs."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Directed pairs of NIC ids with, for each, the messages of one step as shares of the step and bytes."""

    src: Ints
    dst: Ints
    offsets: NDArray[np.float64]
    sizes: Ints

    @property
    def records_per_step(self) -> int:
        return int(self.src.size * self.offsets.shape[1] * PIECES)


def job_pairs(first_gpu: int, pp: int, dp: int) -> list[Pairs]:
    """The pipeline pairs (both ways) and the ring pairs of one job; GPU = first + (stage * dp + replica) * 8 + rail."""
    gpu = first_gpu + np.arange(pp * dp * GPUS_PER_SERVER).reshape(pp, dp, GPUS_PER_SERVER)
    pairs: list[Pairs] = []
    micro = np.arange(MICRO_BATCHES) / MICRO_BATCHES
    if pp > 1:
        down, up = gpu[:-1].ravel(), gpu[1:].ravel()
        stage = np.repeat(np.arange(pp - 1), dp * GPUS_PER_SERVER)[:, None] / (pp * MICRO_BATCHES)
        sizes = np.full(MICRO_BATCHES, 16 << 20)
        pairs.append(Pairs(down, up, 0.05 + 0.6 * micro + 0.2 * stage, sizes))
        pairs.append(Pairs(up, down, 0.10 + 0.6 * micro - 0.2 * stage + 0.05, sizes))
    ring = np.roll(gpu, -1, axis=1)
    bucket = np.broadcast_to(0.78 + 0.15 * np.arange(BUCKETS) / BUCKETS, (gpu.size, BUCKETS))
    sizes = (25 << 20) + 977 * 64 * np.arange(BUCKETS)
    pairs.append(Pairs(gpu.ravel(), ring.ravel(), bucket, sizes))
    return pairs


def records_of(pairs: Pairs, period_ns: int, seconds: int, rng: np.random.Generator) -> dict[str, Ints]:
    """All records of these pairs as columns of integers."""
    steps = max(1, seconds * 10**9 // period_ns)
    shape = (pairs.src.size, steps, pairs.offsets.shape[1], PIECES)
    start = pairs.offsets[:, None, :, None] * period_ns + period_ns * np.arange(steps)[None, :, None, None]
    start = start + 1.2e6 * np.arange(PIECES) + rng.exponential(2e5, shape)
    share = rng.dirichlet(np.full(PIECES, 20.0), shape[:3])
    size = np.maximum(64, (pairs.sizes[None, None, :, None] * share).astype(np.int64))
    length = (size * 8 / 40).astype(np.int64) + rng.integers(0, 50_000, shape)
    port = rng.integers(0, PORTS_PER_PAIR, shape)
    source = np.broadcast_to(pairs.src[:, None, None, None], shape)
    target = np.broadcast_to(pairs.dst[:, None, None, None], shape)
    begin = EPOCH_NS + start.astype(np.int64)
    return {
        "start": begin.ravel(),
        "end": (begin + length).ravel(),
        "src": source.ravel(),
        "dst": target.ravel(),
        "bytes": size.ravel(),
        "sport": (32_768 + (source * 131 + target * 17) % 20_000 + port).ravel(),
    }


def path_table(gpus: int) -> tuple[list[list[str]], int]:
    """Every possible path; index = (leaf of src * leaves + leaf of dst) * SPINES + spine."""
    pods = -(-gpus // (GPUS_PER_SERVER * SERVERS_PER_POD))
    names = [f"leaf-p{pod}-r{rail}" for pod in range(pods) for rail in range(GPUS_PER_SERVER)]
    table = [[a] if a == b else [a, f"spine{spine}", b] for a in names for b in names for spine in range(SPINES)]
    return table, len(names)


def leaf_of(gpu: Ints) -> Ints:
    return gpu // (GPUS_PER_SERVER * SERVERS_PER_POD) * GPUS_PER_SERVER + gpu % GPUS_PER_SERVER


def address_of(gpu: int) -> str:
    server, rail = divmod(gpu, GPUS_PER_SERVER)
    return f"10.{rail}.{server // 250}.{server % 250 + 1}"


def topology_of(gpus: int) -> dict[str, object]:
    leaves = path_table(gpus)[0]
    names = sorted({path[0] for path in leaves})
    servers = []
    for server in range(gpus // GPUS_PER_SERVER):
        ids = range(server * GPUS_PER_SERVER, (server + 1) * GPUS_PER_SERVER)
        nics = [
            {"address": address_of(g), "gpu": g % 8, "switch": f"leaf-p{server // SERVERS_PER_POD}-r{g % 8}"}
            for g in ids
        ]
        servers.append({"name": f"server{server:03d}", "nics": nics})
    switches = [{"name": name, "tier": "leaf"} for name in names]
    switches += [{"name": f"spine{spine}", "tier": "spine"} for spine in range(SPINES)]
    return {"servers": servers, "switches": switches}


def generate(seconds: int, records: int, seed: int) -> tuple[dict[str, Ints], int]:
    """Columns of all jobs, sorted by end time as a collector writes them; and the number of GPUs."""
    rng = np.random.default_rng(seed)
    jobs, first = [], 0
    for pp, dp in JOB_SHAPES:
        jobs.append(job_pairs(first, pp, dp))
        first += pp * dp * GPUS_PER_SERVER
    pace = rng.uniform(0.8, 1.25, len(jobs))
    per_second = sum(sum(p.records_per_step for p in job) * s for job, s in zip(jobs, pace, strict=True))
    base_ns = per_second * seconds / records * 1e9
    parts = [
        records_of(pairs, int(base_ns / speed), seconds, rng)
        for job, speed in zip(jobs, pace, strict=True)
        for pairs in job
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["end"], kind="stable")
    return {name: column[order] for name, column in columns.items()}, first


def batches(columns: dict[str, Ints], gpus: int) -> Iterator[pa.Table]:
    addresses = pa.array([address_of(gpu) for gpu in range(gpus)])
    table, leaves = path_table(gpus)
    paths = pa.array(table, pa.list_(pa.string()))
    for low in range(0, columns["start"].size, ROWS_PER_GROUP):
        rows = {name: column[low : low + ROWS_PER_GROUP] for name, column in columns.items()}
        spine = (rows["src"] + rows["dst"] + rows["sport"]) % SPINES
        path = (leaf_of(rows["src"]) * leaves + leaf_of(rows["dst"])) * SPINES + spine
        yield pa.table(
            {
                "start_ns": rows["start"],
                "end_ns": rows["end"],
                "src": addresses.take(pa.array(rows["src"])),
                "dst": addresses.take(pa.array(rows["dst"])),
                "sport": pa.array(rows["sport"].astype(np.uint16)),
                "dport": pa.array(np.full(rows["sport"].size, 4791, np.uint16)),
                "protocol": pa.array(np.full(rows["sport"].size, 17, np.uint8)),
                "bytes": rows["bytes"],
                "packets": rows["bytes"] // 4096 + 1,
                "switches": paths.take(pa.array(path)),
            }
        )


def write(out: Path, seconds: int = 60, records: int = 4_000_000, seed: int = 0) -> int:
    """Writes the records to `out` and the topology beside it; returns the number of records."""
    columns, gpus = generate(seconds, records, seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    writer: pq.ParquetWriter | None = None
    for batch in batches(columns, gpus):
        writer = writer or pq.ParquetWriter(out, batch.schema, compression="zstd")
        writer.write_table(batch)
    if writer is not None:
        writer.close()
    out.with_suffix(".topology.json").write_text(json.dumps(topology_of(gpus)), encoding="utf-8")
    return int(columns["start"].size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(f"{write(arguments.out, arguments.seconds, arguments.records, arguments.seed):,} records in {arguments.out}")


if __name__ == "__main__":
    main()
