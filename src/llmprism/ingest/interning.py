"""Records of the relation `records` → blocks of integers, and the names that these stand for.

A pair of addresses, a path and an exporter are known by 64 bits of hash while the records stream by, and are numbered
as they come (`key_numbers.py`): comparing names costs as much as all the rest of reading. What the numbers stand for is
looked up afterwards, among the few records that start when some first one does; in files that are ordered by time
nearly all of those lie at the beginning. The final ids follow the order of the names, so that the result does not depend
on threads or file order.

Two names with the same 64 bits would be taken for one. Among a million names that happens once in 37 million inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmprism.ingest.columns import Scan
from llmprism.ingest.database import Database, numpy_columns, scalar
from llmprism.ingest.key_numbers import KeyNumbers
from llmprism.ingest.number_stream import Batch, number_batches
from llmprism.model.flows import Int32, Int64

__all__ = ["Ids", "Interner", "Names", "Rows"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Records as columns. `pair` is minus the reason where a record cannot be used; other ids are -1 where the value is
    missing, and `exporter` is None where no source names any."""

    pair: Int32
    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    path: Int32
    connection: NDArray[np.uint64]
    exporter: Int32 | None

    @staticmethod
    def none() -> Rows:
        ids, numbers = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
        return Rows(ids, numbers, numbers, numbers, ids, numbers.astype(np.uint64), None)

    def select(self, keep: NDArray[np.bool_] | Int64) -> Rows:
        """The marked rows, or the rows in this order."""
        return Rows(
            self.pair[keep],
            self.start_ns[keep],
            self.end_ns[keep],
            self.bytes[keep],
            self.path[keep],
            self.connection[keep],
            None if self.exporter is None else self.exporter[keep],
        )

    def ordered(self, order: Int64) -> Rows:
        """The rows in this order; the pair, which only told the order, is left behind."""
        return Rows(
            self.pair[:0],
            self.start_ns[order],
            self.end_ns[order],
            self.bytes[order],
            self.path[order],
            self.connection[order],
            None if self.exporter is None else self.exporter[order],
        )


@dataclass(frozen=True, slots=True)
class Names:
    """Sorted; a row's ids index them."""

    addresses: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    exporters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ids:
    """The id of each number, -1 for the number of what is missing. Pairs follow their source, then destination."""

    pair: Int32
    path: Int32
    exporter: Int32
    pair_src: Int32
    pair_dst: Int32

    def of(self, rows: Rows) -> Rows:
        """Numbered rows with ids in place of the numbers."""
        reasons = rows.pair < 0
        pair = rows.pair.copy() if reasons.any() else self.pair[rows.pair]
        if reasons.any():
            pair[~reasons] = self.pair[rows.pair[~reasons]]
        return Rows(
            pair,
            rows.start_ns,
            rows.end_ns,
            rows.bytes,
            self.path[rows.path] if self.path.size else rows.path,
            rows.connection,
            None if rows.exporter is None else self.exporter[rows.exporter],
        )


