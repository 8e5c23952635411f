"""Flow records in files → FlowTable.

All formats become one SQL relation with the same columns (`relation.py`), then integers ordered by pair (`loading.py`);
here second reports of the same transfer are dropped (`duplicates.py`) and the table is cut.

Invariants: `counts.records == counts.used + sum(counts.dropped)`; rows sorted by (src, dst, start, end, bytes, path);
every pair has at least one row; every address is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from llmprism.ingest.capture_notes import merged
from llmprism.ingest.columns import DUPLICATE, REASONS
from llmprism.ingest.database import Progress
from llmprism.ingest.duplicates import duplicate_rows
from llmprism.ingest.loading import Loaded, load_records
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.order import keep_rows
from llmprism.model.flows import FlowTable, InputCounts

__all__ = ["read_flows", "table_of"]


def read_flows(
    paths: Sequence[str | Path],
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    memory_limit: str | None = None,
) -> FlowTable:
    """Reads files or globs of flow records or packets into one table; "-" is standard input (packets).

    Parquet, CSV, JSON Lines, pcap and pcapng, uncompressed, gzip or zstd, and the output of the collectors of
    `collectors.py`, recognised by content. `format` forces a format or a collector; `memory_limit` is DuckDB's (for
    example "2GB"). Raises an LLMPrismError with one clear line if a file cannot be used; rows that cannot be used are
    only counted.
    """
    loaded = load_records(paths, mapping=mapping, format=format, progress=progress, memory_limit=memory_limit)
    return table_of(loaded)


def table_of(loaded: Loaded) -> FlowTable:
    """The FlowTable of loaded records, each transfer once."""
    rows, offsets, dropped = loaded.rows, loaded.pair_offsets, loaded.dropped.copy()
    exporter = rows.exporter
    if exporter is not None and exporter.size and exporter.min() == exporter.max():
        exporter = None
    copies = duplicate_rows(offsets, rows.start_ns, rows.end_ns, rows.bytes, rows.connection, exporter)
    if copies.any():
        dropped[DUPLICATE] = np.count_nonzero(copies)
        rows, offsets = rows.select(~copies), keep_rows(offsets, ~copies)
    counts = InputCounts(
        records=loaded.records,
        used=int(rows.start_ns.size),
        dropped=tuple((REASONS[code], int(dropped[code])) for code in np.flatnonzero(dropped)),
    )
    return FlowTable(
        loaded.addresses,
        loaded.paths,
        loaded.pair_src,
        loaded.pair_dst,
        offsets,
        rows.start_ns,
        rows.end_ns,
        rows.bytes,
        rows.path,
        counts,
        merged(loaded.captures),
    )
