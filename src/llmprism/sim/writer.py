"""Writes the records: columns are spooled to disk batch by batch, then one pass of DuckDB makes the Parquet file.

Only numbers are spooled; names come in by one join on the connection. Memory stays at one batch plus DuckDB's buffers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.sim.collector import Batch

__all__ = ["ConnectionNames", "FlowWriter"]

MEMORY_LIMIT = "1GB"
"""DuckDB's buffers while it writes: a row group of every column fits many times."""

COLUMNS = (
    ("connection", np.int32),
    ("start", np.int64),
    ("end", np.int64),
    ("bytes", np.int64),
    ("packets", np.int64),
    ("exporter", np.int32),
)


class ConnectionNames:
    """The words that belong to a connection: ends, ports, path."""

    def __init__(self) -> None:
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
        self._files: dict[str, BinaryIO] = {
            name: (Path(self._folder.name) / name).open("wb", buffering=1 << 20) for name, _ in COLUMNS
        }

    def __enter__(self) -> FlowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()
        self._folder.cleanup()

    def add(self, batch: Batch) -> None:
        shift = self.epoch_ns
        values: tuple[NDArray[np.generic], ...] = (
            batch.connection,
            batch.start + shift,
            batch.end + shift,
            batch.bytes,
            batch.packets,
            batch.exporter,
        )
        for (name, dtype), column in zip(COLUMNS, values, strict=True):
            column.astype(dtype, copy=False).tofile(self._files[name])
        self.rows += batch.start.size

    def write(self, path: Path, names: ConnectionNames, exporters: tuple[str, ...] | None) -> None:
        """The Parquet file in the contract's form; the exporter's column only where `exporters` names them."""
        for file in self._files.values():
            file.flush()
        folder = Path(self._folder.name)
        rows = {
            name: np.memmap(folder / name, dtype=dtype, mode="r") if self.rows else np.zeros(0, dtype=dtype)
            for name, dtype in COLUMNS
        }
        db = duckdb.connect(config={"threads": 1, "memory_limit": MEMORY_LIMIT})
        try:
            _name_tables(db, names, exporters or ())
            db.register("rows", rows)
            extra, join = "", ""
            if exporters is not None:
                extra, join = ", exporter_name AS exporter", "JOIN exporters USING (exporter)"
            target = str(path).replace("'", "''")
            db.execute(
                f"""COPY (
                    SELECT start AS start_ns, "end" AS end_ns, src, dst, sport, dport, protocol, bytes, packets,
                           switches {extra}
                    FROM rows JOIN connections USING (connection) {join}
                ) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"""
            )
        finally:
            db.close()


def _name_tables(db: duckdb.DuckDBPyConnection, names: ConnectionNames, exporters: tuple[str, ...]) -> None:
    count = len(names.src)
    db.register(
        "given",
        {
            "connection": np.arange(count, dtype=np.int32),
            "src": np.array(names.src, dtype=object),
            "dst": np.array(names.dst, dtype=object),
            "sport": np.array(names.sport, dtype=np.uint16),
            "dport": np.array(names.dport, dtype=np.uint16),
            "path": np.array([";".join(path) for path in names.path], dtype=object),
        },
    )
    db.execute(
        """CREATE TABLE connections AS SELECT connection, src, dst, sport, dport, 6::UTINYINT AS protocol,
           string_split(path, ';') AS switches FROM given"""
    )
    db.register(
        "exporter_rows",
        {
            "exporter": np.arange(len(exporters), dtype=np.int32),
            "exporter_name": np.array(list(exporters), dtype=object),
        },
    )
    db.execute("CREATE TABLE exporters AS SELECT * FROM exporter_rows")
