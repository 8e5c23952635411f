"""How much reading, interning and ordering flow records costs, against DuckDB reading and sorting the same file.

    python benchmarks/ingest.py                     # makes out/minute.parquet where it is missing
    python benchmarks/ingest.py flows.parquet

Prints the medians of interleaved runs, their ratio, and the peak memory of this process.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import make_minute
from llmprism.ingest import read_flows

ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def read_and_sort(file: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{file}') ORDER BY src, dst, start_ns")


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out/minute.parquet")
    if not file.exists():
        make_minute.write(file)
    records = read_flows([file]).counts.records  # also compiles the kernels
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(seconds(lambda: read_flows([file])))
        theirs.append(seconds(lambda: read_and_sort(file)))
    our_median, their_median = statistics.median(ours), statistics.median(theirs)
    print(f"{records:,} records: read_flows {our_median:.2f} s, DuckDB read + sort {their_median:.2f} s")
    print(f"ratio {our_median / their_median:.2f} (lower is better), peak memory of read_flows {peak_gb:.2f} GB")


if __name__ == "__main__":
    main()
