"""Claim: 200,000 records a second for ten minutes on two cores, windows at most 15 s behind, a stop found within 15 s.

Tenants (copies of the bundled healthy capture, as many as the rate takes) are written to Parquet bodies beforehand, one
per producer and second: on two cores whoever makes the records must not compete with the service. They are pushed as
the clock runs, under the times of the capture's epoch, on which all producers agree. The job of the last tenant stops
for good in the middle of a step after two thirds of the run. Prints every ten seconds how far the windows are behind
the last record and what the service uses; at the end whether received = stored + dropped, how long after the stop it
was found, and the processor seconds per million records. Give the machine to it alone, or shorten it.
Usage: python benchmarks/service_rate.py [--seconds S] [--rate RECORDS_PER_S] [--producers N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from processes import cpu_seconds, descendants
from running_service import Service
from tenants import BEGIN, SECOND, Tenants

BEHIND_S: Final = 15.0
FOUND_S: Final = 15.0
COST_S: Final = 3.0
"""CPU seconds per million records, of all processes of the service."""

SETTLE_S: Final = 20
"""Seconds at the beginning in which windows may be further behind: all jobs are new at once, and the first window in
which they are seen is made of the first seconds."""

READY_S: Final = 120
"""Seconds until the service is ready, at most: on a new installation it compiles before."""

REPORT_S: Final = 10
WINDOW_S: Final = 60
STANDING: Final = ("crash", "hang", "stall")


@dataclass
class Run:
    """What was sent and seen."""

    sent: int = 0
    refused: int = 0
    second: int = 0
    slipped_s: float = 0.0
    behind: list[tuple[int, float]] = field(default_factory=list)
    found_s: float | None = None


class Rate:
    def __init__(self, folder: Path, seconds: int, rate: int, producers: int) -> None:
        self.seconds, self.producers = seconds, producers
        self.tenants = Tenants(folder, rate)
        self.stop_s = 2 * seconds // 3
        print(f"{self.tenants.count} jobs of 16 GPUs, {self.tenants.rate:,.0f} records/s, {seconds} s", flush=True)
        self.bodies = [[self._body(folder, second, one) for one in range(producers)] for second in range(seconds)]
        size = sum(path.stat().st_size for second in self.bodies for path, _ in second)
        print(f"bodies written: {size / 1e6:,.0f} MB", flush=True)
        most = int(2 * WINDOW_S * self.tenants.rate)
        self.service = Service(
            folder / "data", None, "-t", str(folder / "topology.json"), WINDOWS__MAX_RECORDS=most,
            SERVER__REQUESTS_PER_S=10_000, WINDOWS__COMPILE_AHEAD="true",
        )  # fmt: skip
        self.run = Run()

    def _body(self, folder: Path, second: int, share: int) -> tuple[Path, int]:
        stops = second >= self.stop_s
        stopped = self.tenants.count - 1 if stops else None
        return self.tenants.body(folder, second, share, self.producers, without=stopped)

    def push(self, producer: int, second: int) -> None:
        path, records = self.bodies[second][producer]
        headers = {"content-type": "application/vnd.apache.parquet", "llmprism-producer": f"p{producer}"}
        headers |= {"llmprism-sequence": str(second + 1), "llmprism-records": str(records)}
        body = path.read_bytes()
        while True:
            request = urllib.request.Request(self.service.url + "/api/v1/flows", body, headers, method="POST")
            try:
                urllib.request.urlopen(request, timeout=120).read()
                break
            except urllib.error.HTTPError:
                self.run.refused += 1
                time.sleep(0.5)
        self.run.sent += records
        path.unlink()

    def play(self) -> None:
        self.service.until(lambda: self.service.ready()[0], READY_S)
        begun = time.monotonic()
        watcher = threading.Thread(target=self._watch, args=(begun,))
        for second in range(self.seconds):
            time.sleep(max(0.0, begun + second + 1 - time.monotonic()))
            threads = [threading.Thread(target=self.push, args=(one, second)) for one in range(self.producers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.run.second = second + 1
            self.run.slipped_s = max(self.run.slipped_s, time.monotonic() - begun - second - 1)
            if second == 0:
                watcher.start()
        watcher.join()

    def _watch(self, begun: float) -> None:
        """Every second how far the windows (and checks between them) are, by the records that were sent."""
        while self.run.second < self.seconds:
            time.sleep(1.0)
            items = self.service.get("/api/v1/windows?limit=1")["items"]
            second = self.run.second
            if items:
                self.run.behind.append((second, second - (items[0]["end_ns"] - BEGIN) / SECOND))
            if self.run.found_s is None and second > self.stop_s and self._finding():
                self.run.found_s = second - self.stop_s
            if second % REPORT_S == 0:
                behind = self.run.behind[-1][1] if self.run.behind else float("nan")
                speed = self.run.sent / (time.monotonic() - begun)
                used = f"{self.cpu():.0f} CPU s, refused {self.run.refused}"
                print(f"{second:4} s: {speed:,.0f} records/s, {behind:.0f} s behind, {used}", flush=True)

    def _finding(self) -> bool:
        found = self.service.get("/api/v1/findings?limit=100")["items"]
        return any(one["kind"] in STANDING for one in found)

    def cpu(self) -> float:
        pid = self.service.process.pid
        return sum(cpu_seconds(one) for one in (pid, *descendants(pid)))

    def judged(self) -> bool:
        run, sources = self.run, self.service.get("/api/v1/sources")["items"]
        received = sum(one.get("received", 0) for one in sources)
        stored = sum(one.get("stored", 0) for one in sources)
        dropped: dict[str, int] = {}
        for one in sources:
            for why, count in one["dropped"].items():
                dropped[why] = dropped.get(why, 0) + count
        exact = received == stored + sum(dropped.values()) and stored == run.sent
        worst = max((behind for second, behind in run.behind if second > SETTLE_S), default=float("nan"))
        others = self._others()
        print(f"sent {run.sent:,}, received {received:,}, stored {stored:,}, dropped {dropped}: exact {exact}")
        cost = self.cpu() / run.sent * 1e6
        print(f"windows at most {worst:.1f} s behind after {SETTLE_S} s; senders {run.slipped_s:.1f} s at most; "
              f"the stop was found after {run.found_s} s; {cost:.2f} CPU s per million records; "
              f"other findings {others}", flush=True)  # fmt: skip
        found = run.found_s is not None and run.found_s <= FOUND_S
        return exact and worst <= BEHIND_S and found and cost <= COST_S and not others

    def _others(self) -> list[Any]:
        found = self.service.get("/api/v1/findings?limit=100")["items"]
        return [(one["kind"], one["where"]["id"]) for one in found if one["kind"] not in STANDING]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--rate", type=int, default=200_000)
    parser.add_argument("--producers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmprism-rate-") as name:
        rate = Rate(Path(name), options.seconds, options.rate, options.producers)
        try:
            rate.play()
            good = rate.judged()
        finally:
            rate.service.stop()
    sys.exit(not good)


if __name__ == "__main__":
    main()
