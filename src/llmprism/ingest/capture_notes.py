"""What a packet capture shows besides its flow records, and how it survives in the converted Parquet file.

Retransmissions, losses, congestion notifications and what the reader could not decide belong to packets, not to
records. `convert` writes them into the Parquet file's own key-value metadata, as JSON under one key: records and notes
stay one file, other readers of Parquet pass over them, and no second file has to be kept with the first.
`read_flows` and `inspect` read them back. See docs/decisions/packet-kernels.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np

from llmprism import limits
from llmprism.errors import FormatError, LimitError
from llmprism.ingest.database import Database
from llmprism.ingest.file_format import SourceFile
from llmprism.ingest.packets.stats import PacketStats
from llmprism.ingest.resolve import file_list
from llmprism.model.congestion import CongestionTable

__all__ = ["METADATA_KEY", "CaptureNotes", "decoded", "encoded", "merged", "stored_notes"]

METADATA_KEY: Final = "llmprism.capture"
SCHEMA: Final = "llmprism.capture/1"
_COUNTS: Final = ("retransmitted", "missing", "notifications", "negative")


@dataclass(frozen=True, slots=True)
class CaptureNotes:
    """What became of the packets of one capture, and the signs of congestion in it."""

    stats: PacketStats
    congestion: CongestionTable


def merged(captures: Sequence[CaptureNotes]) -> CongestionTable | None:
    """The signs of all captures, one after the other; None where there was no capture."""
    tables = [capture.congestion for capture in captures]
    if not tables:
        return None
    columns = (np.concatenate([getattr(table, name) for table in tables]) for name in _COUNTS)
    src, dst = (tuple(name for table in tables for name in getattr(table, end)) for end in ("src", "dst"))
    return CongestionTable(src, dst, *columns)


def encoded(captures: Sequence[CaptureNotes]) -> str:
    documents = [
        {
            "stats": asdict(capture.stats),
            "congestion": {"src": capture.congestion.src, "dst": capture.congestion.dst}
            | {name: getattr(capture.congestion, name).tolist() for name in _COUNTS},
        }
        for capture in captures
    ]
    return json.dumps({"schema": SCHEMA, "captures": documents}, separators=(",", ":"), sort_keys=True)


def stored_notes(connection: Database, sources: Sequence[SourceFile]) -> list[CaptureNotes]:
    """The notes in these Parquet files, in their order."""
    rows = connection.execute(
        f"SELECT file_name, value FROM parquet_kv_metadata({file_list(sources)}) WHERE decode(key) = ?", [METADATA_KEY]
    ).fetchall()
    notes: list[CaptureNotes] = []
    for name, value in rows:
        if len(value) > limits.MAX_CAPTURE_NOTES_BYTES:
            raise LimitError(f"{name}: {len(value):,} bytes of capture notes in the Parquet metadata; write it again")
        notes += decoded(value.decode(errors="replace"), str(name))
    return notes


def decoded(text: str, name: str) -> list[CaptureNotes]:
    """Raises FormatError where the text is not what `encoded` writes."""
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(document["schema"])
        return [CaptureNotes(_stats(one["stats"]), _congestion(one["congestion"])) for one in document["captures"]]
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"[:80]
        raise FormatError(
            f"{name}: broken capture notes under the Parquet metadata key {METADATA_KEY} ({reason}); convert it again"
        ) from None


def _stats(values: dict[str, Any]) -> PacketStats:
    return PacketStats(**{field.name: _count(values[field.name]) for field in fields(PacketStats)})


def _count(value: object) -> Any:
    if not isinstance(value, int) or not -(1 << 62) < value < 1 << 62:
        raise ValueError(f"{value!r:.40} is no count")
    return value


def _congestion(values: dict[str, Any]) -> CongestionTable:
    src, dst = (tuple(str(name)[: limits.MAX_ADDRESS_CHARS] for name in values[end]) for end in ("src", "dst"))
    columns = [np.array([_count(value) for value in values[name]], dtype=np.int64) for name in _COUNTS]
    if any(column.size != len(src) for column in columns) or len(dst) != len(src):
        raise ValueError("columns of different lengths")
    return CongestionTable(src, dst, *columns)
