"""Numbers of 8, 16, 32 and 64 bits at an offset of a byte array. The caller has compared the offset with the end."""

from __future__ import annotations

import numpy as np

from llmprism.ingest.packets.compiled import inlined
from llmprism.ingest.packets.layout import Number
from llmprism.ingest.packets.work import Bytes

__all__ = ["big16", "big32", "big64", "byte", "little32"]


@inlined
def byte(data: Bytes, at: Number) -> Number:
    return np.int64(data[at])


@inlined
def big16(data: Bytes, at: Number) -> Number:
    return byte(data, at) << 8 | byte(data, at + 1)


@inlined
def big32(data: Bytes, at: Number) -> Number:
    return big16(data, at) << 16 | big16(data, at + 2)


@inlined
def big64(data: Bytes, at: Number) -> Number:
    return big32(data, at) << 32 | big32(data, at + 4)


@inlined
def little32(data: Bytes, at: Number) -> Number:
    return byte(data, at + 3) << 24 | byte(data, at + 2) << 16 | byte(data, at + 1) << 8 | byte(data, at)
