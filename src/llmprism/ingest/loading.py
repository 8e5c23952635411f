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

from llmprism.errors import InputError
from llmprism.ingest.capture_notes import CaptureNotes
from llmprism.ingest.columns import REASONS, Scan
from llmprism.ingest.database import Database, Progress, open_database, report_progress
from llmprism.ingest.interning import Ids, Interner, Names, Rows
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.order import pair_order
from llmprism.ingest.packets.stats import BURST_GAP_NS
from llmprism.ingest.relation import ReadOptions, Relation, check_numbers, create_records, explain, file_names
from llmprism.ingest.sources import Source, expand, identify, parse_format
from llmprism.model.flows import Int32, Int64

__all__ = [
    "Loaded",
    "intern_records",
    "load_records",
    "loaded_of",
    "no_usable_record",
]


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
    with open_database(memory_limit) as (connection, spill), report_progress(connection, progress) as tell:
        options = ReadOptions(mapping or ColumnMapping(), collector, BURST_GAP_NS, tell)
        try:
            return loaded_of(connection, create_records(connection, spill, sources, options), sources)
        except duckdb.Error as error:
            raise explain(error, sources) from None


def loaded_of(connection: Database, relation: Relation, sources: Sequence[Source]) -> Loaded:
    """The records of the relation `records`, all at once. Raises where none of them can be used."""
    names, ids, rows = intern_records(connection, relation.scans, relation.rows)
    usable = rows.pair >= 0
    dropped = np.bincount(-rows.pair[~usable], minlength=len(REASONS)).astype(np.int64)
    dropped[REASONS.index("unreadable")] += relation.unreadable
    records = relation.rows + relation.unreadable
    if not usable.any():
        check_numbers(connection, relation.scans)
        raise no_usable_record(sources, records, dropped)
    if not usable.all():
        rows = rows.select(usable)
    order, offsets = pair_order(rows.pair, rows.start_ns, rows.end_ns, rows.bytes, rows.path, ids.pair_src.size)
    return Loaded(
        rows.ordered(order),
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


def intern_records(connection: Database, scans: Sequence[Scan], count: int) -> tuple[Names, Ids, Rows]:
    """The names of addresses, paths and exporters in order, and all `count` rows with integers in their place."""
    interner = Interner(connection, scans)
    rows = [*interner.blocks(count)] or [Rows.none()]
    names, ids = interner.names()
    return names, ids, ids.of(rows[0])


def no_usable_record(sources: Sequence[Source], records: int, dropped: Int64) -> InputError:
    reasons = ", ".join(f"{REASONS[code]} {dropped[code]:,}" for code in np.flatnonzero(dropped))
    return InputError(
        f"{file_names(sources)}: none of {records:,} records can be used ({reasons}); check the column mapping and the "
        "units of the times (--map start_ns=ts:ms)"
    )
