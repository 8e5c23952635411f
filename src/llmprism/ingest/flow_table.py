"""Numbered records of some pairs → FlowTable: the three steps that every way of reading shares.

Order (`record_order.py`), duplicates (`duplicates.py`), table. The records may be those of a whole input, of a
bucket of it, or of a bucket that Spark brought together: the result for a pair is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Int32, Int64, UInt64
from llmprism.ingest.columns import DUPLICATE, REASONS
from llmprism.ingest.duplicates import duplicate_rows
from llmprism.ingest.interning import Names, Records
from llmprism.ingest.record_order import keep_rows, rows_in_order
from llmprism.ingest.rules import RULES, IngestRules
from llmprism.model.flows import FlowTable, InputCounts

__all__ = ["RecordRows", "flow_table", "rows_by_pair"]


@dataclass(frozen=True, slots=True)
class RecordRows:
    """Usable records as columns; ids are -1 where the value is missing, `exporter` is None where no source has any."""

    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    path: Int32
    connection: UInt64
    exporter: Int32 | None

    @property
    def several_exporters(self) -> bool:
        """Whether the records have different exporters (or some one and some none)."""
        return self.exporter is not None and bool(self.exporter.size) and self.exporter.min() != self.exporter.max()

    def select(self, keep: Bool) -> RecordRows:
        chosen = np.flatnonzero(keep)
        return RecordRows(
            self.start_ns[chosen],
            self.end_ns[chosen],
            self.bytes[chosen],
            self.path[chosen],
            self.connection[chosen],
            None if self.exporter is None else self.exporter[chosen],
        )


def rows_by_pair(
    records: Records, pair_count: int, first_pair: int = 0, *, one_of_many: bool = False
) -> tuple[RecordRows, Int64]:
    """The records of some pairs as columns in the order of the FlowTable, and the offsets of the pairs. `one_of_many`:
    others follow, so that a kernel pays however few these are."""
    start_ns, end_ns, size, path = (records[name] for name in ("start_ns", "end_ns", "bytes", "path"))
    pair = records["pair"] - np.int32(first_pair)
    connection = records["connection"]
    columns, order, offsets = rows_in_order(
        pair, start_ns, end_ns, size, path, connection, pair_count, by_kernel=one_of_many
    )
    exporter = records["exporter"][order] if "exporter" in (records.dtype.names or ()) else None
    return RecordRows(*columns, exporter), offsets


def flow_table(
    rows: RecordRows, offsets: Int64, names: Names, pair_src: Int32, pair_dst: Int32, *, several_exporters: bool,
    rules: IngestRules = RULES,
) -> FlowTable:  # fmt: skip
    """The table of ordered rows, each transfer once; `counts` are of these rows.

    `several_exporters` is about all records there are, not only these: it decides how duplicates are looked for.
    """
    exporter = rows.exporter if rows.exporter is not None else np.full(rows.path.size, -1, dtype=np.int32)
    copies = duplicate_rows(
        offsets, rows.start_ns, rows.end_ns, rows.bytes, rows.connection, exporter if several_exporters else None,
        rules.clock_skew_ns,
    )  # fmt: skip
    records, dropped = int(copies.size), int(np.count_nonzero(copies))
    if dropped:
        rows, offsets = rows.select(~copies), keep_rows(offsets, ~copies)
    counts = InputCounts(records, records - dropped, ((REASONS[DUPLICATE], dropped),) if dropped else ())
    return FlowTable(
        names.addresses, names.paths, pair_src, pair_dst, offsets,
        rows.start_ns, rows.end_ns, rows.bytes, rows.path, counts,
    )  # fmt: skip
