"""Time and byte-space of a series of silences: nothing is sent in them, and bytes flow evenly between them."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.stats.silences import Silences

__all__ = ["bytes_at", "time_at"]


def bytes_at(silences: Silences, when_ns: Int64) -> Float64:
    """Bytes sent by each time."""
    edge, sent = _edges(silences)
    found: Float64 = np.interp((when_ns - silences.begin_ns[0]).astype(np.float64), edge, sent)
    return found


def time_at(silences: Silences, sent_bytes: Float64) -> Int64:
    """When so many bytes had been sent; before the silence where that is one."""
    edge, sent = _edges(silences)
    when = np.interp(sent_bytes, sent, edge)
    exact = np.minimum(np.searchsorted(silences.bytes_before, sent_bytes), silences.count - 1)
    begins = silences.bytes_before[exact] == sent_bytes
    found: Int64 = np.where(begins, silences.begin_ns[exact], when.astype(np.int64) + silences.begin_ns[0])
    return found


def _edges(silences: Silences) -> tuple[Float64, Float64]:
    """The edges of the silences in ns since the first, and the bytes sent by each."""
    edge = np.stack([silences.begin_ns, silences.begin_ns + silences.length_ns], axis=1).ravel()
    return (edge - edge[0]).astype(np.float64), np.repeat(silences.bytes_before, 2).astype(np.float64)
