"""Flow records and transfers as structs of arrays.

A *record* is what a collector saw; a *transfer* is what the sender meant: the records of one directed pair put
together across ports and across the short pauses that cut real messages in pieces. Both tables are sorted by
(src, dst, start_ns) and cut by `pair_offsets`: the rows of pair `p` are `pair_offsets[p]:pair_offsets[p + 1]`.
Addresses are integers that index `addresses`; switch paths are integers that index `paths` (-1: not known).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Bool, Int32, Int64
from llmprism.errors import UsageError

if TYPE_CHECKING:
    from llmprism.model.congestion import CongestionTable


_Scalar = TypeVar("_Scalar", bound=np.generic)

__all__ = [
    "CONTROL_BYTES",
    "CONTROL_SHARE",
    "MESSAGE_FLOOR_BYTES",
    "MESSAGE_SAMPLE",
    "ONE_MESSAGE_BYTES",
    "AssembledFlows",
    "FlowTable",
    "InputCounts",
    "Int32",
    "Int64",
    "TransferTable",
    "Window",
    "ranges",
    "row_runs",
    "rows_in_runs",
    "rows_of_pairs",
]

MESSAGE_FLOOR_BYTES: Final = 1_000
"""Smaller transfers are heartbeats, norms and store messages, which go on between steps and between jobs; the smallest
gradient bucket of a real job was 6 KB."""

CONTROL_SHARE: Final = 0.01
"""Messages below this share of the usual one (which half of the bytes are sent in) carry no tensors..."""

CONTROL_BYTES: Final = 16_384
"""...if they are below this size too: a norm is a few bytes on each of up to some dozen connections, and communicators
that connect exchange 5 KB."""

MESSAGE_SAMPLE: Final = 20_000
"""Messages that the usual size is taken from."""

ONE_MESSAGE_BYTES: Final = 1_000_000
"""Size that every message is given where messages are counted; any above the floor would do."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time range that was watched, in ns since the Unix epoch: that of the records where nothing else is known."""

    start_ns: int
    end_ns: int

    def watched_until(self, when_ns: int | None) -> Window:
        """The same window, watched up to a later moment; a record that reaches beyond it was seen, whatever is said.

        A moment before the window is a mistake in the unit of the time.
        """
        if when_ns is None:
            return self
        if when_ns < self.start_ns:
            raise UsageError(
                f"watched until {when_ns} ns, but the first record is of {self.start_ns} ns: give the time in "
                "nanoseconds since the Unix epoch, or as 2026-01-31T12:00:00Z"
            )
        return Window(self.start_ns, max(self.end_ns, when_ns))

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class InputCounts:
    """What became of every record that was read. `records == used + sum(dropped)` always holds."""

    records: int
    used: int
    dropped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class FlowTable:
    """Records of all pairs, sorted by (src, dst, start_ns). `congestion` is known where packets were read."""

    addresses: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    pair_src: Int32
    pair_dst: Int32
    pair_offsets: Int64
    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    path: Int32
    counts: InputCounts
    congestion: CongestionTable | None = None

    @property
    def window(self) -> Window:
        if not self.start_ns.size:
            return Window(0, 0)
        return Window(int(self.start_ns.min()), int(self.end_ns.max()))


@dataclass(frozen=True, slots=True)
class AssembledFlows:
    """Records that became transfers while they were read; what else a FlowTable would say of them."""

    transfers: TransferTable
    counts: InputCounts
    window: Window
    congestion: CongestionTable | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.transfers.addresses


class _RowTaker(Protocol):
    """Takes some rows out of a column."""

    def __call__(self, column: NDArray[_Scalar], /) -> NDArray[_Scalar]: ...


