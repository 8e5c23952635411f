"""Packet captures (pcap, pcapng) → a scan over the flow records made of them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import numpy as np

from llmprism.errors import FormatError
from llmprism.ingest.columns import Scan, SourceColumn, literal
from llmprism.ingest.database import Database
from llmprism.ingest.packets import layout
from llmprism.ingest.packets.stats import PacketStats
from llmprism.ingest.sources import Compression, Source
from llmprism.ingest.zstd import open_zstd
from llmprism.model.congestion import CongestionTable

if TYPE_CHECKING:
    from llmprism.ingest.packets.reader import PacketReader

__all__ = ["Capture", "merged", "packet_scan"]

_COLUMNS: Final = {
    "start_ns": layout.OUT_START,
    "end_ns": layout.OUT_END,
    "src": layout.OUT_SOURCE,
    "dst": layout.OUT_TARGET,
    "sport": layout.OUT_SPORT,
    "dport": layout.OUT_DPORT,
    "protocol": layout.OUT_PROTOCOL,
    "bytes": layout.OUT_BYTES,
    "packets": layout.OUT_PACKETS,
}


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture that was read: the records as a scan, what became of the packets, and the signs of congestion."""

    scan: Scan
    stats: PacketStats
    congestion: CongestionTable


def packet_scan(connection: Database, source: Source, table: str, burst_gap_ns: int) -> Capture:
    """Reads the capture into `table` (which may spill to disk) and returns a scan over it with what was seen."""
    from llmprism.ingest.packets.reader import PacketReader

    types = ", ".join(f"{name} BIGINT" for name in _COLUMNS)
    connection.execute(f"CREATE TEMP TABLE {table}({types})")
    with _stream(source) as stream:
        reader = PacketReader(stream, str(source.path), burst_gap_ns)
        for batch in reader.batches():
            arrays = {name: np.ascontiguousarray(batch[:, column]) for name, column in _COLUMNS.items()}
            connection.register("packet_batch", arrays)
            connection.execute(f"INSERT INTO {table} SELECT * FROM packet_batch")
            connection.unregister("packet_batch")
    stats = reader.stats()
    if not stats.decoded:
        raise FormatError(
            f"{source.path}: none of {stats.packets:,} packets holds TCP or UDP over IP; capture the network that the "
            "training traffic uses, with a snap length of at least 66 bytes"
        )
    _create_names(connection, f"{table}_names", reader.addresses())
    joined = (
        f"(SELECT r.* EXCLUDE (src, dst), s.name AS src, d.name AS dst, {literal(str(source.path))} AS exporter "
        f"FROM {table} AS r JOIN {table}_names AS s ON s.id = r.src JOIN {table}_names AS d ON d.id = r.dst)"
    )
    columns = {name: SourceColumn(name, "BIGINT") for name in _COLUMNS}
    columns |= {name: SourceColumn(name, "VARCHAR") for name in ("src", "dst", "exporter")}
    return Capture(Scan(str(source.path), joined, columns), stats, _congestion(reader))


def _congestion(reader: PacketReader) -> CongestionTable:
    names, rows = reader.addresses(), reader.congestion()
    src, dst = (tuple(names[address] for address in rows[:, column]) for column in (0, 1))
    return CongestionTable(src, dst, rows[:, 2], rows[:, 3], rows[:, 4], rows[:, 5])


def merged(captures: Sequence[Capture]) -> CongestionTable | None:
    """The signs of all captures, one after the other; None where there was no capture."""
    tables = [capture.congestion for capture in captures]
    if not tables:
        return None
    return CongestionTable(
        tuple(name for table in tables for name in table.src),
        tuple(name for table in tables for name in table.dst),
        np.concatenate([table.retransmitted for table in tables]),
        np.concatenate([table.missing for table in tables]),
        np.concatenate([table.notifications for table in tables]),
        np.concatenate([table.negative for table in tables]),
    )


def _create_names(connection: Database, table: str, names: list[str]) -> None:
    ids = np.arange(len(names), dtype=np.int64)
    connection.register("packet_names", {"id": ids, "name": np.array(names, dtype=object)})
    connection.execute(f"CREATE TEMP TABLE {table} AS SELECT id, name::VARCHAR AS name FROM packet_names")
    connection.unregister("packet_names")


@contextmanager
def _stream(source: Source) -> Iterator[BinaryIO]:
    if source.stream is not None:
        yield source.stream
        return
    try:
        if source.compression is Compression.GZIP:
            with gzip.open(source.path, "rb") as packed:
                yield cast(BinaryIO, packed)
        elif source.compression is Compression.ZSTD:
            with open_zstd(source.path) as packed:
                yield packed
        else:
            with source.path.open("rb", buffering=0) as plain:
                yield cast(BinaryIO, plain)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"{source.path}: broken {source.compression} data ({error}); copy it again") from None
