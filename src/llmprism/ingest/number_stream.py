"""Columns of numbers of a query, batch by batch: no Python object per row, and never all rows at once.

DuckDB hands a running query out as an Arrow C stream: three C structs with a fixed layout
(https://arrow.apache.org/docs/format/CStreamInterface.html). For numbers without NULLs a column is one buffer, so
ctypes and NumPy are all it takes to read it, and no Arrow library is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.ingest.database import Database

__all__ = ["Batch", "in_blocks", "number_batches"]

Batch = dict[str, NDArray[Any]]
"""Columns of equal length by name."""

_TYPES: Final = {b"C": np.uint8, b"i": np.int32, b"I": np.uint32, b"l": np.int64, b"L": np.uint64}
"""Arrow's letters for the types that are read."""


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("child_count", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("buffer_count", ctypes.c_int64),
    ("child_count", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def number_batches(connection: Database, query: str) -> Iterator[Batch]:
    """The columns of a query whose values are whole numbers, none of them NULL; arrays are valid until the next batch.

    Raises duckdb.Error where the query fails.
    """
    capsule = connection.sql(query).__arrow_c_stream__()  # releases the stream when it goes
    address = _pointer(capsule)
    stream = _Stream.from_address(address)
    types = _column_types(stream, address)
    while True:
        array = _Array()
        _check(stream, address, stream.get_next(address, ctypes.addressof(array)))
        if not array.release:
            return
        try:
            if array.length:
                yield {name: _column(array, place, kind) for place, (name, kind) in enumerate(types)}
        finally:
            _Release(array.release)(ctypes.addressof(array))


def in_blocks(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """The same rows, `size` of them in each batch but the last; arrays are valid until the next batch."""
    block: Batch = {}
    filled = 0
    for batch in batches:
        rows, taken = len(next(iter(batch.values()))), 0
        block = block or {name: np.empty(size, dtype=column.dtype) for name, column in batch.items()}
        while taken < rows:
            count = min(size - filled, rows - taken)
            for name, column in block.items():
                column[filled : filled + count] = batch[name][taken : taken + count]
            filled, taken = filled + count, taken + count
            if filled == size:
                yield block
                filled = 0
    if filled:
        yield {name: column[:filled] for name, column in block.items()}


def _pointer(capsule: object) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, b"arrow_array_stream"))


def _check(stream: _Stream, address: int, status: int) -> None:
    if not status:
        return
    text = (stream.get_last_error(address) or b"the query failed").decode("utf-8", "replace")
    raise (duckdb.OutOfMemoryException if "Out of Memory" in text else duckdb.Error)(text)


def _column_types(stream: _Stream, address: int) -> list[tuple[str, Any]]:
    schema = _Schema()
    _check(stream, address, stream.get_schema(address, ctypes.addressof(schema)))
    try:
        columns = (schema.children[place].contents for place in range(schema.child_count))
        return [(column.name.decode(), _TYPES[column.format]) for column in columns]
    finally:
        _Release(schema.release)(ctypes.addressof(schema))


def _column(array: _Array, place: int, kind: Any) -> NDArray[Any]:
    child = array.children[place].contents
    if child.null_count > 0:
        raise ValueError(f"column {place} holds NULL")
    width = np.dtype(kind).itemsize
    first = child.buffers[1] + (array.offset + child.offset) * width
    return np.frombuffer((ctypes.c_char * (array.length * width)).from_address(first), dtype=kind)
