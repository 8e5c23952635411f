"""Claim: what live costs per record does not grow with the number of jobs, and every page answers within half a second.

Plays rings of GPUs (no two with the same step) for 10, 100 and 1,000 jobs through intake and evaluator, on a clock that
runs with the records. Prints CPU seconds per million records of both, and after the largest run how long the API's
answers take, and what retention leaves in the tables once everything is old.
Usage: python benchmarks/service_growth.py [SECONDS] [JOBS...]
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import sqlalchemy as sql
from starlette.testclient import TestClient

from llmprism.service import schema
from llmprism.service.api.app import Live, create_app
from llmprism.service.config import Config, ServerSettings, StoreSettings
from llmprism.service.evaluator import Evaluator
from llmprism.service.intake import Intake, Payload
from llmprism.service.store import Store
from ring_jobs import BEGIN, RingJob, S, write_records

BATCH_S = 4
SLOWEST_S = 0.5
GROWTH = 1.5
"""CPU per record with most jobs against that with a tenth of them, at most."""

PATHS = ("/api/v1/overview", "/api/v1/jobs?limit=1000", "/api/v1/findings", "/api/v1/windows", "/api/v1/sources",
         "/api/v1/topology", "/metrics", "/")  # fmt: skip
KEPT = ("state", "counters", "clocks", "positions")
"""Tables whose rows do not grow with time: what is there now, and one row per source."""


def play(folder: Path, jobs: int, seconds: int) -> tuple[float, float, int, Store, Config, Intake]:
    """(CPU seconds of intake, of windows, records, and the store with them)."""
    config = Config(store=StoreSettings(folder=str(folder)), server=ServerSettings(requests_per_s=1e6))
    store = Store(config.store)
    store.create()
    now = [BEGIN]
    intake = Intake(store, config, lambda: now[0])
    worker = threading.Thread(target=intake.run)
    worker.start()
    evaluator = Evaluator(store, config, lambda: now[0])
    made = [RingJob(f"j{number}", period_s=1.0 + 0.00137 * number, chunks=3) for number in range(jobs)]
    database = duckdb.connect()
    taken = looked = 0.0
    records = 0
    for second in range(0, seconds, BATCH_S):
        rows = [row for job in made for row in job.records(second, second + BATCH_S)]
        file = folder / "bodies" / f"{second}.parquet"
        file.parent.mkdir(exist_ok=True)
        write_records(database, file, rows, 0.0)
        records += len(rows)
        now[0] = BEGIN + (second + BATCH_S) * S
        begun = time.process_time()
        intake.put(Payload("http:growth", file, file.stat().st_size), wait=True).result()
        middle = time.process_time()
        while evaluator.advance():
            pass
        taken += middle - begun
        looked += time.process_time() - middle
    intake.stop()
    worker.join()
    alive = sum(run.state.alive for run in evaluator.state.runs)
    print(f"{jobs} jobs ({alive} runs): {records:,} records; CPU s per million: intake {taken / records * 1e6:.2f}, "
          f"windows {looked / records * 1e6:.2f}", flush=True)  # fmt: skip
    return taken, looked, records, store, config, intake


def answers(store: Store, config: Config, intake: Intake) -> bool:
    """Times every path, the second of two calls."""
    client = TestClient(create_app(Live(config, store, intake, None, list), None), base_url="http://localhost")
    slowest = 0.0
    for path in PATHS:
        client.get(path)
        begun = time.process_time()
        answer = client.get(path)
        took = time.process_time() - begun
        slowest = max(slowest, took)
        print(f"  {path}: {answer.status_code}, {len(answer.content):,} bytes, {took * 1e3:.0f} ms", flush=True)
    return slowest <= SLOWEST_S


def emptied(store: Store) -> bool:
    """What is left of all tables when everything is older than may be kept."""
    far = BEGIN + 10**9 * S
    store.expire(far, far, far)
    with store.reading() as connection:
        left = {
            table.name: connection.execute(sql.select(sql.func.count()).select_from(table)).scalar()
            for table in schema.metadata.sorted_tables
        }
    print(f"  rows left after everything has expired: {left}", flush=True)
    return all(not count for name, count in left.items() if name not in KEPT)


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 80
    counts = [int(text) for text in sys.argv[2:]] or [10, 100, 1000]
    good, before = True, 0.0
    for jobs in counts:
        with tempfile.TemporaryDirectory() as name:
            taken, looked, records, store, config, intake = play(Path(name), jobs, seconds)
            cost = (taken + looked) / records
            good &= not before or cost <= GROWTH * before
            before = cost
            if jobs == counts[-1]:
                good &= answers(store, config, intake)
                good &= emptied(store)
            store.close()
    sys.exit(not good)


if __name__ == "__main__":
    main()
