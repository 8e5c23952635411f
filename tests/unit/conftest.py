"""Flow tables made by hand, and the kind of job that the published rules were made for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pytest

from llmprism.model import FlowTable, InputCounts, Nic, Server, Switch, Topology

MILLISECOND = 1_000_000


class Record(NamedTuple):
    src: str
    dst: str
    start_ns: int
    end_ns: int
    bytes: int
    path: tuple[str, ...] | None = None


def flow_table_of(records: Iterable[Record]) -> FlowTable:
    rows = sorted((Record(*record) for record in records), key=lambda row: (row.src, row.dst, row.start_ns))
    addresses = sorted({row.src for row in rows} | {row.dst for row in rows})
    paths = sorted({row.path for row in rows if row.path is not None})
    pairs = sorted({(row.src, row.dst) for row in rows})
    counts = [sum((row.src, row.dst) == pair for row in rows) for pair in pairs]
    return FlowTable(
        addresses=tuple(addresses),
        paths=tuple(paths),
        pair_src=np.array([addresses.index(src) for src, _ in pairs], dtype=np.int32),
        pair_dst=np.array([addresses.index(dst) for _, dst in pairs], dtype=np.int32),
        pair_offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        start_ns=np.array([row.start_ns for row in rows], dtype=np.int64),
        end_ns=np.array([row.end_ns for row in rows], dtype=np.int64),
        bytes=np.array([row.bytes for row in rows], dtype=np.int64),
        path=np.array([-1 if row.path is None else paths.index(row.path) for row in rows], dtype=np.int32),
        counts=InputCounts(len(rows), len(rows)),
    )


class CleanJob(NamedTuple):
    """A job as RDMA telemetry shows it, one record per message. Address "a<server>r<rail>"; rail = tensor rank."""

    records: list[Record]
    topology: Topology
    groups: set[frozenset[str]]
    pipelines: set[tuple[str, ...]]
    step_ends_ns: list[int]


def clean_job_of(
    pp: int = 2, dp: int = 2, tp: int = 1, steps: int = 12, first_server: int = 0, slow_step: int | None = None
) -> CleanJob:
    """Every step of 1 s: eight activations forth and gradients back, then a ring of ten buckets of three sizes."""
    random = np.random.default_rng(pp * 100 + dp * 10 + tp)
    names = np.array(
        [[[f"a{first_server + s * dp + d:02}r{t}" for t in range(tp)] for d in range(dp)] for s in range(pp)]
    )
    records, ends, now = [], [], 1_700_000_000 * 1_000 * MILLISECOND
    for step in range(steps):
        for tensor in range(tp):
            for replica in range(dp):
                records += _pipeline_step(names[:, replica, tensor], now, random)
            for stage in range(pp if dp > 1 else 0):
                records += _ring_step(names[stage, :, tensor], now + 700 * MILLISECOND)
        ends.append(max(record.end_ns for record in records))
        now += (3000 if step == slow_step else 1000) * MILLISECOND
    servers = tuple(
        Server(f"server{number:02}", tuple(Nic(f"a{number:02}r{t}", t, f"leaf{t}") for t in range(tp)))
        for number in range(first_server, first_server + pp * dp)
    )
    return CleanJob(
        records,
        Topology(servers, tuple(Switch(f"leaf{t}", "leaf") for t in range(tp))),
        {frozenset(names[s, :, t].tolist()) for s in range(pp) for t in range(tp)} if dp > 1 else set(),
        {tuple(names[:, d, t].tolist()) for d in range(dp) for t in range(tp)} if pp > 1 else set(),
        ends,
    )


def _pipeline_step(stages: np.ndarray, now: int, random: np.random.Generator) -> list[Record]:
    records = []
    for stage in range(stages.size - 1):
        for batch in range(8):
            jitter = int(random.integers(0, 2 * MILLISECOND))
            forth = now + (10 + 40 * batch + 5 * stage) * MILLISECOND + jitter
            back = forth + 100 * MILLISECOND
            records.append(Record(stages[stage], stages[stage + 1], forth, forth + MILLISECOND, 4_194_304))
            records.append(Record(stages[stage + 1], stages[stage], back, back + MILLISECOND, 4_194_304))
    return records


def _ring_step(members: np.ndarray, now: int) -> list[Record]:
    return [
        Record(member, members[(place + 1) % members.size], now + 5 * bucket * MILLISECOND, end, size)
        for place, member in enumerate(members)
        for bucket in range(10)
        for end, size in [(now + (5 * bucket + 4) * MILLISECOND, (26, 25, 7)[bucket % 3] * 1_000_000)]
    ]


@pytest.fixture(scope="session")
def flow_table() -> Callable[[Iterable[Record]], FlowTable]:
    return flow_table_of


@pytest.fixture(scope="session")
def clean_job() -> Callable[..., CleanJob]:
    return clean_job_of
