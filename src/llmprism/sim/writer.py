"""Writes the records: numbers are spooled as Parquet parts, then one pass of DuckDB makes the file with the names.

Names come in by one join on the connection. Memory is one part plus DuckDB's buffers, however long the run is.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.sim.collector import CollectedRecords

__all__ = ["ConnectionNames", "FlowWriter"]

MEMORY_LIMIT = "512MB"
"""DuckDB's buffers while it writes: some row groups of every column."""

PART_ROWS = 500_000
"""Rows of one part of the spool: some tens of megabytes."""


class ConnectionNames:
    """The words that belong to a connection: ends, ports, path; and the protocol of all of them."""

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol
        self.src: list[str] = []
        self.dst: list[str] = []
        self.sport: list[int] = []
        self.dport: list[int] = []
        self.path: list[list[str]] = []

    def add(self, src: str, dst: str, sport: int, dport: int, path: list[str]) -> int:
        self.src.append(src)
        self.dst.append(dst)
        self.sport.append(sport)
        self.dport.append(dport)
        self.path.append(path)
        return len(self.src) - 1


class FlowWriter:
    """A context: `add` batches, then `write` the file; the spool is removed at the end whatever happens."""

    def __init__(self, folder: Path, epoch_ns: int) -> None:
        self.epoch_ns = epoch_ns
        self.rows = 0
        self._folder = tempfile.TemporaryDirectory(prefix="spool-", dir=folder)
        self._waiting: list[CollectedRecords] = []
        self._parts: list[str] = []
        self._db = duckdb.connect(config={"threads": 1, "memory_limit": MEMORY_LIMIT})

    def __enter__(self) -> FlowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._folder.cleanup()

    def add(self, batch: CollectedRecords) -> None:
        self._waiting.append(batch)
        self.rows += batch.start.size
        if sum(waiting.start.size for waiting in self._waiting) >= PART_ROWS:
            self._spool()

    def _spool(self) -> None:
        """Puts what waits into a part; an empty run has one empty part."""
        if not self._waiting and self._parts:
            return

        def column(name: str, kind: type[np.int32 | np.int64] = np.int64) -> NDArray[np.int32 | np.int64]:
            parts = [getattr(batch, name) for batch in self._waiting]
            return np.concatenate(parts).astype(kind, copy=False) if parts else np.zeros(0, dtype=kind)

        rows = {
            "start_ns": column("start") + self.epoch_ns,
            "end_ns": column("end") + self.epoch_ns,
            "connection": column("connection", np.int32),
            "bytes": column("bytes"),
            "packets": column("packets"),
            "exporter": column("exporter", np.int32),
        }
        part = str(Path(self._folder.name) / f"{len(self._parts):06d}.parquet")
        self._db.register("part", rows)
        self._db.execute(f"COPY (SELECT * FROM part) TO {_quoted(part)} (FORMAT parquet, COMPRESSION uncompressed)")
        self._db.unregister("part")
        self._parts.append(part)
        self._waiting = []

    def write(self, path: Path, names: ConnectionNames, exporters: tuple[str, ...] | None) -> None:
        """The Parquet file in the contract's form; the exporter's column only where `exporters` names them."""
        self._spool()
        _name_tables(self._db, names, exporters or ())
        extra, join = "", ""
        if exporters is not None:
            extra, join = ", exporter_name AS exporter", "JOIN exporters USING (exporter)"
        parts = ", ".join(_quoted(part) for part in self._parts)
        self._db.execute(
            f"""COPY (
                SELECT start_ns, end_ns, src, dst, sport, dport, protocol, bytes, packets, switches {extra}
                FROM read_parquet([{parts}]) JOIN connections USING (connection) {join}
            ) TO {_quoted(str(path))} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"""
        )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name_tables(db: duckdb.DuckDBPyConnection, names: ConnectionNames, exporters: tuple[str, ...]) -> None:
    db.register(
        "given",
        {
            "connection": np.arange(len(names.src), dtype=np.int32),
            "src": np.array(names.src, dtype=object),
            "dst": np.array(names.dst, dtype=object),
            "sport": np.array(names.sport, dtype=np.uint16),
            "dport": np.array(names.dport, dtype=np.uint16),
            "path": np.array([";".join(path) for path in names.path], dtype=object),
        },
    )
    db.execute(
        f"""CREATE TABLE connections AS SELECT connection, src, dst, sport, dport,
            {names.protocol}::UTINYINT AS protocol, string_split(path, ';') AS switches FROM given"""
    )
    db.register(
        "exporter_rows",
        {
            "exporter": np.arange(len(exporters), dtype=np.int32),
            "exporter_name": np.array(list(exporters), dtype=object),
        },
    )
    db.execute("CREATE TABLE exporters AS SELECT * FROM exporter_rows")
