"""A service without processes: jobs that step, sources that send them second by second, an intake and an evaluator.

Time is the test's own. A job is a ring of GPUs that exchange gradients once a step; a source reports on some jobs, with
a clock of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import duckdb

from llmprism.service.config import Config
from llmprism.service.evaluator import Evaluator
from llmprism.service.history import History
from llmprism.service.intake import Intake, Payload, clear_incoming
from llmprism.service.late_lane import LateEvaluator, LateStore
from llmprism.service.store import Store
from ring_jobs import BEGIN, RingJob, S, write_records

__all__ = ["BEGIN", "LiveCluster", "RingJob", "S", "Sender", "write_records"]


@dataclass
class Sender:
    """A source. `offset_s` of a second is how far its clock is ahead; `works` says whether it sends at all."""

    name: str
    jobs: list[RingJob]
    offset_s: Callable[[float], float] = lambda _second: 0.0
    works: Callable[[float], bool] = lambda _second: True


@dataclass
class LiveCluster:
    """`play` sends the seconds of a range and makes the windows that are due."""

    store: Store
    config: Config
    senders: list[Sender]
    own_offset_s: Callable[[float], float] = lambda _second: 0.0
    second: float = 0.0
    answers: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        clear_incoming(self.store)
        self.intake = Intake(self.store, self.config, now_ns=self.now_ns)
        self.thread = threading.Thread(target=self.intake.run, daemon=True)
        self.thread.start()
        self.late_store = LateStore(self.config.store, self.now_ns)
        self.store.late = False
        self.evaluator = Evaluator(self.store, self.config, self.now_ns)
        self.late_evaluator = LateEvaluator(self.late_store, self.config, self.now_ns)
        self.database = duckdb.connect()

    def close(self) -> None:
        self.intake.stop()
        self.thread.join()
        self.late_store.close()

    def now_ns(self) -> int:
        return BEGIN + int((self.second + self.own_offset_s(self.second)) * S)

    def play(self, seconds: Iterable[float]) -> None:
        for second in seconds:
            self.second = second + 1
            waiting = []
            for sender in self.senders:
                if sender.works(second):
                    records = [row for job in sender.jobs for row in job.records(second, second + 1)]
                    if records:
                        waiting.append(self.intake.put(self.payload(sender.name, records, sender.offset_s(second))))
            self.answers += [future.result(30) for future in waiting]
            self.drain()

    def send(self, source: str, records: list[tuple[int, int, str, str, int]], offset_s: float = 0.0) -> object:
        return self.intake.put(self.payload(source, records, offset_s)).result(30)

    def drain(self) -> None:
        while self.evaluator.advance() + self.late_evaluator.advance():
            pass

    def payload(self, source: str, records: list[tuple[int, int, str, str, int]], offset_s: float) -> Payload:
        path = self.store.folder / "bodies" / f"{source.replace('/', '_')}-{self.second}-{len(self.answers)}.parquet"
        write_records(self.database, path, records, offset_s)
        return Payload(source, path, path.stat().st_size, format="parquet")

    def states(self) -> dict[str, str]:
        """Job name → state of its run."""
        return {run.members[0].split("-gpu")[0]: run.state.value for run in self.evaluator.state.runs}

    def findings(self) -> list[str]:
        return [f"{one['kind']} {one['job']}" for one in History(self.store).findings(limit=1000)["items"]]
