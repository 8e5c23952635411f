"""Bodies of `POST /api/v1/flows` on their way to a file: capped, unpacked under the same cap, distinguished by type.

A body is written to disk as it comes and never held in memory. Compression is undone here, against the cap, so that a
small body cannot become a huge one later; a body may consist of several compressed members, as log shippers write them,
and one that ends inside a member is refused. Arrow streams become Parquet, batch by batch, where pyarrow is installed;
the lengths that their messages state are added up before any of them is unpacked (`arrow_lengths`).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from llmprism.errors import FormatError, LimitError
from llmprism.service.api.arrow_lengths import check_lengths

__all__ = ["ARROW", "TYPES", "Received", "UnsupportedError", "arrow_to_parquet", "count_lines", "receive_body"]

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


ZSTD_WINDOW: Final = 1 << 23
"""8 MiB: what every decoder of the format must support. The window is memory that one open push holds."""


@dataclass(frozen=True, slots=True)
class Received:
    """Size of the unpacked body, and a digest of it by which a body that is sent again is recognised."""

    size: int
    digest: str


class _Unpacker(Protocol):
    def feed(self, chunk: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None: ...


async def receive_body(stream: AsyncIterator[bytes], target: Path, coding: str, most: int) -> Received:
    """Writes the unpacked body. LimitError beyond `most`, FormatError for broken or cut packing."""
    unpacker = _unpacker(coding)
    digest = hashlib.blake2b(digest_size=8)
    size = received = 0
    with target.open("wb") as file:
        async for chunk in stream:
            received += len(chunk)
            if received > most:
                raise LimitError(f"the body is larger than {most:,} bytes; send smaller batches")
            for piece in unpacker.feed(chunk):
                size += len(piece)
                if size > most:
                    raise LimitError(f"the body unpacks to more than {most:,} bytes; send smaller batches")
                digest.update(piece)
                file.write(piece)
    unpacker.finish()
    return Received(size, digest.hexdigest())


def _unpacker(coding: str) -> _Unpacker:
    if coding in ("", "identity"):
        return _NoCompression()
    if coding == "gzip":
        return _Gzip()
    if coding == "zstd":
        try:
            import zstandard
        except ImportError:
            raise UnsupportedError("zstd bodies need the zstandard package") from None
        make = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj
        return _Zstd(make, zstandard.ZstdError)
    raise UnsupportedError(f"content coding {coding[:40]!r}; gzip, zstd and identity are known")


class _NoCompression:
    def feed(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk

    def finish(self) -> None:
        return None


class _Gzip:
    """Members one after the other; zeros between and after them are padding, as gzip(1) has it."""

    def __init__(self) -> None:
        self._member: Any = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        try:
            while chunk:
                if self._member is None:
                    chunk = chunk.lstrip(b"\0")
                    if not chunk:
                        return
                    self._member = zlib.decompressobj(wbits=31)
                yield self._member.decompress(chunk, _CHUNK)
                chunk = self._member.unconsumed_tail
                if self._member.eof:
                    chunk, self._member = self._member.unused_data, None
        except zlib.error as error:
            raise FormatError(f"broken gzip body ({error})") from None

    def finish(self) -> None:
        if self._member is not None:
            raise FormatError("the gzip body is cut off; send it again")


class _Zstd:
    """Frames one after the other."""

    def __init__(self, make: Callable[[], Any], broken: type[Exception]) -> None:
        self._make = make
        self._broken = broken
        self._frame: Any = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        for start in range(0, len(chunk), 4096):
            rest = chunk[start : start + 4096]
            while rest:
                if self._frame is None:
                    self._frame = self._make()
                try:
                    yield self._frame.decompress(rest)
                except (self._broken, EOFError) as error:
                    raise FormatError(f"broken zstd body ({error})") from None
                rest = b""
                if self._frame.eof:
                    rest, self._frame = self._frame.unused_data, None

    def finish(self) -> None:
        if self._frame is not None:
            raise FormatError("the zstd body is cut off; send it again")


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def arrow_to_parquet(source: Path, target: Path, most: int, records: int) -> None:
    """An Arrow IPC stream as a Parquet file. Schema and lengths are looked at before any batch is unpacked."""
    try:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise UnsupportedError("Arrow bodies need the pyarrow package; send Parquet or NDJSON") from None
    try:
        with pa.memory_map(str(source)) as file:
            check_lengths(pa.ipc.MessageReader.open_stream(file), most, records)
        with pa.memory_map(str(source)) as file, pa.ipc.open_stream(file) as reader:
            missing = {"start_ns", "end_ns", "src", "dst", "bytes"} - set(reader.schema.names)
            if missing:
                raise FormatError(f"the Arrow stream has no column {sorted(missing)[0]!r}")
            with pa.parquet.ParquetWriter(target, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not an Arrow IPC stream ({' '.join(str(error).split())[:160]})") from None
