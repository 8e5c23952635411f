"""Transfers as Arrow: one row per directed pair, its transfers as lists, which is how TransferTable holds them anyway.

Spark moves and keeps these rows; a list costs it one entry, however long. `paths` of a row are the pair's own, and
`path` counts in them, so that a row means the same wherever it goes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llmprism.arrays import Int32, Int64
from llmprism.engine.arrow_codec import spark_type
from llmprism.model.flows import TransferTable, ranges
from llmprism.recognize.segments import PairSegments

__all__ = [
    "DROPPED",
    "PAIRS",
    "ROWS",
    "SEGMENTS",
    "digest",
    "pair_rows",
    "schema_text",
    "segments_from",
    "transfers_from",
]

ROWS: Final = ("start_ns", "end_ns", "bytes", "active_ns", "path", "records")
"""Columns with one entry per transfer."""

SEGMENTS: Final = tuple(f"segment_{field.name}" for field in fields(PairSegments) if field.name != "offsets")
"""Columns with one entry per segment of the pair."""

DROPPED: Final = "dropped"
"""Set in one row per bucket, which stands for no pair: records that could not be used, by reason."""

_LONGS: Final = pa.list_(pa.int64())
_INTS: Final = pa.list_(pa.int32())

PAIRS: Final = pa.schema(
    [("src", pa.string()), ("dst", pa.string()), ("gap_ns", pa.int64())]
    + [(name, _INTS if name in ("path", "records") else _LONGS) for name in ROWS]
    + [("paths", pa.list_(pa.list_(pa.string())))]
    + [(name, _LONGS) for name in SEGMENTS]
    + [(DROPPED, _LONGS)]
)


def schema_text(schema: pa.Schema) -> str:
    """A schema in Spark's own notation."""
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


def pair_rows(transfers: TransferTable, segments: PairSegments, dropped: Int64) -> pa.Table:
    """One row per pair, and one for what was dropped."""
    names = pa.array(transfers.addresses, type=pa.string())
    path, paths = _own_paths(transfers)
    columns: dict[str, Any] = {
        "src": names.take(pa.array(transfers.pair_src)),
        "dst": names.take(pa.array(transfers.pair_dst)),
        "gap_ns": pa.array(transfers.pair_gap_ns),
        "paths": paths,
        DROPPED: pa.nulls(transfers.pair_count, _LONGS),
    }
    columns |= {name: _lists(transfers.pair_offsets, getattr(transfers, name)) for name in ROWS if name != "path"}
    columns["path"] = _lists(transfers.pair_offsets, path)
    columns |= {name: _lists(segments.offsets, getattr(segments, name.removeprefix("segment_"))) for name in SEGMENTS}
    pairs = pa.table({name: columns[name] for name in PAIRS.names}, schema=PAIRS)
    last = {name: pa.nulls(1, PAIRS.field(name).type) for name in PAIRS.names}
    last[DROPPED] = pa.array([dropped], type=_LONGS)
    return pa.concat_tables([pairs, pa.table(last, schema=PAIRS)])


def _lists(offsets: Int64, values: NDArray[Any]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def _own_paths(transfers: TransferTable) -> tuple[Int32, pa.Array]:
    """The path of each row counted among the paths of its pair, and those paths, in order."""
    known = np.flatnonzero(transfers.path >= 0)
    keys = transfers.pair_of_row[known].astype(np.int64) * max(len(transfers.paths), 1) + transfers.path[known]
    distinct, place = np.unique(keys, return_inverse=True)
    pair, number = np.divmod(distinct, max(len(transfers.paths), 1))
    offsets = np.searchsorted(pair, np.arange(transfers.pair_count + 1))
    path = np.full(transfers.path.size, -1, dtype=np.int32)
    path[known] = place - offsets[transfers.pair_of_row[known]]
    names = pa.array([list(one) for one in transfers.paths], type=pa.list_(pa.string()))
    return path, pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), names.take(pa.array(number)))


