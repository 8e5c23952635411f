"""Traffic that is not training: stores, bootstrap, heartbeats, a monitor, a mesh of pings, inference servers.

Sizes and rhythms are those of the real captures: some dozens of bytes per second between each rank and rank 0 (the
store), several control connections in addition to the data connections of each pair with 60-byte messages now and then,
a burst of a few kilobytes when a job starts. Inference is bulk without a rhythm: a request comes at random, its keys
and values go from one node to the next, the answer goes out in many small messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.sim.simulated_cluster import SimulatedCluster
from llmprism.units import SECOND

__all__ = ["JobSpan", "Mice", "background"]

STORE_PORT = 29_500
MONITOR_PORT = 9_100
STORE_PERIOD_S = 2.0
"""Between two store messages of one rank."""
HEARTBEAT_PERIOD_S = 1.0
"""Between two control messages of one pair, in jobs of up to HEARTBEAT_PAIRS pairs; larger jobs beat more slowly."""
HEARTBEAT_PAIRS = 500
MONITOR_PERIOD_S = 15.0
"""A usual scrape interval."""

PING_BYTES = 84
REQUEST_PERIOD_S = 0.8
"""Between two requests to one inference node, on the mean."""
TOKENS = 24
"""Messages that an answer goes out in."""
BULK_BYTES, BULK_NS_PER_BYTE = 65_536, 0.16
"""Larger records take their time: 50 Gb/s."""

Connect = Callable[[int, int, int, int], int]
Part = tuple[Int32, Int64, Int64]


@dataclass(frozen=True, slots=True)
class Mice:
    """Small records, sorted by end."""

    connection: Int32
    start: Int64
    end: Int64
    bytes: Int64


@dataclass(frozen=True, slots=True)
class JobSpan:
    """A job as the background sees it: NICs in rank order, its training pairs, when it runs, and from when on nobody is
    behind a NIC (`gone`): the connections of a process that died are closed."""

    nics: list[int]
    pairs: list[tuple[int, int]]
    first: int
    last: int
    gone: dict[int, int] = field(default_factory=dict)

    def until(self, *nics: int) -> float:
        """Up to when there is somebody behind all of these NICs."""
        return min(self.gone.get(nic, inf) for nic in nics)


def background(
    cluster: SimulatedCluster, jobs: list[JobSpan], window_ns: int, connect: Connect, rng: np.random.Generator
) -> Mice:
    """All small records of the window; `connect(src, dst, sport, dport)` returns a connection id."""
    parts: list[Part] = []
    for job in jobs if cluster.spec.transport == "tcp" else []:
        begin, end = max(job.first, 0), min(job.last, window_ns)
        if end <= begin:
            continue
        parts += _store(cluster, job, begin, end, connect, rng)
        parts += _control(job, begin, end, connect, rng)
    if cluster.monitor is not None:
        parts += _monitoring(cluster, window_ns, connect, rng)
    if cluster.spec.ping_mesh_s > 0:
        parts += _pings(cluster, window_ns, connect, rng)
    if cluster.spec.inference_nodes:
        parts += _inference(cluster, window_ns, connect, rng)
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Mice(none.astype(np.int32), none, none, none)
    connection = np.concatenate([part[0] for part in parts])
    start = np.concatenate([part[1] for part in parts])
    size = np.concatenate([part[2] for part in parts])
    finish = start + rng.integers(0, 40_000, start.size)
    finish += np.where(size > BULK_BYTES, size * BULK_NS_PER_BYTE, 0.0).astype(np.int64)
    order = np.argsort(finish, kind="stable")
    return Mice(connection[order], start[order], finish[order], size[order])


def _apart(cluster: SimulatedCluster, a: int, b: int) -> bool:
    return a != b and not (cluster.spec.nvlink and cluster.server_of(a) == cluster.server_of(b))


def _store(
    cluster: SimulatedCluster, job: JobSpan, begin: int, end: int, connect: Connect, rng: np.random.Generator
) -> list[Part]:
    master = job.nics[0]
    parts: list[Part] = []
    for nic in job.nics:
        if not _apart(cluster, master, nic):
            continue
        port = int(rng.integers(32_768, 60_999))
        count = max(1, int((end - begin) / SECOND / STORE_PERIOD_S))
        drawn = begin + np.cumsum(rng.exponential(STORE_PERIOD_S * SECOND, count))
        times: Int64 = drawn[drawn < end].astype(np.int64)
        asks = np.full(times.size, connect(nic, master, port, STORE_PORT), dtype=np.int32)
        answers = np.full(times.size, connect(master, nic, STORE_PORT, port), dtype=np.int32)
        ask_size, answer_size = rng.integers(31, 188, times.size), rng.integers(1, 137, times.size)
        live = times < job.until(nic, master)
        parts.append((asks[live], times[live], ask_size[live]))
        parts.append((answers[live], times[live] + 60_000, answer_size[live]))
    return parts


def _control(job: JobSpan, begin: int, end: int, connect: Connect, rng: np.random.Generator) -> list[Part]:
    """Control connections in addition to the data: bootstrap messages on each when the job starts, heartbeats on
    one."""
    parts: list[Part] = []
    period = HEARTBEAT_PERIOD_S * SECOND * max(1.0, len(job.pairs) / HEARTBEAT_PAIRS)
    sizes = np.array([4, 28, 144, 284, 540, 2296, 4588])
    for src, dst in job.pairs:
        beats = np.arange(begin + int(rng.integers(0, int(period))), end, int(period), dtype=np.int64)
        beats += rng.integers(0, SECOND // 20, beats.size)
        ports = rng.integers(32_768, 60_999, 2)
        ids = np.full(beats.size, connect(src, dst, int(ports[0]), int(ports[1])), dtype=np.int32)
        size, live = rng.choice(np.array([60, 60, 60, 72]), beats.size), beats < job.until(src, dst)
        parts.append((ids[live], beats[live], size[live]))
        for _ in range(int(rng.integers(2, 9)) if job.first >= 0 else 0):
            ports = rng.integers(32_768, 60_999, 2)
            count = int(rng.integers(1, 4))
            times: Int64 = begin + np.sort(rng.integers(0, SECOND // 2, count))
            ids = np.full(count, connect(src, dst, int(ports[0]), int(ports[1])), dtype=np.int32)
            parts.append((ids, times, rng.choice(sizes, count)))
    return parts


def _monitoring(cluster: SimulatedCluster, window_ns: int, connect: Connect, rng: np.random.Generator) -> list[Part]:
    monitor = cluster.monitor
    parts: list[Part] = []
    if monitor is None:
        return parts
    for nic in range(cluster.gpus):
        phase = int(rng.integers(0, int(MONITOR_PERIOD_S * SECOND)))
        times = np.arange(phase, window_ns, int(MONITOR_PERIOD_S * SECOND), dtype=np.int64)
        port = int(rng.integers(32_768, 60_999))
        asks = np.full(times.size, connect(monitor, nic, port, MONITOR_PORT), dtype=np.int32)
        answers = np.full(times.size, connect(nic, monitor, MONITOR_PORT, port), dtype=np.int32)
        parts.append((asks, times, np.full(times.size, 310, dtype=np.int64)))
        parts.append((answers, times + 900_000, rng.integers(11_000, 15_000, times.size)))
    return parts


def _pings(cluster: SimulatedCluster, window_ns: int, connect: Connect, rng: np.random.Generator) -> list[Part]:
    """Every NIC pings every other, each at its own moment of the period."""
    period = int(cluster.spec.ping_mesh_s * SECOND)
    parts: list[Part] = []
    for src in range(cluster.gpus):
        for dst in range(cluster.gpus):
            if src != dst:
                times = np.arange(int(rng.integers(0, period)), window_ns, period, dtype=np.int64)
                ids = np.full(times.size, connect(src, dst, 0, 0), dtype=np.int32)
                parts.append((ids, times, np.full(times.size, PING_BYTES, dtype=np.int64)))
    return parts


def _inference(cluster: SimulatedCluster, window_ns: int, connect: Connect, rng: np.random.Generator) -> list[Part]:
    nodes = list(cluster.inference)
    gateway = nodes[-1] + 1
    parts: list[Part] = []
    for place, node in enumerate(nodes):
        count = max(1, int(window_ns / SECOND / REQUEST_PERIOD_S))
        drawn = np.cumsum(rng.exponential(REQUEST_PERIOD_S * SECOND, count))
        requested: Int64 = drawn[drawn < window_ns].astype(np.int64)
        port = int(rng.integers(32_768, 60_999))
        parts.append(
            (_same(connect(gateway, node, port, 8000), requested), requested, rng.integers(800, 30_000, requested.size))
        )
        cache = rng.integers(2_000_000, 60_000_000, requested.size)
        follower = nodes[(place + 1) % len(nodes)]
        ready: Int64 = requested + rng.integers(20_000_000, 400_000_000, requested.size)
        if follower != node:
            parts.append((_same(connect(node, follower, port + 1, 8001), ready), ready, cache))
        spoken = (
            ready[:, None] + np.cumsum(rng.integers(8_000_000, 40_000_000, (requested.size, TOKENS)), axis=1)
        ).ravel()
        said: Int64 = spoken[spoken < window_ns]
        parts.append((_same(connect(follower, gateway, 8000, port), said), said, rng.integers(60, 900, said.size)))
    return parts


def _same(connection: int, times: Int64) -> Int32:
    return np.full(times.size, connection, dtype=np.int32)
