"""Claim: collectors that drop a file every five minutes, a minute late and out of order, are looked at completely.

Files as nfcapd rotates them (where nfcapd and nfdump are installed: written by a real nfcapd from NetFlow v5 packets,
else Parquet) hold three jobs: one hangs and is slowed by a NIC later, one crashes and comes back, one is healthy. The
second file comes after the third. Once the files are all there is, once three other jobs are streamed meanwhile. Time
is that of the records, so twenty minutes take two. Checks that every record is stored, that no time is left out (the
steps of the healthy job leave no gap), and that every fault was opened and closed once with the times at which it
happened.
Usage: python benchmarks/service_files.py [--files N] [--parquet]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import duckdb

from chaos_jobs import SECOND, Fault, FaultKind, Records, ScheduledJob, columns_of
from chaos_plan import Plan, Role, Tenant
from chaos_verdict import wrong_findings
from llmprism.service.config import Config, StoreSettings
from llmprism.service.evaluator import Evaluator
from llmprism.service.history import History
from llmprism.service.intake import Payload
from llmprism.service.late_lane import LateEvaluator, LateStore
from llmprism.service.played import PlayedService
from nfcapd_files import can_write_nfcapd, write_nfcapd

BEGIN: Final = 1_790_000_100 * SECOND
"""A multiple of five minutes."""

FILE_S: Final = 300
LATE_S: Final = 60
SOURCE: Final = "directory:spool"


class AddressedJob(ScheduledJob):
    """A job whose name is the first three parts of its addresses."""

    def address(self, gpu: int) -> str:
        return f"{self.name}.{gpu % self.gpus + 1}"


def job_of(address: str) -> str:
    return address.rpartition(".")[0]


def filed_jobs() -> list[ScheduledJob]:
    hang, slow = Fault(FaultKind.HANG, 400, 30), Fault(FaultKind.SLOW, 800, 40, gpu=3)
    crash = Fault(FaultKind.CRASH, 580, 45)  # across the end of a file
    return [
        AddressedJob("10.1.0", 0.53, faults=(hang, slow), seed=1),
        AddressedJob("10.1.1", 0.61, faults=(crash,), seed=2),
        AddressedJob("10.1.2", 0.7, seed=3),
    ]


class FilesRun:
    """`delivery` gives, for every file, the second at which it comes."""

    def __init__(self, folder: Path, files: int, *, streamed: bool, nfcapd: bool) -> None:
        self.folder, self.seconds, self.nfcapd = folder, files * FILE_S, nfcapd
        self.filed = filed_jobs()
        self.streamed = [AddressedJob(f"10.2.{k}", 0.5 + 0.07 * k, seed=10 + k) for k in range(3 if streamed else 0)]
        self.delivery = {(number + 1) * FILE_S + LATE_S: number for number in range(files)}
        if files > 2:  # the second file is held up and comes after the third
            del self.delivery[2 * FILE_S + LATE_S]
            self.delivery[3 * FILE_S + LATE_S + 10] = 1
        self.second = 0
        config = Config(store=StoreSettings(folder=str(folder / "data")))
        self.service = PlayedService(config, BEGIN)
        self.service.store.late = False
        self.service.evaluator = Evaluator(self.service.store, config, self._now)
        self.late_store = LateStore(config.store, self._now)
        self.late = LateEvaluator(self.late_store, config, self._now)
        self.sent = 0
        self._database = duckdb.connect()

    def _now(self) -> int:
        return BEGIN + self.second * SECOND

    def play(self) -> None:
        for second in range(1, self.seconds + LATE_S + 20):
            self.second = second
            payloads = [] if self.second > self.seconds else list(self._pushed())
            if self.second in self.delivery:
                payloads.append(self._file(self.delivery[self.second]))
            if payloads:
                self.service.take_in(payloads, self._now())
            self.service.make_windows()
            while self.late.advance():
                pass

    def _pushed(self) -> Iterator[Payload]:
        for job in self.streamed:
            path = self.folder / f"{job.name}-{self.second}.parquet"
            yield self._payload(f"http:{job.name}", [job.records(self.second - 1, self.seconds)], path)

    def _file(self, number: int) -> Payload:
        seconds = range(number * FILE_S, (number + 1) * FILE_S)
        records = [job.records(at, self.seconds) for at in seconds for job in self.filed]
        self.sent += sum(len(one) for one in records)
        return self._payload(SOURCE, records, self.folder / f"nfcapd.{number}", nfcapd=self.nfcapd)

    def _payload(self, source: str, records: list[Records], path: Path, *, nfcapd: bool = False) -> Payload:
        columns = columns_of(records, BEGIN)
        if nfcapd:
            write_nfcapd(list(zip(*(column.tolist() for column in columns.values()), strict=True)), path)
        else:
            self._database.register("sent", columns)
            self._database.execute(f"COPY (SELECT * FROM sent) TO '{path}' (FORMAT parquet)")
            self._database.unregister("sent")
        return Payload(source, path, path.stat().st_size)

    def wrong(self) -> list[str]:
        history = History(self.service.store)
        source = next(one for one in history.sources() if one["name"] == SOURCE)
        found = []
        if not source.get("received", 0) == source.get("stored", 0) == self.sent or source.get("unseen", 0):
            found.append(f"{self.sent} records were sent: {source}")
        runs, findings = history.runs(limit=1000)["items"], history.findings(limit=1000)["items"]
        plan = Plan(self.seconds, [Tenant("files", Role.FILES, self.filed), Tenant("http", Role.STEADY, self.streamed)])
        found += wrong_findings(plan, runs, findings, BEGIN, job_of)
        healthy = next(run for run in runs if job_of(run["members"][0]) == self.filed[2].name)
        seen, longest = self._seen_s(history, healthy)
        print(f"   {self.sent:,} records in files, {seen:.1f} of {self.seconds} s looked at, "
              f"longest gap between two steps {longest:.2f} s, {len(findings)} findings", flush=True)  # fmt: skip
        if seen < self.seconds - 10 or longest > 0.1:
            found.append(f"time was left out: {seen:.1f} of {self.seconds} s, gaps up to {longest:.2f} s")
        return found

    def _seen_s(self, history: History, run: dict[str, Any]) -> tuple[float, float]:
        """Seconds that the recorded steps of a job cover, and the longest time between two of them."""
        steps = history.steps(run["id"], None, None, limit=1_000_000)
        gaps = [later[1] - earlier[2] for earlier, later in pairwise(steps)]
        return sum(end - start for _, start, end, _ in steps) / SECOND, max(gaps, default=0) / SECOND

    def close(self) -> None:
        self.service.stop_intake()
        self.late_store.close()
        self.service.store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--parquet", action="store_true", help="do not use nfcapd though it is installed")
    options = parser.parse_args()
    nfcapd = can_write_nfcapd() and not options.parquet
    good = True
    for streamed in (False, True):
        print(f"{'nfcapd' if nfcapd else 'Parquet'} files, {'with' if streamed else 'without'} streams", flush=True)
        with tempfile.TemporaryDirectory(prefix="llmprism-files-") as name:
            run = FilesRun(Path(name), options.files, streamed=streamed, nfcapd=nfcapd)
            try:
                run.play()
                wrong = run.wrong()
            finally:
                run.close()
        for line in wrong:
            print(f"   WRONG: {line}")
        good &= not wrong
    print("everything was looked at, at its time" if good else "something is wrong")
    sys.exit(not good)


if __name__ == "__main__":
    main()