def segments_from(table: pa.Table) -> PairSegments:
    """The segments of the pairs in a table with the columns SEGMENTS, in its order."""
    columns = {name.removeprefix("segment_"): _values(table[name]) for name in SEGMENTS}
    offsets = next(iter(columns.values()))[0]
    return PairSegments(offsets=offsets, **{name: values for name, (_, values) in columns.items()})


def _values(column: pa.ChunkedArray) -> tuple[Int64, NDArray[Any]]:
    """Offsets and values of a column of lists; a null is an empty list."""
    lists = column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], type=column.type)
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return offsets, lists.flatten().to_numpy(zero_copy_only=False)


def transfers_from(table: pa.Table, addresses: tuple[str, ...]) -> TransferTable:
    """The transfers of a table of pieces, ordered by `piece`.

    Besides the columns of a pair it has `src_id` and `dst_id`, and `row` and `rows`: where in its pair's transfers the
    piece begins and how many they are (-1: all that follow).
    """
    table = table.take(np.argsort(table["piece"].to_numpy(), kind="stable"))
    offsets, _ = _values(table["start_ns"])
    starts = offsets[:-1] + table["row"].to_numpy()
    count = table["rows"].to_numpy()
    ends = np.minimum(np.where(count < 0, offsets[1:], starts + count), offsets[1:])
    starts = np.minimum(starts, ends)
    rows = ranges(starts, ends)
    bounds = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
    columns = {name: _values(table[name])[1][rows] for name in ROWS}
    paths, number = _common_paths(table["paths"])
    pair_of_row = np.repeat(np.arange(starts.size), ends - starts)
    known = columns["path"] >= 0
    path = columns["path"].astype(np.int32)
    path[known] = number[0][number[1][pair_of_row[known]] + path[known]]
    return TransferTable(
        addresses,
        paths,
        table["src_id"].to_numpy().astype(np.int32),
        table["dst_id"].to_numpy().astype(np.int32),
        bounds,
        table["gap_ns"].fill_null(0).to_numpy().astype(np.int64),
        columns["start_ns"],
        columns["end_ns"],
        columns["bytes"],
        columns["active_ns"],
        path,
        columns["records"].astype(np.int32),
    )


def _common_paths(column: pa.ChunkedArray) -> tuple[tuple[tuple[str, ...], ...], tuple[Int32, Int64]]:
    """All paths in order, the number of each path of each row in them, and where the rows' numbers begin."""
    own = [tuple(map(tuple, paths)) for paths in column.fill_null([]).to_pylist()]
    every = sorted({path for paths in own for path in paths})
    number = {path: i for i, path in enumerate(every)}
    begin = np.concatenate([[0], np.cumsum([len(paths) for paths in own])]).astype(np.int64)
    return tuple(every), (np.array([number[path] for paths in own for path in paths], dtype=np.int32), begin)


def digest(transfers: TransferTable) -> TransferTable:
    """One row per pair and path, with sums and outer bounds: what is left to say about them over all jobs."""
    key = transfers.pair_of_row.astype(np.int64) * (len(transfers.paths) + 1) + transfers.path + 1
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    if not starts.size:
        return transfers
    pair = key[order][starts] // (len(transfers.paths) + 1)
    return TransferTable(
        (),
        transfers.paths,
        transfers.pair_src,
        transfers.pair_dst,
        np.searchsorted(pair, np.arange(transfers.pair_count + 1)).astype(np.int64),
        transfers.pair_gap_ns,
        np.minimum.reduceat(transfers.start_ns[order], starts),
        np.maximum.reduceat(transfers.end_ns[order], starts),
        np.add.reduceat(transfers.bytes[order], starts),
        np.add.reduceat(transfers.active_ns[order], starts),
        transfers.path[order][starts],
        np.add.reduceat(transfers.records[order], starts, dtype=np.int32),
    )
