"""Small training jobs made by hand for tests, with their truth: pipelines, rings, records cut in pieces.

Not a simulator: one synchronous job at a time, worked out step by step. A stage runs its micro-batches in 1F1B or GPipe
order; when it is done with the last one, its data-parallel ring passes gradients round in chunks. A member first sends
the chunk that it has; the others follow at the pace of the slowest member and of the slowest NIC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from llmprism.ingest import assemble_transfers
from llmprism.model import FlowTable, InputCounts, Nic, Server, Switch, Topology, TransferTable

US = 1_000
MS = 1_000_000
SECOND = 1_000_000_000
EPOCH = 1_700_000_000 * SECOND
BUFFERED_BYTES = 1_000_000
"""What a member can send to a peer that is not ready yet."""


class Flow(NamedTuple):
    src: str
    dst: str
    start_ns: int
    end_ns: int
    bytes: int
    path: tuple[str, ...] | None = None


def flow_table(records: Iterable[Flow]) -> FlowTable:
    rows = sorted(records, key=lambda row: (row.src, row.dst, row.start_ns))
    addresses = sorted({row.src for row in rows} | {row.dst for row in rows})
    paths = sorted({row.path for row in rows if row.path is not None})
    number, path_number = {a: i for i, a in enumerate(addresses)}, {p: i for i, p in enumerate(paths)}
    first = [i for i, row in enumerate(rows) if i == 0 or rows[i - 1][:2] != row[:2]]
    return FlowTable(
        addresses=tuple(addresses),
        paths=tuple(paths),
        pair_src=np.array([number[rows[i].src] for i in first], dtype=np.int32),
        pair_dst=np.array([number[rows[i].dst] for i in first], dtype=np.int32),
        pair_offsets=np.array([*first, len(rows)], dtype=np.int64),
        start_ns=np.array([row.start_ns for row in rows], dtype=np.int64),
        end_ns=np.array([row.end_ns for row in rows], dtype=np.int64),
        bytes=np.array([row.bytes for row in rows], dtype=np.int64),
        path=np.array([-1 if row.path is None else path_number[row.path] for row in rows], dtype=np.int32),
        counts=InputCounts(len(rows), len(rows)),
    )


def transfer_table(records: Iterable[Flow]) -> TransferTable:
    return assemble_transfers(flow_table(records))


def cut_in_pieces(records: Iterable[Flow], seed: int = 0, ports: int = 3) -> list[Flow]:
    """The same bytes as a TCP collector shows them: over several ports, ended at pauses of some 100 µs."""
    random = np.random.default_rng(seed)
    pieces: list[Flow] = []
    for record in records:
        span, streams = record.end_ns - record.start_ns, int(random.integers(1, ports + 1))
        if span < MS or record.bytes < 100_000:
            pieces.append(record)
            continue
        shares = np.diff(np.sort(random.integers(0, record.bytes, streams - 1)), prepend=0, append=record.bytes)
        for size in shares.tolist():
            middle = record.start_ns + int(span * random.uniform(0.3, 0.7))
            head = int(size * random.uniform(0.3, 0.7))
            begin = (
                record.start_ns if not pieces or streams == 1 else record.start_ns + int(random.integers(0, 50 * US))
            )
            pieces.append(record._replace(start_ns=begin, end_ns=middle, bytes=head))
            pieces.append(record._replace(start_ns=middle + int(random.integers(50, 200)) * US, bytes=size - head))
    return pieces


def always(_stage: int, _replica: int, _step: int) -> float:
    return 1.0


@dataclass(frozen=True)
class JobShape:
    """What a job looks like. `compute_factor(stage, replica, step)` slows a GPU, `rate_factor(address, step)` a NIC.

    `forward_ms` is one micro-batch on one stage; the backward pass takes twice as long.
    """

    pp: int = 2
    dp: int = 2
    tp: int = 1
    steps: int = 20
    micro_batches: int = 4
    order: str = "1f1b"
    forward_ms: float = 10.0
    optimizer_ms: float = 40.0
    activation_bytes: int = 2_000_000
    gradient_bytes: int = 24_000_000
    rate_gbps: float = 20.0
    jitter: float = 0.05
    setup_factor: float = 6.0
    setup_bytes: int = 7_300_000
    pause_after: dict[int, float] = field(default_factory=dict)
    start_ns: int = EPOCH
    name: str = "a"
    first_server: int = 0
    seed: int = 0
    compute_factor: Callable[[int, int, int], float] = always
    rate_factor: Callable[[str, int], float] = lambda _address, _step: 1.0


@dataclass(frozen=True)
class BuiltJob:
    records: list[Flow]
    topology: Topology
    members: frozenset[str]
    rings: tuple[tuple[str, ...], ...]
    pipelines: tuple[tuple[str, ...], ...]
    step_ends_ns: list[int]
    shape: JobShape

    @property
    def groups(self) -> set[frozenset[str]]:
        return {frozenset(ring) for ring in self.rings}


def address_of(shape: JobShape, stage: int, replica: int, rail: int) -> str:
    return f"{shape.name}{shape.first_server + stage * shape.dp + replica:02}r{rail}"


def build_job(shape: JobShape | None = None, **changes: object) -> BuiltJob:
    """A job of this shape: stage s of replica d is server s * dp + d, one NIC per tensor rank (rail)."""
    shape = shape or JobShape(**changes)  # type: ignore[arg-type]
    random = np.random.default_rng(shape.seed)
    records: list[Flow] = []
    ends: list[int] = []
    now = shape.start_ns
    if shape.setup_bytes and shape.dp > 1:
        for stage in range(shape.pp):
            records += _ring(shape, stage, [now] * shape.dp, 0, shape.setup_bytes)[0]
        now = max((r.end_ns for r in records), default=now) + 400 * MS
    for step in range(shape.steps):
        sent, now = _step(shape, step, now, random)
        records += sent
        ends.append(max(r.end_ns for r in sent))
        now = max(now, ends[-1]) + int((shape.optimizer_ms + shape.pause_after.get(step, 0.0)) * MS)
    servers = tuple(
        Server(f"server{n:02}", tuple(Nic(f"{shape.name}{n:02}r{t}", t, f"leaf{t}") for t in range(shape.tp)))
        for n in range(shape.first_server, shape.first_server + shape.pp * shape.dp)
    )
    rails = range(shape.tp)
    return BuiltJob(
        records,
        Topology(servers, tuple(Switch(f"leaf{t}", "leaf") for t in rails)),
        frozenset(nic.address for server in servers for nic in server.nics),
        tuple(
            tuple(address_of(shape, s, d, t) for d in range(shape.dp)) for t in rails for s in range(shape.pp)
        ) if shape.dp > 1 else (),
        tuple(
            tuple(address_of(shape, s, d, t) for s in range(shape.pp)) for t in rails for d in range(shape.dp)
        ) if shape.pp > 1 else (),
        ends,
        shape,
    )  # fmt: skip


def _step(shape: JobShape, step: int, now: int, random: np.random.Generator) -> tuple[list[Flow], int]:
    records: list[Flow] = []
    done = np.zeros((shape.pp, shape.dp), dtype=np.int64)
    for replica in range(shape.dp):
        sent, ready = _pipeline(shape, step, replica, now, random)
        records += sent
        done[:, replica] = ready
    last = int(done.max())
    for stage in range(shape.pp if shape.dp > 1 else 0):
        sent, end = _ring(shape, stage, done[stage].tolist(), step, shape.gradient_bytes)
        records += sent
        last = max(last, end)
    return records, last


def _order_of(shape: JobShape, stage: int) -> list[tuple[str, int]]:
    count = shape.micro_batches
    forward, backward = [("f", m) for m in range(count)], [("b", m) for m in range(count)]
    if shape.order == "gpipe":
        return forward + backward
    warm = min(shape.pp - stage - 1, count)
    steady = [op for pair in zip(forward[warm:], backward, strict=False) for op in pair]
    return forward[:warm] + steady + backward[count - warm :]


def _pipeline(
    shape: JobShape, step: int, replica: int, now: int, random: np.random.Generator
) -> tuple[list[Flow], list[int]]:
    """Messages of one pipeline in one step (on all rails alike), and when each stage is done computing."""
    todo = [_order_of(shape, stage) for stage in range(shape.pp)]
    clock, arrived, records = [now] * shape.pp, {}, []
    while any(todo):
        for stage in range(shape.pp):
            if not todo[stage]:
                continue
            what, batch = todo[stage][0]
            source = stage - 1 if what == "f" else stage + 1
            outer = source < 0 or source >= shape.pp
            if not outer and (what, stage, batch) not in arrived:
                continue
            todo[stage].pop(0)
            begin = max(clock[stage], now if outer else arrived[what, stage, batch])
            length = shape.forward_ms * (1 if what == "f" else 2) * shape.compute_factor(stage, replica, step)
            length *= random.uniform(1 - shape.jitter, 1 + shape.jitter) * (shape.setup_factor if step == 0 else 1.0)
            clock[stage] = begin + int(length * MS)
            target = stage + 1 if what == "f" else stage - 1
            if 0 <= target < shape.pp:
                ends = [_send(shape, (stage, replica), (target, replica), rail, clock[stage], step, records)
                        for rail in range(shape.tp)]  # fmt: skip
                arrived[what, target, batch] = max(ends)
    return records, clock


def _send(
    shape: JobShape, src: tuple[int, int], dst: tuple[int, int], rail: int, start: int, step: int, records: list[Flow]
) -> int:
    a, b = address_of(shape, *src, rail), address_of(shape, *dst, rail)
    end = start + _duration(shape, a, b, shape.activation_bytes, step)
    records.append(Flow(a, b, start, end, shape.activation_bytes, (f"leaf{rail}",)))
    return end


def _duration(shape: JobShape, src: str, dst: str, size: int, step: int) -> int:
    rate = shape.rate_gbps * min(shape.rate_factor(src, step), shape.rate_factor(dst, step))
    return int(8 * size / rate)


def _ring(shape: JobShape, stage: int, ready: list[int], step: int, total: int) -> tuple[list[Flow], int]:
    """One all-reduce: 2 (d - 1) rounds of chunks. A member that is ready early sends what the network buffers hold."""
    records, last = [], 0
    chunk = total // shape.dp
    early = min(BUFFERED_BYTES, chunk // 2)
    for rail in range(shape.tp):
        names = [address_of(shape, stage, replica, rail) for replica in range(shape.dp)]
        peers = [*names[1:], names[0]]
        path = (f"leaf{rail}",)
        own_time = np.random.default_rng((shape.seed, stage, rail, step))  # each communicator ends when it ends
        lag = int(own_time.uniform(0.0, 2.0) * MS) if shape.tp > 1 else 0
        for name, peer, when in zip(names, peers, ready, strict=True):
            records.append(Flow(name, peer, when, when + _duration(shape, name, peer, early, step), early, path))
        have = [max(max(ready), records[replica - shape.dp].end_ns) + 200 * US + lag for replica in range(shape.dp)]
        for round_number in range(2 * (shape.dp - 1)):
            size = chunk - (early if round_number == 0 else 1_000 * (round_number % 3))
            arrive = list(have)
            for replica, (name, peer) in enumerate(zip(names, peers, strict=True)):
                start = have[replica] + 30 * US * replica + 200 * US
                end = start + _duration(shape, name, peer, size, step)
                records.append(Flow(name, peer, start, end, size, path))
                arrive[(replica + 1) % shape.dp] = max(have[(replica + 1) % shape.dp], end)
            have = arrive
        last = max(last, *have)
    return records, last


def chatter(members: Iterable[str], start_ns: int, end_ns: int, every_ns: int = SECOND, size: int = 300) -> list[Flow]:
    """Heartbeats from every member to every other."""
    names = sorted(members)
    return [
        Flow(a, b, when + i * 10 * US, when + i * 10 * US + 5 * US, size)
        for when in range(start_ns, end_ns, every_ns)
        for i, (a, b) in enumerate((a, b) for a in names for b in names if a != b)
    ]
