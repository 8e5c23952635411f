"""The truth's per-GPU events, in the columns of `llmprism diagnose --timeline`: who did what when, exactly.

Compute of a tensor-parallel group is one event per GPU; a transfer is one event at each end that is a GPU.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Int32, Int64
from llmprism.model import EventKind, PairKind
from llmprism.sim.engine_tables import Transfers
from llmprism.sim.ops import OpType
from llmprism.sim.simulation import EPOCH_NS, Simulation

__all__ = ["EventWriter"]

COLUMNS = (
    ("job", np.int32),
    ("nic", np.int32),
    ("step", np.int32),
    ("kind", np.int32),
    ("start", np.int64),
    ("end", np.int64),
    ("peer", np.int32),
    ("bytes", np.int64),
)

Columns = tuple[NDArray[np.generic], ...]


class EventWriter:
    """A context like FlowWriter; does nothing when not wanted."""

    def __init__(self, folder: Path, wanted: bool, simulation: Simulation) -> None:
        self.wanted = wanted
        self.simulation = simulation
        self._folder = tempfile.TemporaryDirectory(prefix="events-", dir=folder)
        self._files: dict[str, BinaryIO] = {
            name: (Path(self._folder.name) / name).open("wb", buffering=1 << 20) for name, _ in COLUMNS
        }
        self._segment_job = np.array(simulation.segment_job, dtype=np.int32)
        self._lanes, self._first = self._cells()

    def _cells(self) -> tuple[Int32, Int64]:
        """NICs of all cells, cut by offsets."""
        of_cell = {cell: nics for program in self.simulation.programs for cell, nics in program.nics_of_cell.items()}
        nics = [of_cell[cell] for cell in sorted(of_cell)]
        flat = np.array([nic for group in nics for nic in group], dtype=np.int32)
        return flat, np.concatenate(([0], np.cumsum([len(group) for group in nics], dtype=np.int64)))

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()
        self._folder.cleanup()

    def add(self, batch: Transfers) -> None:
        if not self.wanted:
            return
        for columns in (self._compute(batch), *self._traffic(batch)):
            for (name, dtype), values in zip(COLUMNS, columns, strict=True):
                values.astype(dtype, copy=False).tofile(self._files[name])

    def _compute(self, batch: Transfers) -> Columns:
        ops = self.simulation.ops
        inside = (batch.done_end > 0) & (batch.done_start < self.simulation.window_ns)
        inside &= ops.type[batch.done_op] == int(OpType.COMPUTE)
        cell = ops.cell[batch.done_op[inside]]
        size = (self._first[cell + 1] - self._first[cell]).astype(np.int64)
        rows = np.repeat(np.arange(cell.size), size)
        lane = np.arange(rows.size) - np.repeat(np.cumsum(size) - size, size)
        job_of_cell = self._job_of_cell()
        none = np.zeros(rows.size, dtype=np.int64)
        return (
            job_of_cell[cell][rows],
            self._lanes[self._first[cell][rows] + lane],
            batch.done_step[inside][rows],
            none + int(EventKind.COMPUTE),
            batch.done_start[inside][rows],
            batch.done_end[inside][rows],
            none - 1,
            none,
        )

    def _job_of_cell(self) -> Int32:
        job = np.zeros(self.simulation.cell_count, dtype=np.int32)
        for program in self.simulation.programs:
            job[program.all_cells] = self._segment_job[program.index]
        return job

    def _traffic(self, batch: Transfers) -> list[Columns]:
        pairs = self.simulation.pairs
        src, dst = np.array(pairs.src, dtype=np.int32), np.array(pairs.dst, dtype=np.int32)
        owner = self._segment_job[np.array(pairs.job, dtype=np.int32)]
        sent = np.full(len(PairKind), -1)
        received = np.full(len(PairKind), -1)
        for kind, (out, into) in {
            PairKind.PP: (EventKind.PP_SEND, EventKind.PP_RECV),
            PairKind.DP: (EventKind.DP, EventKind.DP),
            PairKind.EP: (EventKind.EP, EventKind.EP),
            PairKind.CP: (EventKind.CP, EventKind.CP),
        }.items():
            sent[kind], received[kind] = int(out), int(into)
        inside = (batch.end > 0) & (batch.start < self.simulation.window_ns) & (sent[batch.kind] >= 0)
        pair, kind_of = batch.pair[inside], batch.kind[inside]
        shared = (batch.start[inside], batch.end[inside])
        return [
            (owner[pair], src[pair], batch.step[inside], sent[kind_of], *shared, dst[pair], batch.bytes[inside]),
            (owner[pair], dst[pair], batch.step[inside], received[kind_of], *shared, src[pair], batch.bytes[inside]),
        ]

    def write(self, path: Path) -> None:
        if not self.wanted:
            return
        for file in self._files.values():
            file.flush()
        folder = Path(self._folder.name)
        rows = {name: np.fromfile(folder / name, dtype=dtype) for name, dtype in COLUMNS}
        names = np.array([*self.simulation.cluster.addresses], dtype=object)
        kinds = np.array([kind.label for kind in EventKind], dtype=object)
        jobs = np.array([spec.name for spec in self.simulation.scenario.jobs], dtype=object)
        db = duckdb.connect(config={"threads": 1})
        try:
            db.register("rows", rows)
            for table, values in (("names", names), ("kinds", kinds), ("jobs", jobs)):
                db.register(f"given_{table}", {"id": np.arange(values.size, dtype=np.int32), "name": values})
                db.execute(f"CREATE TABLE {table} AS SELECT * FROM given_{table}")
            target = str(path).replace("'", "''")
            db.execute(
                f"""COPY (
                    SELECT jobs.name AS job, me.name AS address, step, kinds.name AS kind,
                           greatest(start, 0) + {EPOCH_NS} AS start_ns, "end" + {EPOCH_NS} AS end_ns,
                           other.name AS peer, bytes
                    FROM rows JOIN jobs ON jobs.id = rows.job JOIN names me ON me.id = nic
                    JOIN kinds ON kinds.id = rows.kind LEFT JOIN names other ON other.id = rows.peer
                    ORDER BY job, address, start_ns
                ) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"""
            )
        finally:
            db.close()
