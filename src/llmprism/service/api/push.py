"""Bodies of `POST /api/v1/flows` on their way to a file: capped, unpacked under the same cap, told apart by type.

A body is written to disk as it comes and never held in memory. Compression is undone here, against the cap, so that a
small body cannot become a huge one later. Arrow streams become Parquet, batch by batch, where pyarrow is installed.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from llmprism.errors import FormatError, LimitError

__all__ = ["ARROW", "TYPES", "UnsupportedError", "arrow_to_parquet", "count_lines", "receive_body"]

ARROW: Final = "arrow"
TYPES: Final = {
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/json": "jsonl",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.stream": ARROW,
    "text/csv": "csv",
}
"""Media type → format."""

_CHUNK: Final = 1 << 16


class UnsupportedError(Exception):
    """A media type or a content coding that is not known here."""


class _Unpacker(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...


async def receive_body(stream: AsyncIterator[bytes], target: Path, coding: str, most: int) -> int:
    """Writes the unpacked body; returns its size. LimitError beyond `most`, FormatError for broken packing."""
    unpack = _unpacker(coding)
    size = received = 0
    with target.open("wb") as file:
        async for chunk in stream:
            received += len(chunk)
            if received > most:
                raise LimitError(f"the body is larger than {most:,} bytes; send smaller batches")
            for piece in unpack(chunk):
                size += len(piece)
                if size > most:
                    raise LimitError(f"the body unpacks to more than {most:,} bytes; send smaller batches")
                file.write(piece)
    return size


def _unpacker(coding: str) -> Callable[[bytes], Any]:
    if coding in ("", "identity"):
        return lambda chunk: (chunk,)
    if coding == "gzip":
        return _gzip()
    if coding == "zstd":
        try:
            import zstandard
        except ImportError:
            raise UnsupportedError("zstd bodies need the zstandard package") from None
        return _zstd(zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj(), zstandard.ZstdError)
    raise UnsupportedError(f"content coding {coding[:40]!r}; gzip, zstd and identity are known")


def _gzip() -> Callable[[bytes], Any]:
    unpacker = zlib.decompressobj(wbits=31)

    def unpack(chunk: bytes) -> Any:
        try:
            while chunk and not unpacker.eof:
                yield unpacker.decompress(chunk, _CHUNK)
                chunk = unpacker.unconsumed_tail
        except zlib.error as error:
            raise FormatError(f"broken gzip body ({error})") from None

    return unpack


def _zstd(unpacker: _Unpacker, broken: type[Exception]) -> Callable[[bytes], Any]:
    def unpack(chunk: bytes) -> Any:
        for start in range(0, len(chunk), 4096):
            try:
                yield unpacker.decompress(chunk[start : start + 4096])
            except (broken, EOFError) as error:
                raise FormatError(f"broken zstd body ({error})") from None

    return unpack


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def arrow_to_parquet(source: Path, target: Path, most: int) -> None:
    """An Arrow IPC stream as a Parquet file. The schema is looked at before any batch is read."""
    try:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise UnsupportedError("Arrow bodies need the pyarrow package; send Parquet or NDJSON") from None
    try:
        with pa.memory_map(str(source)) as file, pa.ipc.open_stream(file) as reader:
            missing = {"start_ns", "end_ns", "src", "dst", "bytes"} - set(reader.schema.names)
            if missing:
                raise FormatError(f"the Arrow stream has no column {sorted(missing)[0]!r}")
            size = 0
            with pa.parquet.ParquetWriter(target, reader.schema) as writer:
                for batch in reader:
                    size += batch.nbytes
                    if size > most:
                        raise LimitError(f"the Arrow stream holds more than {most:,} bytes; send smaller batches")
                    writer.write_batch(batch)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not an Arrow IPC stream ({' '.join(str(error).split())[:160]})") from None
