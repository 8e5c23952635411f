"""What the messages of an Arrow IPC stream will take once unpacked, read from their metadata alone.

A message's metadata is a flatbuffer: a record batch states its number of rows and where its buffers lie, and where
these are compressed, each begins with the length that it unpacks to. Four kilobytes can state a terabyte, so the sums
are compared with the caps before pyarrow is let at the stream. Layout: `Message.fbs` of the Arrow format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from llmprism.errors import FormatError, LimitError

__all__ = ["check_lengths", "unpacked_lengths"]

DICTIONARY: Final = 2
RECORDS: Final = 3
"""Kinds of a message's header, of `MessageHeader`."""

MAX_BUFFERS: Final = 10_000
"""Buffers of one message: three for each of a thousand columns, thrice over."""


def check_lengths(messages: Iterable[Any], most: int, records: int) -> None:
    """Raises LimitError where the stream unpacks to more than `most` bytes or holds more than `records` rows."""
    rows = size = 0
    for message in messages:
        more_rows, more_size = unpacked_lengths(bytes(message.metadata), message.body)
        rows, size = rows + more_rows, size + more_size
        if size > most:
            raise LimitError(f"the Arrow stream unpacks to more than {most:,} bytes; send smaller batches")
        if rows > records:
            raise LimitError(f"the Arrow stream holds more than {records:,} records; send smaller batches")


def unpacked_lengths(metadata: bytes, body: Any) -> tuple[int, int]:
    """(rows, bytes) of one message; zeros for messages without data. FormatError where the metadata is broken."""
    try:
        message = _table(metadata, struct.unpack_from("<I", metadata, 0)[0])
        kind = metadata[message[1]] if message.get(1) else 0
        if kind not in (DICTIONARY, RECORDS) or 2 not in message:
            return 0, 0
        batch = _table(metadata, _offset(metadata, message[2]))
        if kind == DICTIONARY:
            batch = _table(metadata, _offset(metadata, batch[1]))
        rows = struct.unpack_from("<q", metadata, batch[0])[0] if 0 in batch else 0
        if rows < 0:
            raise FormatError("the Arrow stream states a negative number of rows")
        return rows, _buffers(metadata, batch, memoryview(body) if body is not None else memoryview(b""))
    except (struct.error, IndexError, KeyError) as error:
        raise FormatError(f"broken metadata in the Arrow stream ({type(error).__name__})") from None


def _buffers(metadata: bytes, batch: dict[int, int], body: memoryview) -> int:
    if 2 not in batch:
        return 0
    start = _offset(metadata, batch[2])
    count = struct.unpack_from("<I", metadata, start)[0]
    if count > MAX_BUFFERS:
        raise LimitError(f"the Arrow stream states {count:,} buffers in one message")
    total = 0
    for index in range(count):
        offset, length = struct.unpack_from("<qq", metadata, start + 4 + 16 * index)
        if offset < 0 or length < 0 or offset + length > len(body):
            raise FormatError("the Arrow stream states a buffer outside of its message")
        stated = struct.unpack_from("<q", body, offset)[0] if 3 in batch and length >= 8 else -1
        total += length if stated < 0 else stated
    return total


def _offset(metadata: bytes, position: int) -> int:
    return int(position + struct.unpack_from("<I", metadata, position)[0])


def _table(metadata: bytes, position: int) -> dict[int, int]:
    """Field number → position of its value, for the fields that are there."""
    fields = position - struct.unpack_from("<i", metadata, position)[0]
    if fields < 0:
        raise IndexError(fields)
    size = struct.unpack_from("<H", metadata, fields)[0]
    found = {}
    for number in range((size - 4) // 2):
        at = struct.unpack_from("<H", metadata, fields + 4 + 2 * number)[0]
        if at:
            found[number] = position + at
    return found
