"""Claim: a service that is left alone survives chaos: nothing is lost without a word, no healthy job is blamed.

Tenants with jobs of their own (no two step alike: those would be one job's rails) send every second, under names of
their own. Meanwhile clocks jump and drift, a collector of two jobs dies and comes back, jobs crash and end, and the
service and its evaluator are killed with `kill -9` again and again. At the end, for every source: sent = received =
stored + dropped by reason; every planted crash was opened once; no other job has a crash, a hang or a stall; memory
has not grown. Databases, brokers and disks that go away have tests of their own (`tests/e2e`).
Usage: python benchmarks/service_chaos.py [SECONDS] [TENANTS] [SEED]
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from ring_jobs import RingJob, S, write_records
from running_service import Service

WARM_S = 25
"""Jobs are known after this time; then the chaos begins."""

CATCH_UP_S = 300
"""How long windows may take to catch up with the records at the end, on a machine that is busy otherwise."""

LAST_WINDOW_S = 8
"""The last window ends at most so long before the last record: lateness, and a hop between two windows."""

PLANTED = ("crash", "hang", "stall")


@dataclass
class Tenant:
    """A collector and its jobs; `offset_s` moves its clock, `away` are times in which it sends nothing."""

    name: str
    jobs: list[RingJob]
    offset_s: Any = field(default=lambda _second: 0.0)
    away: tuple[tuple[float, float], ...] = ()
    sent: int = 0
    number: int = 0


class Chaos:
    def __init__(self, folder: Path, seconds: int, tenants: int, seed: int) -> None:
        self.folder, self.seconds, self.chance = folder, seconds, random.Random(seed)
        self.running = Service(folder / "data", None, WINDOWS__IDLE_AFTER_S=3)
        self.begin_ns = 0
        self.tenants = [self._tenant(number) for number in range(tenants)]
        self.crashed: set[str] = set()
        self.kills = {"service": 0, "evaluator": 0}
        self.memory: list[int] = []

    def _tenant(self, number: int) -> Tenant:
        count = 2 if number % 3 == 0 else 1
        jobs = [RingJob(f"t{number}j{k}", period_s=0.4 + 0.0173 * (2 * number + k)) for k in range(count)]
        return Tenant(f"tenant{number}", jobs)

    def plant(self) -> None:
        """One fault of each kind per dozen tenants, at random times, each to a tenant of its own."""
        free = [tenant for tenant in self.tenants if len(tenant.jobs) == 1]
        pairs = [tenant for tenant in self.tenants if len(tenant.jobs) == 2]
        self.chance.shuffle(free)
        for tenant, kind in zip(free, ("ahead", "drift", "jump", "behind", "crash", "end"), strict=False):
            at = self.chance.uniform(WARM_S, self.seconds * 0.6)
            if kind == "ahead":
                tenant.offset_s = lambda second, at=at: 40.0 if second > at else 0.0
            elif kind == "drift":
                tenant.offset_s = lambda second, at=at: max(0.0, second - at) * 0.5
            elif kind == "jump":
                tenant.offset_s = lambda second, at=at: 300.0 if at < second < at + 15 else 0.0
            elif kind == "behind":
                tenant.offset_s = lambda second, at=at: -200.0 if second > at else 0.0
            elif kind == "crash":
                _crash(tenant.jobs[0], at)
                self.crashed.add(tenant.jobs[0].name)
            else:
                tenant.jobs[0].until_s = at
        if len(pairs) > 1:
            at = self.chance.uniform(WARM_S, self.seconds * 0.5)
            pairs[0].away = ((at, at + 20),)
            _crash(pairs[1].jobs[1], at + 5)
            self.crashed.add(pairs[1].jobs[1].name)

    def send(self, tenant: Tenant) -> None:
        """A collector's own thread: every second what ended in it, until it is stored."""
        database = duckdb.connect()
        file = self.folder / f"{tenant.name}.parquet"
        for second in range(self.seconds):
            wait = self.begin_ns / 1e9 + second + 1 - time.time()
            if wait > 0:
                time.sleep(wait)
            records = [row for job in tenant.jobs for row in job.records(second, second + 1)]
            if not records or any(start <= second < end for start, end in tenant.away):
                continue
            write_records(database, file, records, tenant.offset_s(second))
            self._push(tenant, file.read_bytes(), len(records))

    def _push(self, tenant: Tenant, body: bytes, records: int) -> None:
        tenant.number += 1
        headers = {"content-type": "application/vnd.apache.parquet", "llmprism-producer": tenant.name}
        headers |= {"llmprism-sequence": str(tenant.number), "llmprism-records": str(records)}
        request = urllib.request.Request(self.running.url + "/api/v1/flows", body, headers, method="POST")
        while True:
            try:
                urllib.request.urlopen(request, timeout=30).read()
            except urllib.error.HTTPError as error:
                if error.code not in (409, 429, 503):
                    raise
                time.sleep(0.5)
            except OSError:
                time.sleep(0.3)
            else:
                tenant.sent += records
                return

    def kill(self, stop: threading.Event) -> None:
        while not stop.wait(self.chance.uniform(12, 20)):
            if self.chance.random() < 0.5:
                self.running.kill()
                self.running.start()
                self.running.get("/healthz")
                self.kills["service"] += 1
            else:
                found = subprocess.run(
                    ["pgrep", "-P", str(self.running.process.pid)], capture_output=True, text=True, check=False
                )
                for child in found.stdout.split()[:1]:
                    os.kill(int(child), signal.SIGKILL)
                    self.kills["evaluator"] += 1

    def run(self) -> None:
        self.running.get("/healthz")
        self.begin_ns = (int(time.time()) + 1) * S
        for tenant in self.tenants:
            for job in tenant.jobs:
                job.begin_ns = self.begin_ns
        self.plant()
        senders = [threading.Thread(target=self.send, args=(tenant,)) for tenant in self.tenants]
        stop = threading.Event()
        killer = threading.Thread(target=self.kill, args=(stop,))
        for thread in senders:
            thread.start()
        time.sleep(WARM_S)
        killer.start()
        while any(thread.is_alive() for thread in senders):
            self.memory.append(self._memory_mb())
            time.sleep(5)
        stop.set()
        killer.join()
        time.sleep(12)
        self.running.until(self._caught_up, CATCH_UP_S)

    def _caught_up(self) -> bool:
        """Have all windows been made for which there are records? A busy machine may need a while."""
        now = self.running.get("/api/v1/overview")
        return bool(now["window"]) and now["latest_ns"] - now["window"]["end_ns"] < LAST_WINDOW_S * S

    def _memory_mb(self) -> int:
        try:
            text = Path(f"/proc/{self.running.process.pid}/status").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) // 1000 for line in text.splitlines() if line.startswith("VmRSS")), 0)

    def verdict(self) -> list[str]:
        """What does not hold; empty where everything does."""
        wrong = []
        sources = {one["name"]: one for one in self.running.get("/api/v1/sources")["items"]}
        for tenant in self.tenants:
            source = sources.get(f"http:{tenant.name}", {"dropped": {}})
            received, stored = source.get("received", 0), source.get("stored", 0)
            if not tenant.sent == received == stored + sum(source["dropped"].values()):
                wrong.append(f"{tenant.name}: sent {tenant.sent}, received {received}, stored {stored}, {source}")
        names = {}
        for run in self.running.get("/api/v1/jobs?limit=1000")["items"]:
            names[run["id"]] = run["members"][0].split("-gpu")[0]
        wrong_clocks = {job.name for tenant in self.tenants if tenant.offset_s(self.seconds) for job in tenant.jobs}
        jumped = {job.name for tenant in self.tenants for job in tenant.jobs if tenant.offset_s(0) != 0}
        opened: dict[str, int] = {}
        for finding in self.running.get("/api/v1/findings?limit=1000")["items"]:
            job = names.get(finding["job"], "?")
            if finding["kind"] in PLANTED:
                opened[job] = opened.get(job, 0) + 1
                if job not in self.crashed | wrong_clocks | jumped | self._clocks_that_moved():
                    wrong.append(f"{job} is healthy and has a finding: {finding['kind']} ({finding['summary']})")
        wrong += [f"{job} crashed: opened {opened.get(job, 0)} times" for job in self.crashed if opened.get(job) != 1]
        half = len(self.memory) // 2
        if half and max(self.memory[half:]) > 1.5 * max(self.memory[:half]) + 100:
            wrong.append(f"memory grows: {self.memory}")
        return wrong

    def _clocks_that_moved(self) -> set[str]:
        """Jobs whose own clock jumped: the jump is a gap in their own time."""
        times = range(self.seconds)
        moved = [tenant for tenant in self.tenants if len({round(tenant.offset_s(at)) for at in times}) > 1]
        return {job.name for tenant in moved for job in tenant.jobs}


def _crash(job: RingJob, at_s: float) -> None:
    """In the middle of the step's exchange."""
    job.crashes_at_s = (int(at_s / job.period_s) + 0.8) * job.period_s


def main() -> int:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 3_600
    tenants = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory(prefix="llmprism-chaos-") as folder:
        chaos = Chaos(Path(folder), seconds, tenants, seed)
        try:
            chaos.run()
            wrong = chaos.verdict()
        finally:
            chaos.running.stop()
        sent = sum(tenant.sent for tenant in chaos.tenants)
        jobs = sum(len(tenant.jobs) for tenant in chaos.tenants)
        print(f"{seconds} s, {tenants} tenants, {jobs} jobs, {sent:,} records, kill -9: {chaos.kills}")
        print(f"memory of the service in MB: {chaos.memory[::6]}")
        for line in wrong:
            print(f"WRONG: {line}")
        print(f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
