"""Files → interned integer columns, ordered by pair: what is common to reading flows and to inspecting them.

Addresses, switch paths and exporters are interned (`interning.py`). Then everything is integers in NumPy arrays: rows
that cannot be used are dropped and counted by reason, and the rest is ordered by pair (`order.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.errors import InputError
from llmprism.ingest.capture_notes import CaptureNotes
from llmprism.ingest.columns import REASONS, Scan
from llmprism.ingest.database import Database, Progress, open_database, report_progress
from llmprism.ingest.interning import NUMBERED, Ids, Interner, Names, Records
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.order import in_order, pair_order
from llmprism.ingest.packets.stats import BURST_GAP_NS
from llmprism.ingest.relation import ReadOptions, Relation, check_numbers, create_records, explain, file_names
from llmprism.ingest.sources import Source, expand, identify, parse_format
from llmprism.model.flows import Int32, Int64

__all__ = [
    "Loaded",
    "Rows",
    "intern_records",
    "load_records",
    "loaded_of",
    "no_usable_record",
    "rows_by_pair",
]


@dataclass(frozen=True, slots=True)
class Rows:
    """Usable records as columns; ids are -1 where the value is missing, `exporter` is None where no source has any."""

    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    path: Int32
    connection: NDArray[np.uint64]
    exporter: Int32 | None

    def select(self, keep: NDArray[np.bool_]) -> Rows:
        chosen = np.flatnonzero(keep)
        return Rows(
            self.start_ns[chosen],
            self.end_ns[chosen],
            self.bytes[chosen],
            self.path[chosen],
            self.connection[chosen],
            None if self.exporter is None else self.exporter[chosen],
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """Usable rows in the order of the FlowTable, the pairs they belong to, and what became of the others.

    `dropped` counts by reason code (`columns.REASONS`); `records` is everything that was read.
    """

    rows: Rows
    addresses: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    exporters: tuple[str, ...]
    pair_src: Int32
    pair_dst: Int32
    pair_offsets: Int64
    records: int
    dropped: Int64
    captures: tuple[CaptureNotes, ...]
    sampling: int = 1


def load_records(
    paths: Sequence[str | Path],
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    memory_limit: str | None = None,
) -> Loaded:
    """Reads everything that `read_flows` reads. Raises where no record at all can be used."""
    forced, collector = parse_format(format)
    sources = [identify(path, forced) for path in expand(paths)]
    with open_database(memory_limit) as (connection, spill), report_progress(connection, progress) as report_packets:
        options = ReadOptions(mapping or ColumnMapping(), collector, BURST_GAP_NS, report_packets)
        try:
            return loaded_of(connection, create_records(connection, spill, sources, options), sources)
        except duckdb.Error as error:
            raise explain(error, sources) from None


def loaded_of(connection: Database, relation: Relation, sources: Sequence[Source]) -> Loaded:
    """The records of the relation `records`, all at once. Raises where none of them can be used."""
    names, ids, found = intern_records(connection, relation.scans, relation.rows)
    usable = found["pair"] >= 0
    dropped = np.bincount(-found["pair"][~usable], minlength=len(REASONS)).astype(np.int64)
    dropped[REASONS.index("unreadable")] += relation.unreadable
    records = relation.rows + relation.unreadable
    if not usable.any():
        check_numbers(connection, relation.scans)
        raise no_usable_record(sources, records, dropped)
    rows, offsets = rows_by_pair(found if usable.all() else found[usable], ids.pair_src.size)
    return Loaded(
        rows,
        names.addresses,
        names.paths,
        names.exporters,
        ids.pair_src,
        ids.pair_dst,
        offsets,
        records,
        dropped,
        relation.captures,
        relation.sampling,
    )


def intern_records(connection: Database, scans: Sequence[Scan], count: int) -> tuple[Names, Ids, Records]:
    """The names of addresses, paths and exporters in order, and all `count` records with integers in their place."""
    interner = Interner(connection, scans)
    blocks = [*interner.blocks(count)]
    names, ids = interner.names()
    if not blocks:
        return names, ids, np.zeros(0, dtype=NUMBERED)
    ids.put_into(blocks[0])
    return names, ids, blocks[0]


def rows_by_pair(records: Records, pair_count: int, first_pair: int = 0) -> tuple[Rows, Int64]:
    """The records of some pairs as columns in the order of the FlowTable, and the offsets of the pairs."""
    start_ns, end_ns, size, path = (records[name] for name in ("start_ns", "end_ns", "bytes", "path"))
    pair = records["pair"] - np.int32(first_pair)
    order, offsets = pair_order(pair, start_ns, end_ns, size, path, pair_count)
    exporter = records["exporter"][order] if "exporter" in (records.dtype.names or ()) else None
    return Rows(*in_order(order, start_ns, end_ns, size, path, records["connection"]), exporter), offsets


def no_usable_record(sources: Sequence[Source], records: int, dropped: Int64) -> InputError:
    reasons = ", ".join(f"{REASONS[code]} {dropped[code]:,}" for code in np.flatnonzero(dropped))
    return InputError(
        f"{file_names(sources)}: none of {records:,} records can be used ({reasons}); check the column mapping and the "
        "units of the times (--map start_ns=ts:ms)"
    )
