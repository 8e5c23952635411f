"""Files → FlowTable, all records at once: for inputs of a few million records, `inspect` and the published method.

All formats become one SQL relation with the same columns (`relation.py`); addresses, switch paths and exporters become
integers (`interning.py`); rows that cannot be used are dropped and counted by reason; the rest is ordered, freed of
duplicates and made a table (`flow_table.py`).

Invariants: `counts.records == counts.used + sum(counts.dropped)`; rows sorted by (src, dst, start, end, bytes, path);
every pair has at least one row; every address is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.errors import InputError
from llmprism.ingest.capture_notes import CaptureNotes, merged
from llmprism.ingest.columns import DUPLICATE, REASONS, Scan
from llmprism.ingest.database import Database, Progress, open_database, report_progress
from llmprism.ingest.file_format import ReadOptions, SourceFile
from llmprism.ingest.flow_table import RecordRows, flow_table, rows_by_pair
from llmprism.ingest.formats import identify, parse_format
from llmprism.ingest.interning import NUMBERED, Ids, Interner, Names, Records
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.relation import Relation, check_numbers, create_records, explain, file_names
from llmprism.ingest.rules import RULES, IngestRules
from llmprism.ingest.sources import expand
from llmprism.model.flows import FlowTable, InputCounts

__all__ = ["Loaded", "intern_records", "load_records", "loaded_of", "no_usable_record", "read_flows", "table_of"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """Usable rows in the order of the FlowTable, the pairs they belong to, and what became of the others.

    `dropped` counts by reason code (`columns.REASONS`); `records` is everything that was read.
    """

    rows: RecordRows
    names: Names
    pair_src: Int32
    pair_dst: Int32
    pair_offsets: Int64
    records: int
    dropped: Int64
    captures: tuple[CaptureNotes, ...]
    sampling: int = 1


def read_flows(
    paths: Sequence[str | Path],
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    memory_limit: str | None = None,
    rules: IngestRules = RULES,
) -> FlowTable:
    """Reads files or globs of flow records or packets into one table; "-" is standard input (packets).

    Parquet, CSV, JSON Lines, pcap and pcapng, uncompressed, gzip or zstd, and the output of the collectors of
    `collectors.py`, recognised by content. `format` forces a format or a collector; `memory_limit` is DuckDB's (for
    example "2GB"). Raises an LLMPrismError with one clear line if a file cannot be used; rows that cannot be used are
    only counted.
    """
    loaded = load_records(paths, mapping=mapping, format=format, progress=progress, memory_limit=memory_limit,
                          rules=rules)  # fmt: skip
    return table_of(loaded, rules)


def table_of(loaded: Loaded, rules: IngestRules = RULES) -> FlowTable:
    """The FlowTable of loaded records, each transfer once."""
    table = flow_table(
        loaded.rows, loaded.pair_offsets, loaded.names, loaded.pair_src, loaded.pair_dst,
        several_exporters=loaded.rows.several_exporters, rules=rules,
    )  # fmt: skip
    dropped = loaded.dropped.copy()
    dropped[DUPLICATE] = table.counts.records - table.counts.used
    reasons = tuple((REASONS[code], int(dropped[code])) for code in np.flatnonzero(dropped))
    counts = InputCounts(loaded.records, table.counts.used, reasons)
    return replace(table, counts=counts, congestion=merged(loaded.captures))


def load_records(
    paths: Sequence[str | Path],
    *,
    rules: IngestRules = RULES,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    memory_limit: str | None = None,
) -> Loaded:
    """Reads everything that `read_flows` reads. Raises where no record at all can be used."""
    forced, collector = parse_format(format)
    sources = [identify(path, forced) for path in expand(paths)]
    with open_database(memory_limit) as (connection, spill), report_progress(connection, progress) as report_packets:
        options = ReadOptions(mapping or ColumnMapping(), collector, rules.burst_gap_ns, report_packets)
        try:
            return loaded_of(connection, create_records(connection, spill, sources, options), sources)
        except duckdb.Error as error:
            raise explain(error, sources) from None


def loaded_of(connection: Database, relation: Relation, sources: Sequence[SourceFile]) -> Loaded:
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
        names,
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


def no_usable_record(sources: Sequence[SourceFile], records: int, dropped: Int64) -> InputError:
    reasons = ", ".join(f"{REASONS[code]} {dropped[code]:,}" for code in np.flatnonzero(dropped))
    return InputError(
        f"{file_names(sources)}: none of {records:,} records can be used ({reasons}); check the column mapping and the "
        "units of the times (--map start_ns=ts:ms)"
    )