@dataclass(frozen=True, slots=True)
class TransferTable:
    """Transfers of some pairs, sorted by (src, dst, start_ns).

    `records` counts the records a transfer was made of; `active_ns` is the time during which at least one of them
    was open, so that `bytes / active_ns` is the rate of the transfer without the pauses inside it.
    `pair_gap_ns` is the pause that separates two transfers of the pair.
    """

    addresses: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    pair_src: Int32
    pair_dst: Int32
    pair_offsets: Int64
    pair_gap_ns: Int64
    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    active_ns: Int64
    path: Int32
    records: Int32

    @property
    def pair_count(self) -> int:
        return int(self.pair_src.size)

    @property
    def pair_of_row(self) -> Int32:
        """The pair each row belongs to."""
        return np.repeat(np.arange(self.pair_count, dtype=np.int32), np.diff(self.pair_offsets))

    @property
    def pair_bytes(self) -> Int64:
        """The bytes of each pair."""
        return np.add.reduceat(self.bytes, self.pair_offsets[:-1]) if self.pair_count else np.zeros(0, dtype=np.int64)

    def pairs_between(self, src: Int64, dst: Int64) -> Int64:
        """The pairs from and to these addresses (of several with the same ends the last), -1 where there is none."""
        known, wanted = (self.pair_src.astype(np.int64) << 32) | self.pair_dst, (src << 32) | dst
        pair = np.searchsorted(known, wanted, side="right") - 1
        return np.where(np.append(known, -1)[pair] == wanted, pair, -1)

    def paths_taken(self) -> Int32:
        """The paths, of those that are known, that the transfers take; ascending."""
        taken = np.unique(self.path)
        return taken[taken >= 0]

    def rows_of(self, pairs: Bool) -> Bool:
        """Which rows belong to the marked pairs."""
        return np.repeat(pairs, np.diff(self.pair_offsets))

    def messages_of(self, pairs: Bool) -> Bool:
        """Which rows are messages of the marked pairs, not heartbeats."""
        return self.rows_of(pairs) & (self.bytes >= MESSAGE_FLOOR_BYTES)

    def select_pairs(self, pairs: Int32, *, with_rows: bool = True) -> TransferTable:
        """The same table with only these pairs, in the order given (which must be ascending); without their rows, each
        still has its number of them."""
        starts, ends = self.pair_offsets[pairs], self.pair_offsets[pairs + 1]
        runs = row_runs(starts, ends) if with_rows else []
        return self._with_rows(
            lambda column: rows_in_runs(column, runs),
            self.pair_src[pairs],
            self.pair_dst[pairs],
            self.pair_gap_ns[pairs],
            ends - starts,
        )

    def select_rows(self, keep: Bool) -> TransferTable:
        """The same table with only these rows; pairs left without rows disappear."""
        counts = np.bincount(self.pair_of_row[keep], minlength=self.pair_count).astype(np.int64)
        alive = np.flatnonzero(counts)
        rows = np.flatnonzero(keep)
        return self._with_rows(
            lambda column: column[rows],
            self.pair_src[alive],
            self.pair_dst[alive],
            self.pair_gap_ns[alive],
            counts[alive],
        )

    def as_messages(self) -> TransferTable:
        """The same table with every message of one size and heartbeats of none: counts in place of bytes."""
        return replace(self, bytes=np.where(self.bytes >= MESSAGE_FLOOR_BYTES, ONE_MESSAGE_BYTES, 0))

    def _with_rows(self, rows_of: _RowTaker, src: Int32, dst: Int32, gap: Int64, counts: Int64) -> TransferTable:
        """The table of these pairs; `rows_of` takes their rows out of a column."""
        offsets = np.zeros(src.size + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        return TransferTable(
            self.addresses,
            self.paths,
            src,
            dst,
            offsets,
            gap,
            rows_of(self.start_ns),
            rows_of(self.end_ns),
            rows_of(self.bytes),
            rows_of(self.active_ns),
            rows_of(self.path),
            rows_of(self.records),
        )


def row_runs(starts: Int64, ends: Int64) -> list[slice]:
    """The ranges of rows, those that follow each other without a hole made one."""
    if not starts.size:
        return []
    cut = np.flatnonzero(starts[1:] != ends[:-1])
    first, after = starts[np.append(0, cut + 1)], ends[np.append(cut, ends.size - 1)]
    return [slice(a, b) for a, b in zip(first.tolist(), after.tolist(), strict=True)]


def rows_in_runs(column: NDArray[_Scalar], runs: list[slice]) -> NDArray[_Scalar]:
    """The rows of the column in these runs; nothing is copied where there is one."""
    if len(runs) == 1:
        return column[runs[0]]
    return np.concatenate([column[run] for run in runs]) if runs else column[:0]


def rows_of_pairs(offsets: Int64, pairs: Int64) -> tuple[Int64, Int64]:
    """The rows of these pairs, which `offsets` cut, and for each the index of its pair among them."""
    first, after = offsets[pairs], offsets[pairs + 1]
    return ranges(first, after), np.repeat(np.arange(pairs.size), after - first)


def ranges(starts: Int64, ends: Int64) -> Int64:
    """Concatenation of `arange(start, end)` for each pair of bounds."""
    lengths = ends - starts
    total = int(lengths.sum())
    if not total:
        return np.zeros(0, dtype=np.int64)
    firsts = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return np.arange(total, dtype=np.int64) + firsts