class Interner:
    """Reads `records` once, block by block; then it knows the names."""

    def __init__(self, connection: Database, scans: Sequence[Scan]) -> None:
        self._connection = connection
        self._pairs = KeyNumbers()
        self._paths = KeyNumbers() if any("switches" in scan.columns for scan in scans) else None
        self._exporters = KeyNumbers() if any("exporter" in scan.columns for scan in scans) else None

    def blocks(self, size: int) -> Iterator[Rows]:
        """Numbered rows, `size` of them in each block but the last."""
        columns = ["reason", "coalesce(start_ns, 0) AS start_ns", "coalesce(end_ns, 0) AS end_ns"]
        columns += ["coalesce(bytes, 0) AS bytes", "connection", "hash(src, dst) AS pair_key"]
        columns += [] if self._paths is None else ["hash(switches) AS path_key"]
        columns += [] if self._exporters is None else ["hash(exporter) AS exporter_key"]
        query = f"SELECT {', '.join(columns)} FROM records"
        for block in _joined(number_batches(self._connection, query), size):
            yield self._numbered(block)

    def _numbered(self, block: Batch) -> Rows:
        start_ns, reason = block["start_ns"], block["reason"]
        usable = reason == 0
        if usable.all():
            pair = self._pairs.number(block["pair_key"], start_ns)
        else:
            pair = -reason.astype(np.int32)
            pair[usable] = self._pairs.number(block["pair_key"][usable], start_ns[usable])
        if self._paths is None:
            path = np.full(start_ns.size, -1, dtype=np.int32)
        else:
            path = self._paths.number(block["path_key"], start_ns)
        exporter = None if self._exporters is None else self._exporters.number(block["exporter_key"], start_ns)
        return Rows(pair, start_ns, block["end_ns"], block["bytes"], path, block["connection"], exporter)

    def names(self) -> tuple[Names, Ids]:
        """What the numbers of the blocks stand for."""
        addresses, pair, pair_src, pair_dst = self._addresses()
        paths, path = self._sorted_names("paths", "switches", self._paths)
        exporters, exporter = self._sorted_names("exporters", "exporter", self._exporters)
        names = Names(
            addresses,
            tuple(tuple("?" if switch is None else str(switch) for switch in name) for name in paths),
            tuple(exporters),
        )
        return names, Ids(pair, path, exporter, pair_src, pair_dst)

    def _addresses(self) -> tuple[tuple[str, ...], Int32, Int32, Int32]:
        self._look_up("pairs", "hash(src, dst)", ("src", "dst"), self._pairs, "reason = 0")
        self._connection.execute(
            "CREATE TEMP TABLE addresses AS SELECT name, (row_number() OVER (ORDER BY name) - 1)::INTEGER AS id "
            "FROM (SELECT src AS name FROM pairs UNION SELECT dst FROM pairs)"
        )
        found = numpy_columns(
            self._connection,
            "SELECT key, s.id AS src, d.id AS dst FROM pairs "
            "JOIN addresses AS s ON s.name = src JOIN addresses AS d ON d.name = dst ORDER BY s.id, d.id",
        )
        names = self._connection.execute("SELECT name FROM addresses ORDER BY id").fetchall()
        return tuple(name for (name,) in names), _ids(self._pairs, found["key"]), found["src"], found["dst"]

    def _sorted_names(self, table: str, column: str, numbers: KeyNumbers | None) -> tuple[list[Any], Int32]:
        if numbers is None:
            return [], np.zeros(0, dtype=np.int32)
        self._look_up(table, f"hash({column})", (column,), numbers)
        named = f"FROM {table} WHERE {column} IS NOT NULL ORDER BY {column}"
        names = self._connection.execute(f"SELECT {column} {named}").fetchall()
        return [name for (name,) in names], _ids(numbers, numpy_columns(self._connection, f"SELECT key {named}")["key"])

    def _look_up(self, table: str, key: str, columns: Sequence[str], numbers: KeyNumbers, rows: str = "true") -> None:
        """Creates a table of the keys and the values of these columns.

        A record without a time is not found by its time: only then all records are looked at.
        """
        values = ", ".join(f"any_value({column}) AS {column}" for column in columns)
        self._connection.register("first_times", {"time": np.unique(numbers.times)})
        for when in ("start_ns IN (SELECT time FROM first_times)", "true"):
            self._connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {table} AS "
                f"SELECT {key} AS key, {values} FROM records WHERE {rows} AND {when} GROUP BY key"
            )
            if scalar(self._connection, f"SELECT count(*) FROM {table}") == numbers.keys.size:
                break
        self._connection.unregister("first_times")


def _ids(numbers: KeyNumbers, keys: NDArray[np.uint64]) -> Int32:
    """The id of each number, where the keys are in the order of the ids."""
    ids = np.full(numbers.keys.size, -1, dtype=np.int32)
    ids[numbers.numbers_of(keys)] = np.arange(keys.size, dtype=np.int32)
    return ids


def _joined(batches: Iterator[Batch], size: int) -> Iterator[Batch]:
    """The same rows, `size` of them in each batch but the last, in arrays of their own."""
    block: Batch = {}
    filled = 0
    for batch in batches:
        taken, rows = 0, len(batch["reason"])
        while taken < rows:
            if not block:
                block = {name: np.empty(size, dtype=column.dtype) for name, column in batch.items()}
            count = min(size - filled, rows - taken)
            for name, column in block.items():
                column[filled : filled + count] = batch[name][taken : taken + count]
            filled, taken = filled + count, taken + count
            if filled == size:
                yield block
                block, filled = {}, 0
    if filled:
        yield {name: column[:filled] for name, column in block.items()}
