"""Reports and settings for tests of the service."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")

from llmprism.model import (
    Events,
    Evidence,
    Finding,
    FindingKind,
    InputCounts,
    Job,
    JobLayout,
    JobReport,
    JobState,
    Layout,
    PairRoles,
    Report,
    Steps,
    Timeline,
    TransferTable,
    Where,
    WhereType,
    Window,
)
from llmprism.service.config import Config, StoreSettings, WindowSettings
from llmprism.service.store import Store
from support.watch import Watch

S = 1_000_000_000
T0 = 1_790_000_000 * S


def transfers_of(addresses: tuple[str, ...], members: tuple[int, ...], ends: list[int]) -> TransferTable:
    """One pair that sends a message at each of these times."""
    end = np.array(sorted(set(ends)), np.int64)
    count = end.size
    return TransferTable(
        addresses, (), np.array([members[0]], np.int32), np.array([members[-1]], np.int32),
        np.array([0, count], np.int64), np.array([count], np.int64), end - 1, end, np.full(count, 10_000_000, np.int64),
        np.ones(count, np.int64), np.full(count, -1, np.int32), np.ones(count, np.int32),
    )  # fmt: skip


def job_report(
    name: str, addresses: tuple[str, ...], members: tuple[int, ...], bounds: list[int], last_ns: int, state: JobState
) -> JobReport:
    ends = np.array(bounds[1:], np.int64)
    steps = Steps(np.array(bounds[:-1], np.int64), ends, np.zeros(ends.size, np.bool_))
    layout = JobLayout(Layout(dp=len(members)), (), (), PairRoles.empty(), np.zeros(0, np.int8), 0.9)
    timeline = Timeline(steps, np.zeros((len(members), ends.size), np.int64), Events.empty())
    job = Job(name, members, ("s0",), 0.9, transfers_of(addresses, members, [*bounds, last_ns]))
    return JobReport(job, state, layout, timeline)


class Cluster:
    """Makes the reports of consecutive windows over one or more jobs that step every `period` seconds."""

    addresses = tuple(f"10.0.0.{index}" for index in range(16))

    def report(self, start_s: float, end_s: float, jobs=(), findings=()) -> Report:
        return Report(
            Window(T0 + int(start_s * S), T0 + int(end_s * S)), InputCounts(1, 1), self.addresses, tuple(jobs),
            tuple(findings),
        )  # fmt: skip

    def job(self, start_s, end_s, period=1.0, members=range(8), name="job-a", state=JobState.RUNNING, silent_s=None):
        stop = end_s if silent_s is None else min(silent_s, end_s)
        first = np.ceil(max(start_s, 0) / period)
        bounds = [int(T0 + k * period * S) for k in np.arange(first, stop / period + 1e-9)]
        return job_report(name, self.addresses, tuple(members), bounds, int(T0 + stop * S), state)

    def finding(self, start_s, end_s=None, kind=FindingKind.SLOW_NIC, job="job-a", place="10.0.0.3", lost=5.0):
        end = None if end_s is None else T0 + int(end_s * S)
        where = Where(WhereType.NIC, place)
        return Finding(
            kind, job, where, T0 + int(start_s * S), end, 0.6, 0.95, lost, "it is slow", (Evidence("rate", 1.0, 2.0),)
        )


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def config(tmp_path) -> Config:
    return Config(store=StoreSettings(folder=str(tmp_path / "data")), windows=WindowSettings(idle_after_s=1e6))


@pytest.fixture
def store(config):
    made = Store(config.store)
    made.create()
    yield made
    made.close()


@pytest.fixture
def watch(cluster):
    return Watch(cluster)
