"""Claim: what live costs per record does not grow with the number of jobs, and every page answers within half a second.

Plays rings of GPUs (no two with the same step) for 10 and 100 jobs through intake and evaluator, on a clock that runs
with the records, and prints CPU seconds per million records of both (`80 10 100 1000` on a quiet machine).
Then fills a store with 1,000 runs of 100 steps each and 100 findings, prints how long the API's answers take, and what
retention leaves in the tables once everything is old.
Usage: python benchmarks/service_growth.py [SECONDS] [JOBS...]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import sqlalchemy as sql
from starlette.testclient import TestClient

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.flows import InputCounts, Window
from llmprism.model.live import FindingPhase, LiveState, StepMark, TrackedFinding, TrackedRun
from llmprism.model.report import Report
from llmprism.service import schema
from llmprism.service.api.app import Live, create_app
from llmprism.service.config import Config, ServerSettings, StoreSettings
from llmprism.service.intake import Intake, Payload
from llmprism.service.picture import check_document, picture_document
from llmprism.service.played import PlayedService
from llmprism.service.runs import Transition
from llmprism.service.store import Store, WindowResult
from llmprism.service.tracker import Changes, TrackerState
from llmprism.service.windows import WindowPlan
from ring_jobs import BEGIN, RingJob, S, write_records

BATCH_S = 4
PAGE_JOBS = 1_000
SLOWEST_S = 0.5
GROWTH = 1.5
"""CPU per record with most jobs against that with a tenth of them, at most."""

PATHS = ("/api/v1/overview", "/api/v1/jobs?limit=1000", "/api/v1/findings", "/api/v1/windows", "/api/v1/sources",
         "/api/v1/topology", "/metrics", "/")  # fmt: skip
KEPT = ("state", "counters", "clocks", "positions", "findings")
"""Tables whose rows do not grow with time: what is there now, one row per source, and findings that are still open."""


def play(folder: Path, jobs: int, seconds: int) -> float:
    """CPU seconds per record of intake and windows."""
    config = Config(store=StoreSettings(folder=str(folder)), server=ServerSettings(requests_per_s=1e6))
    service = PlayedService(config, BEGIN)
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
        payload = Payload("http:growth", file, file.stat().st_size)
        taken += service.take_in([payload], BEGIN + (second + BATCH_S) * S)
        looked += service.make_windows()[1]
    service.stop_intake()
    alive = sum(run.state.alive for run in service.evaluator.state.runs)
    print(f"{jobs} jobs ({alive} runs): {records:,} records; CPU s per million: intake {taken / records * 1e6:.2f}, "
          f"windows {looked / records * 1e6:.2f}", flush=True)  # fmt: skip
    service.store.close()
    return (taken + looked) / records


def filled(folder: Path, jobs: int) -> tuple[Store, Config, Intake]:
    """A store with so many running jobs of 16 GPUs, a hundred steps of each, and a finding on every tenth."""
    config = Config(store=StoreSettings(folder=str(folder)), server=ServerSettings(requests_per_s=1e6))
    store = Store(config.store)
    store.create()
    end = BEGIN + 100 * S
    runs = tuple(
        TrackedRun(f"job-{number:010}", tuple(f"10.{number // 250}.{number % 250}.{gpu}" for gpu in range(16)),
                (f"server-{2 * number}", f"server-{2 * number + 1}"), LiveState.RUNNING, BEGIN, BEGIN, end, end,
                steps=100, last_step_end_ns=end, period_ns=S, recent_ns=S, baseline_ns=S, clear=9)
        for number in range(jobs)
    )  # fmt: skip
    steps = tuple((run.id, StepMark(k, BEGIN + k * S, BEGIN + (k + 1) * S, False)) for run in runs for k in range(100))
    findings = tuple(
        TrackedFinding(f"f-{run.id}", Finding(FindingKind.SLOW_NIC, run.id, Where(WhereType.NIC, run.members[0]), BEGIN,
                                           None, 0.2, 0.9, 10.0, "a slow NIC"), FindingPhase.OPEN, opened_ns=end)
        for run in runs[::10]
    )  # fmt: skip
    state = TrackerState(runs, (), findings)
    moved = tuple(Transition(run.id, BEGIN, None, LiveState.RUNNING, "first seen") for run in runs)
    changes = Changes(runs=runs, transitions=moved, steps=steps, findings=findings)
    picture = picture_document(Report(Window(BEGIN, end), InputCounts(0, 0), (), (), ()), state, {}, None, "", "")
    result = WindowResult(BEGIN, end, 0, 0, end, 1, check_document(state, ""), picture, {}, changes, state,
                          WindowPlan(end, end))  # fmt: skip
    store.commit_window(result)
    return store, config, Intake(store, config, lambda: end)


def answers(store: Store, config: Config, intake: Intake) -> bool:
    """Times every path, the second of two calls."""
    no_timelines: Any = None  # none of these paths asks for one
    client = TestClient(create_app(Live(config, store, intake, no_timelines, list), None), base_url="http://localhost")
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
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    counts = [int(text) for text in sys.argv[2:]] or ([10, 100] if len(sys.argv) < 2 or seconds else [])
    good, before = True, 0.0
    for jobs in counts:
        with tempfile.TemporaryDirectory() as name:
            cost = play(Path(name), jobs, seconds)
            good &= not before or cost <= GROWTH * before
            before = cost
    with tempfile.TemporaryDirectory() as name:
        store, config, intake = filled(Path(name), PAGE_JOBS)
        print(f"answers with {PAGE_JOBS:,} jobs:", flush=True)
        good &= answers(store, config, intake)
        good &= emptied(store)
        store.close()
    sys.exit(not good)


if __name__ == "__main__":
    main()
