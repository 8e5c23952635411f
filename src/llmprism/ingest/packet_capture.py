"""Packet captures (pcap, pcapng) → a scan over the flow records made of them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import numpy as np

from llmprism.errors import FormatError
from llmprism.ingest.capture_notes import CaptureNotes
from llmprism.ingest.columns import Scan, SourceColumn, literal
from llmprism.ingest.database import Database, Progress
from llmprism.ingest.file_format import Compression, Format, Read, ReadOptions, SourceFile
from llmprism.ingest.packets import layout
from llmprism.ingest.packets.magic import is_packets
from llmprism.ingest.zstd import zstd_stream
from llmprism.model.congestion import CongestionTable

if TYPE_CHECKING:
    from llmprism.ingest.packets.reader import PacketReader

__all__ = ["PACKETS"]

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


def _scans(connection: Database, sources: Sequence[SourceFile], options: ReadOptions) -> Read:
    scans, notes = [], []
    for number, source in enumerate(sources):

        def report_share(share: float, done: int = number) -> None:
            options.report_packets((done + share) / len(sources))

        scan, note = _scan(connection, source, f"packets_{number}", options.burst_gap_ns, report_share)
        scans.append(scan)
        notes.append(note)
    return scans, notes


def _scan(
    connection: Database, source: SourceFile, table: str, burst_gap_ns: int, report_share: Progress
) -> tuple[Scan, CaptureNotes]:
    """Reads the capture into `table` (which may spill to disk) and returns a scan over it with what was seen.

    `report_share` is called with the share of the file that has been read; the size of standard input is not known.
    """
    from llmprism.ingest.packets.reader import PacketReader

    types = ", ".join(f"{name} BIGINT" for name in _COLUMNS)
    connection.execute(f"CREATE TEMP TABLE {table}({types})")
    with _stream(source) as (stream, share):
        reader = PacketReader(stream, source.name, burst_gap_ns, lambda: report_share(share()))
        for batch in reader.batches():
            arrays = {name: np.ascontiguousarray(batch[:, column]) for name, column in _COLUMNS.items()}
            connection.register("packet_batch", arrays)
            connection.execute(f"INSERT INTO {table} SELECT * FROM packet_batch")
            connection.unregister("packet_batch")
    stats = reader.stats()
    if not stats.decoded:
        raise FormatError(
            f"{source.name}: none of {stats.packets:,} packets holds TCP or UDP over IP; capture the network that the "
            "training traffic uses, with a snap length of at least 66 bytes"
        )
    _create_names(connection, f"{table}_names", reader.addresses())
    joined = (
        f"(SELECT r.* EXCLUDE (src, dst), s.name AS src, d.name AS dst, {literal(source.name)} AS exporter "
        f"FROM {table} AS r JOIN {table}_names AS s ON s.id = r.src JOIN {table}_names AS d ON d.id = r.dst)"
    )
    columns = {name: SourceColumn(name, "BIGINT") for name in _COLUMNS}
    columns |= {name: SourceColumn(name, "VARCHAR") for name in ("src", "dst", "exporter")}
    return Scan(source.name, joined, columns), CaptureNotes(stats, _congestion(reader))


def _congestion(reader: PacketReader) -> CongestionTable:
    names, rows = reader.addresses(), reader.congestion()
    src, dst = (tuple(names[address] for address in rows[:, column]) for column in (0, 1))
    return CongestionTable(src, dst, rows[:, 2], rows[:, 3], rows[:, 4], rows[:, 5])


def _create_names(connection: Database, table: str, names: list[str]) -> None:
    ids = np.arange(len(names), dtype=np.int64)
    connection.register("packet_names", {"id": ids, "name": np.array(names, dtype=object)})
    connection.execute(f"CREATE TEMP TABLE {table} AS SELECT id, name::VARCHAR AS name FROM packet_names")
    connection.unregister("packet_names")


@contextmanager
def _stream(source: SourceFile) -> Iterator[tuple[BinaryIO, Callable[[], float]]]:
    """The decompressed bytes, and a function that says which share of the file they come from."""
    if source.stream is not None:
        yield source.stream, lambda: 0.0
        return
    size = max(source.path.stat().st_size, 1)
    with source.path.open("rb", buffering=0) as raw:
        decompressed = cast(BinaryIO, raw)
        if source.compression is Compression.GZIP:
            decompressed = cast(BinaryIO, gzip.GzipFile(fileobj=raw))
        elif source.compression is Compression.ZSTD:
            decompressed = zstd_stream(decompressed, source.name)
        yield decompressed, lambda: raw.tell() / size


def _check(source: SourceFile, head: bytes) -> None:
    if not is_packets(head):
        raise FormatError(
            f"{source.path}: not a packet capture: no pcap or pcapng magic number at byte 0; check --format"
        )


PACKETS: Final = Format("pcap", "a packet capture", is_packets, _scans, _check, streamed=True)
