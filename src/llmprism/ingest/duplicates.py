"""Finds records that report a transfer which another record reports already.

The rule, and why it is the safe one, is in docs/decisions/duplicate-records.md. In short: another exporter's record of
the same connection with the same bytes at nearly the same time is the same transfer, counted one to one (two equal
messages seen by two exporters stay two). Without ports, parallel connections look alike, so only records that agree to
the nanosecond are taken for one. The same exporter never reports one connection twice with the same times, so an exact
repetition with ports is a copy; without ports it may be a parallel connection and stays.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, Int32, Int64, UInt64
from llmprism.kernel import kernel

__all__ = ["duplicate_rows", "first_reports"]

LOOK_BACK: Final = 256
"""Records of one pair looked at before each: 13 connections seen by 5 exporters start fewer within 5 ms. It bounds the
work on hostile input."""

MAX_EXPORTERS_OF_TRANSFER: Final = 16
"""Exporters that may report one transfer: a three-tier path has five switches and two hosts. It bounds the work too."""


def duplicate_rows(
    offsets: Int64,
    start_ns: Int64,
    end_ns: Int64,
    size: Int64,
    connection: UInt64,
    exporter: Int32 | None,
    skew_ns: int,
) -> Bool:
    """True for the rows to drop. Rows are sorted by pair and start; `connection` 0 means the ports are not known.

    `exporter` is None where all records there are, not only these, have one exporter: the rows of some pairs must be
    judged as they are among all.
    """
    if exporter is None:
        return _exact_copies(offsets, start_ns, end_ns, size, connection)
    first = first_reports(offsets, start_ns, end_ns, size, connection, exporter, skew_ns)
    return np.asarray(first != np.arange(first.size))


def _exact_copies(offsets: Int64, start_ns: Int64, end_ns: Int64, size: Int64, connection: UInt64) -> Bool:
    """The cheap case of one exporter: only rows with equal times and bytes, which are neighbours, need a look."""
    if not _copies_nearby.interprets(start_ns.size):
        copies, all_seen = _copies_nearby(offsets, start_ns, end_ns, size, connection)
        if all_seen:
            return copies
    equal = np.zeros(start_ns.size, dtype=np.bool_)
    equal[1:] = (start_ns[1:] == start_ns[:-1]) & (end_ns[1:] == end_ns[:-1]) & (size[1:] == size[:-1])
    equal[offsets[:-1][offsets[:-1] < equal.size]] = False
    if not equal.any():
        return equal
    return _copies_in_runs(equal, connection)


@kernel
def _copies_nearby(
    offsets: Int64, start_ns: Int64, end_ns: Int64, size: Int64, connection: UInt64
) -> tuple[Bool, bool]:
    """The copies, and whether that is all of them: it gives up at a run of more than LOOK_BACK equal rows."""
    copies = np.zeros(start_ns.size, dtype=np.bool_)
    for pair in range(offsets.size - 1):
        first = offsets[pair]
        for row in range(offsets[pair] + 1, offsets[pair + 1]):
            if start_ns[row] != start_ns[row - 1] or end_ns[row] != end_ns[row - 1] or size[row] != size[row - 1]:
                first = row
                continue
            if row - first > LOOK_BACK:
                return copies, False
            for other in range(first, row):
                if connection[other] == connection[row] and connection[row] != 0:
                    copies[row] = True
                    break
    return copies, True


def _copies_in_runs(equal: Bool, connection: UInt64) -> Bool:
    """Inside each run of equal rows, those whose connection was there before."""
    in_run = equal.copy()
    in_run[:-1] |= equal[1:]
    rows = np.flatnonzero(in_run)
    run = np.cumsum(~equal[rows])
    order = np.lexsort((connection[rows], run))
    run, by_connection = run[order], connection[rows[order]]
    again = (run[1:] == run[:-1]) & (by_connection[1:] == by_connection[:-1]) & (by_connection[1:] != 0)
    copies = np.zeros(equal.size, dtype=np.bool_)
    copies[rows[order[1:]][again]] = True
    return copies


@kernel
def first_reports(
    offsets: Int64,
    start_ns: Int64,
    end_ns: Int64,
    size: Int64,
    connection: UInt64,
    exporter: Int32,
    skew_ns: int,
) -> Int64:
    """For every row the first row that reports the same transfer (itself, if there is none before)."""
    first = np.arange(start_ns.size)
    # The rows that other exporters added to a transfer, as a list: latest[transfer] → before[row] → … → transfer.
    latest = np.arange(start_ns.size)
    before = np.full(start_ns.size, -1)
    for pair in range(offsets.size - 1):
        low = offsets[pair]
        for row in range(offsets[pair], offsets[pair + 1]):
            while start_ns[low] < start_ns[row] - skew_ns or low < row - LOOK_BACK:
                low += 1
            for other in range(low, row):
                if first[other] != other or size[other] != size[row] or connection[other] != connection[row]:
                    continue
                exact = start_ns[other] == start_ns[row] and end_ns[other] == end_ns[row]
                known = connection[row] != 0
                if exporter[other] == exporter[row]:
                    if exact and known:
                        first[row] = other
                        break
                    continue
                near = exact or (known and abs(end_ns[other] - end_ns[row]) <= skew_ns)
                if near and not _reported_by(latest, before, exporter, other, row):
                    first[row] = other
                    before[row] = latest[other]
                    latest[other] = row
                    break
    return first


@kernel
def _reported_by(latest: Int64, before: Int64, exporter: Int32, transfer: int, row: int) -> bool:
    """Whether the exporter of `row` has reported this transfer already (or as many exporters as a path can have)."""
    report = latest[transfer]
    for _ in range(MAX_EXPORTERS_OF_TRANSFER):
        if report == transfer:
            return False
        if exporter[report] == exporter[row]:
            return True
        report = before[report]
    return True
