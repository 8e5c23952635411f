"""Records of the relation `records` → blocks of integers, and the names that these stand for.

A pair of addresses, a path and an exporter are known by 64 bits of hash while the records stream by, and are numbered
as they come (`key_numbers.py`): comparing names costs as much as all the rest of reading. What the numbers stand for is
looked up afterwards, among the few records that start when some first one does; in files that are ordered by time
nearly all of those lie at the beginning. The final ids follow the order of the names, so that the result does not
depend on threads or file order.

Two names with the same 64 bits would be taken for one. Among a million names that happens once in 37 million inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Bool, Int32, UInt64
from llmprism.ingest.columns import Scan
from llmprism.ingest.database import Database, numpy_columns, scalar
from llmprism.ingest.fresh_memory import fresh_array
from llmprism.ingest.key_numbers import KeyNumbers
from llmprism.ingest.number_stream import Batch, in_blocks, number_batches

__all__ = ["NUMBERED", "NUMBERED_BY_EXPORTER", "Ids", "Interner", "Names", "Records"]


Records = NDArray[np.void]
"""Records as rows of NUMBERED (or of NUMBERED_BY_EXPORTER, where some source names exporters).

A row lies in one place, so that putting rows in another order touches each once. `pair`, `path` and `exporter` are
numbers in the order of their coming, or ids; `pair` is minus the reason where a record cannot be used, the others are
-1 where the value is missing.
"""

NUMBERED: Final = np.dtype(
    [("start_ns", "i8"), ("end_ns", "i8"), ("bytes", "i8"), ("connection", "u8"), ("pair", "i4"), ("path", "i4")]
)
NUMBERED_BY_EXPORTER: Final = np.dtype([*NUMBERED.descr, ("exporter", "i4")])


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

    def put_into(self, records: Records) -> None:
        """Replaces the numbers by ids."""
        pair = records["pair"]
        usable = pair >= 0
        pair[...] = self.pair[pair] if usable.all() else _mapped(self.pair, pair, usable)
        if self.path.size:
            records["path"] = self.path[records["path"]]
        if self.exporter.size:
            records["exporter"] = self.exporter[records["exporter"]]


def _mapped(ids: Int32, numbers: Int32, where: Bool) -> Int32:
    mapped = numbers.copy()
    mapped[where] = ids[numbers[where]]
    return mapped


class Interner:
    """Reads `records` once, block by block; then it knows the names."""

    def __init__(self, connection: Database, scans: Sequence[Scan]) -> None:
        self._connection = connection
        self._pairs = KeyNumbers()
        self._paths = KeyNumbers() if any("switches" in scan.columns for scan in scans) else None
        self._exporters = KeyNumbers() if any("exporter" in scan.columns for scan in scans) else None

    def blocks(self, size: int) -> Iterator[Records]:
        """Numbered records, `size` of them in each block but the last."""
        query = f"SELECT {', '.join(self._columns())} FROM records"
        kind = NUMBERED if self._exporters is None else NUMBERED_BY_EXPORTER
        for block in in_blocks(number_batches(self._connection, query), size):
            records = fresh_array(block["reason"].size, kind)
            for name in ("start_ns", "end_ns", "bytes", "connection"):
                records[name] = block[name]
            self._number(block, records)
            yield records

    def _columns(self) -> Iterator[str]:
        yield from ("reason", "connection", "hash(src, dst) AS pair_key")
        yield from (f"coalesce({name}, 0) AS {name}" for name in ("start_ns", "end_ns", "bytes"))
        if self._paths is not None:
            yield "hash(switches) AS path_key"
        if self._exporters is not None:
            yield "hash(exporter) AS exporter_key"

    def _number(self, block: Batch, records: Records) -> None:
        start_ns, usable = block["start_ns"], block["reason"] == 0
        if usable.all():
            records["pair"] = self._pairs.number(block["pair_key"], start_ns)
        else:
            records["pair"] = -block["reason"].astype(np.int32)
            records["pair"][usable] = self._pairs.number(block["pair_key"][usable], start_ns[usable])
        records["path"] = -1 if self._paths is None else self._paths.number(block["path_key"], start_ns)
        if self._exporters is not None:
            records["exporter"] = self._exporters.number(block["exporter_key"], start_ns)

    def names(self) -> tuple[Names, Ids]:
        """What the numbers of the blocks stand for."""
        addresses, pair, pair_src, pair_dst = self._addresses()
        paths, path = self._names_of_paths()
        exporters, exporter = self._names_of_exporters()
        names = Names(addresses, paths, exporters)
        return names, Ids(pair, path, exporter, pair_src, pair_dst)

    def _addresses(self) -> tuple[tuple[str, ...], Int32, Int32, Int32]:
        self._look_up("pairs", "hash(src, dst)", ("src", "dst"), self._pairs)
        self._connection.execute(
            "CREATE TEMP TABLE addresses AS SELECT name, (row_number() OVER (ORDER BY name) - 1)::INTEGER AS id "
            "FROM (SELECT src AS name FROM pairs UNION SELECT dst FROM pairs)"
        )
        found = numpy_columns(
            self._connection,
            "SELECT key, s.id AS src, d.id AS dst FROM pairs "
            "JOIN addresses AS s ON s.name = src JOIN addresses AS d ON d.name = dst ORDER BY s.id, d.id",
        )
        names = numpy_columns(self._connection, "SELECT name FROM addresses ORDER BY id")["name"]
        return tuple(names.tolist()), _ids(self._pairs, found["key"]), found["src"], found["dst"]

    def _names_of_paths(self) -> tuple[tuple[tuple[str, ...], ...], Int32]:
        if self._paths is None:
            return (), np.zeros(0, dtype=np.int32)
        self._look_up("paths", "hash(switches)", ("switches",), self._paths)
        named = "FROM paths WHERE switches IS NOT NULL ORDER BY switches"
        switches = "list_transform(switches, lambda name: coalesce(name, '?'))"
        found = numpy_columns(
            self._connection,
            f"SELECT key, len(switches) AS length, array_to_string({switches}, chr(0)) AS names {named}",
        )
        paths = tuple(tuple(names.split("\0")) for names in found["names"])
        if any(len(path) != length for path, length in zip(paths, found["length"].tolist(), strict=True)):
            # Some name holds the separator. Lists are five times as dear to fetch as text.
            paths = tuple(tuple(path) for (path,) in self._connection.execute(f"SELECT {switches} {named}").fetchall())
        return paths, _ids(self._paths, found["key"])

    def _names_of_exporters(self) -> tuple[tuple[str, ...], Int32]:
        if self._exporters is None:
            return (), np.zeros(0, dtype=np.int32)
        self._look_up("exporters", "hash(exporter)", ("exporter",), self._exporters)
        found = numpy_columns(
            self._connection, "SELECT key, exporter FROM exporters WHERE exporter IS NOT NULL ORDER BY exporter"
        )
        return tuple(found["exporter"].tolist()), _ids(self._exporters, found["key"])

    def _look_up(self, table: str, key: str, columns: Sequence[str], numbers: KeyNumbers) -> None:
        """Creates a table of the keys and the values of these columns.

        A record without a time is not found by its time: only then all records are looked at.
        """
        values = ", ".join(f"any_value({column}) AS {column}" for column in columns)
        self._connection.register("first_times", {"time": np.unique(numbers.times)})
        self._connection.register("numbered", {"key": numbers.keys})
        for when in ("start_ns IN (SELECT time FROM first_times)", "true"):
            self._connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM "
                f"(SELECT {key} AS key, {values} FROM records WHERE {when} GROUP BY ALL) "
                "WHERE key IN (SELECT key FROM numbered)"
            )
            if scalar(self._connection, f"SELECT count(*) FROM {table}") == numbers.keys.size:
                break
        self._connection.unregister("first_times")
        self._connection.unregister("numbered")


def _ids(numbers: KeyNumbers, keys: UInt64) -> Int32:
    """The id of each number, where the keys are in the order of the ids."""
    ids = np.full(numbers.keys.size, -1, dtype=np.int32)
    ids[numbers.numbers_of(keys)] = np.arange(keys.size, dtype=np.int32)
    return ids
