"""Feeds mutated files of every kind to `read_flows`; a crash, an error that is not ours, or a hang fails.

    PYTHONPATH=src:tests/helpers python tests/fuzz/mutate_files.py 20000

Captures (pcap, pcapng), what collectors write (CSV, JSON Lines, a JSON array, TSV), Parquet with and without capture
notes, each plain, gzip or zstd. A file is damaged before it is compressed, after, or both. An error of ours must be one
line that names the file. No input may take longer than SECONDS_PER_FILE, which a loop without progress would; memory is
capped while it runs, and the peak is printed. Interrupted, it prints how far it came.
"""

from __future__ import annotations

import gzip
import json
import random
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from mutate_packets import mutated, one_file

import packet_frames as build
from llmprism.errors import LLMPrismError
from llmprism.ingest import convert_flows, read_flows

MEMORY_BYTES = 6 << 30
"""Address space, not memory: DuckDB's allocator and numba reserve far more than they touch."""
SECONDS_PER_FILE = 60
"""Of wall time: generous, because the machine may be busy with other things."""
T0 = 1_794_714_228

GOFLOW2 = {"time_flow_start_ns": T0 * 10**9, "time_flow_end_ns": T0 * 10**9 + 5, "src_addr": "a", "dst_addr": "b"}
PMACCT = {"ip_src": "a", "ip_dst": "b", "timestamp_start": "2026-11-15 03:43:48.000005", "bytes": 30, "packets": 1}
ZEEK = {"ts": T0 + 0.5, "id.orig_h": "a", "id.resp_h": "b", "duration": 0.25, "orig_bytes": 30, "resp_bytes": 4}
CONTRACT = "start_ns,end_ns,src,dst,bytes\n" + "".join(f"{n},{n + 5},a,b,{n + 1}\n" for n in range(40))
NFDUMP = "ts,te,td,sa,da,sp,dp,pr,ipkt,ibyt\n2026-11-15 03:43:48,2026-11-15 03:43:49,1,a,b,1,2,TCP,1,30\n"
FIELDS = "#separator \\x09\n#fields\tts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tduration\torig_bytes\tresp_bytes\n"
ZEEK_TSV = FIELDS + f"{T0}.5\ta\t1\tb\t2\t0.25\t30\t40\n#close\n"


def texts() -> list[bytes]:
    lines = [json.dumps(one) + "\n" for one in (GOFLOW2 | {"bytes": 3, "sampling_rate": 10}, PMACCT, ZEEK)]
    kafka = json.dumps({"topic": "flows", "payload": json.dumps(GOFLOW2 | {"bytes": 3})}) + "\n"
    array = json.dumps([PMACCT] * 5)
    return [text.encode() for text in (CONTRACT, NFDUMP, ZEEK_TSV, array, kafka * 3, *(line * 5 for line in lines))]


def parquets(folder: Path) -> list[bytes]:
    columns = {"start_ns": list(range(50)), "end_ns": list(range(5, 55)), "bytes": [7] * 50}
    pq.write_table(pa.table(columns | {"src": ["a"] * 50, "dst": ["b"] * 50}), folder / "plain.parquet")
    frames = [(10**18 + 1_000 * n, build.ethernet(p)) for n, p in enumerate(build.write_message(7, 0, 9_000))]
    (folder / "mirror.pcap").write_bytes(build.pcap([*frames, (10**18, build.ethernet(build.roce(build.CNP, 3, 0)))]))
    convert_flows([folder / "mirror.pcap"], folder / "noted.parquet")
    return [(folder / name).read_bytes() for name in ("plain.parquet", "noted.parquet")]


def one_input(rng: random.Random, seeds: list[bytes]) -> bytes:
    data = one_file(rng, packets=20) if rng.random() < 0.3 else rng.choice(seeds)
    if rng.random() < 0.7:
        data = mutated(rng, data)
    pack: Callable[[bytes], bytes] = rng.choice((bytes, bytes, gzip.compress, zstandard.compress))
    data = pack(data)
    return mutated(rng, data) if rng.random() < 0.4 else data


def read_one(file: Path, content: bytes, number: int, outcome: Counter[str]) -> None:
    file.write_bytes(content)
    signal.alarm(SECONDS_PER_FILE)
    try:
        outcome["records"] += read_flows([file], memory_limit="1GB").counts.used
        outcome["read"] += 1
    except LLMPrismError as error:
        outcome[type(error).__name__] += 1
        if "\n" in str(error) or str(file) not in str(error):
            sys.exit(f"file {number}: a message that is not one line with the name: {error}")
    signal.alarm(0)


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    rng, outcome = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds = [*texts(), *parquets(folder)]
        with suppress(KeyboardInterrupt):
            for number in range(wanted):
                read_one(folder / "input", one_input(rng, seeds), number, outcome)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    files = sum(count for name, count in outcome.items() if name != "records")
    sys.stdout.write(f"{files:,} mutated files: {dict(outcome)}; peak memory {peak:,.0f} MB\n")


if __name__ == "__main__":
    main()
