"""The graph of the pairs: all that the driver knows of the records, a row per distinct pair."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.engine.spark.arrow_tables import DROPPED, segments_from
from llmprism.errors import InputError
from llmprism.ingest.columns import REASONS
from llmprism.model.flows import InputCounts, Window
from llmprism.pipeline.cluster import PairGraph

__all__ = ["graph_from"]


def graph_from(table: pa.Table, name: str, watched_until_ns: int | None = None) -> PairGraph:
    """The graph of a table with the ends, the segments and the dropped records of all pairs, in any order.

    `name` stands for the records where none of them can be used; `watched_until_ns` is as in `pipeline.diagnose`.
    """
    known = pc.is_valid(table["src"])
    dropped = np.zeros(len(REASONS), dtype=np.int64)
    for part in table.filter(pc.invert(known))[DROPPED].to_pylist():
        dropped += np.array(part, dtype=np.int64)
    table = table.filter(known)
    if not table.num_rows:
        reasons = ", ".join(f"{REASONS[code]} {dropped[code]:,}" for code in np.flatnonzero(dropped))
        raise InputError(
            f"{name}: none of {int(dropped.sum()):,} records can be used ({reasons or 'there are none'}); check the "
            "column mapping and the units of the times (--map start_ns=ts:ms)"
        )
    addresses = sorted({*table["src"].unique().to_pylist(), *table["dst"].unique().to_pylist()})
    names = pa.array(addresses, type=pa.string())
    src, dst = (pc.index_in(table[end], value_set=names).to_numpy().astype(np.int32) for end in ("src", "dst"))
    order = np.lexsort((dst, src))
    segments = segments_from(table.take(order))
    used = int(segments.records.sum())
    reasons_of = tuple((REASONS[code], int(dropped[code])) for code in np.flatnonzero(dropped))
    counts = InputCounts(used + int(dropped.sum()), used, reasons_of)
    window = Window(int(segments.first_ns.min()), int(segments.last_ns.max())).watched_until(watched_until_ns)
    return PairGraph(tuple(addresses), src[order], dst[order], segments, counts, window)
