"""Per-GPU events of all jobs as one Parquet file, in the contract's columns, written by DuckDB.

`job, address, step, kind, start_ns, end_ns, peer, bytes`; `step` is null outside any step and `peer` is null where
there is none. Rows stand job by job, and inside a job by address and start, as the timeline holds them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.errors import OutputError
from llmprism.model.report import Report
from llmprism.model.timeline import EventKind

__all__ = ["write"]

_COPY = """
COPY (
    SELECT jobs.name::VARCHAR AS job, sources.name::VARCHAR AS address, nullif(event.step, -1) AS step,
           kinds.name AS kind, event.start_ns, event.end_ns, peers.name::VARCHAR AS peer, event.bytes
    FROM event
    JOIN jobs ON jobs.id = event.job
    JOIN addresses AS sources ON sources.id = event.address
    JOIN kinds ON kinds.id = event.kind
    LEFT JOIN addresses AS peers ON peers.id = event.peer
    ORDER BY event.row
) TO '{path}' (FORMAT parquet, COMPRESSION zstd)
"""


def write(report: Report, path: Path) -> None:
    """Write the file; an `OutputError` says why it could not be."""
    connection = duckdb.connect(":memory:")
    try:
        connection.register("event", _event_columns(report))
        connection.register("jobs", _names([job.job.id for job in report.jobs]))
        connection.register("addresses", _names(list(report.addresses)))
        connection.register("kinds", _names([kind.label for kind in EventKind]))
        connection.execute(_COPY.format(path=str(path).replace("'", "''")))
    except duckdb.IOException as error:
        raise OutputError(f"cannot write {path}: {error}") from error
    finally:
        connection.close()


def _event_columns(report: Report) -> dict[str, NDArray[Any]]:
    events = [job.timeline.events for job in report.jobs]
    counts = [part.count for part in events]

    def joined(name: str, dtype: type) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in events] or [np.zeros(0)]).astype(dtype)

    return {
        "row": np.arange(sum(counts), dtype=np.int64),
        "job": np.repeat(np.arange(len(events), dtype=np.int32), counts),
        "address": joined("address", np.int32),
        "step": joined("step", np.int32),
        "kind": joined("kind", np.int8),
        "start_ns": joined("start_ns", np.int64),
        "end_ns": joined("end_ns", np.int64),
        "peer": joined("peer", np.int32),
        "bytes": joined("bytes", np.int64),
    }


def _names(names: list[str]) -> dict[str, NDArray[Any]]:
    """An id and a name per row. A lone surrogate, which no file can hold, becomes `?`."""
    texts = [name.encode("utf-8", "replace").decode("utf-8") for name in names]
    return {"id": np.arange(len(names), dtype=np.int32), "name": np.array(texts, dtype=object)}
