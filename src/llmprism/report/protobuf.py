"""The few pieces of the protobuf wire format that a trace needs: fields that hold a number, and fields that hold bytes.

A field is its key (`number << 3 | wire type`) and its value; a number is a varint, little-endian groups of seven bits.
"""

from __future__ import annotations

from typing import Final

__all__ = ["bytes_field", "number_field", "text_field", "varint"]

_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2


def varint(value: int) -> bytes:
    """A non-negative number below 2**64."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(field: int, value: int) -> bytes:
    return varint(field << 3 | _VARINT) + varint(value)


def bytes_field(field: int, value: bytes) -> bytes:
    return varint(field << 3 | _LENGTH_DELIMITED) + varint(len(value)) + value


def text_field(field: int, value: str) -> bytes:
    """A string; a lone surrogate, which UTF-8 cannot hold, becomes `?`."""
    return bytes_field(field, value.encode("utf-8", "replace"))
