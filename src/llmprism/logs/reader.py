"""Log files → `JobLog`: counts per shape and writer, rows for the lines that matter, series of iterations and metrics.

One pass over the bytes. Per block the kernels give every line its shape, its prefix and its time; new shapes and new
prefixes (few) are described in Python; everything else is array work. Memory grows with distinct shapes, writers and
failure lines, never with the size of the logs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from llmprism import limits
from llmprism.arrays import Int32, Int64, UInt8
from llmprism.errors import InputError
from llmprism.logs.blocks import LineBuffer, read_blocks
from llmprism.logs.flight import FlightRecord, is_flight_dump, parse_flight_dump
from llmprism.logs.hash_table import KeyTable
from llmprism.logs.joblog import JobLog, LineTable, LogRows, LogWriter
from llmprism.logs.kernels import fill_times, pair_keys
from llmprism.logs.library import Library
from llmprism.logs.linetext import line_text
from llmprism.logs.log_times import YEARLESS_END_NS, set_year, year_of
from llmprism.logs.scan import Lines, scan_block
from llmprism.logs.series import ScannedLines, SeriesReader, joined
from llmprism.logs.shape_store import ShapeStore, place_of
from llmprism.logs.shapes import ShapeFlag, WrittenLine
from llmprism.logs.sources import Dropped, LogFile, OpenLog, open_logs
from llmprism.logs.tags import Identity, identity_of_file, identity_of_prefix, looks_host_prefixed

__all__ = ["read_job", "read_job_lines"]


LINES_PER_SCAN: Final = 1 << 17
_MAX_TEXTS: Final = 100_000
_MAX_INSPECTED: Final = 50_000
"""Lines matched one by one because their numbers matter; a flood beyond this is counted under the first meaning."""

_MAX_PLACES: Final = 20_000
_TEXT_CHARS: Final = 600


def _grown(array: Int64, size: int) -> Int64:
    if size <= array.size:
        return array
    bigger = np.zeros(max(size, array.size * 2, 64), dtype=array.dtype)
    bigger[: array.size] = array
    return bigger


def _salt(file: int) -> np.uint64:
    """What makes equal prefixes of different files different."""
    return np.uint64(((file + 1) * 0x9E3779B97F4A7C15) & ((1 << 64) - 1))


def _counter() -> Int64:
    return np.zeros(1024, dtype=np.int64)


@dataclass(slots=True)
class _FileState:
    number: int
    last_ns: int = 0
    year: int = 0
    host_prefix: bool = False
    lines: int = 0
    cut: bool = False


@dataclass(slots=True)
class _Counts:
    """Lines by shape, writer and pair of both. `last_*`: the largest iteration and the last time of a pair."""

    pair_table: KeyTable = field(default_factory=lambda: KeyTable(4_000_000))
    pairs: list[tuple[Any, ...]] = field(default_factory=list)
    shape: Int64 = field(default_factory=_counter)
    pair: Int64 = field(default_factory=_counter)
    pair_iteration: Int64 = field(default_factory=_counter)
    pair_last_ns: Int64 = field(default_factory=_counter)
    writer: Int64 = field(default_factory=_counter)
    writer_last_line: Int64 = field(default_factory=_counter)
    writer_last_ns: Int64 = field(default_factory=_counter)

    def take(
        self, shape: Int32, writer: Int32, lines: Lines, times: Int64, shapes: int, writers: int
    ) -> tuple[Int32, Int32]:
        """Count the lines; (pair of every line, rows whose pair is met for the first time)."""
        self.shape = _grown(self.shape, shapes + 1)
        self.shape += np.bincount(shape, minlength=self.shape.size)[: self.shape.size]
        keys = np.empty(shape.size, dtype=np.uint64)
        pair_keys(shape, writer, keys)
        pair, first = self.pair_table.assign(keys)
        if first.size:
            self.pairs.append((shape[first], writer[first]))
        for name in ("pair", "pair_iteration", "pair_last_ns"):
            setattr(self, name, _grown(getattr(self, name), self.pair_table.used + 1))
        known = pair[pair >= 0]
        self.pair += np.bincount(known, minlength=self.pair.size)[: self.pair.size]
        for name in ("writer", "writer_last_line", "writer_last_ns"):
            setattr(self, name, _grown(getattr(self, name), writers + 1))
        self.writer += np.bincount(writer, minlength=self.writer.size)[: self.writer.size]
        np.maximum.at(self.writer_last_line, writer, lines.number)
        np.maximum.at(self.writer_last_ns, writer, times)
        return pair, first

    def take_iterations(self, pair: Int32, values: Int64, times: Int64) -> None:
        """The largest iteration of each pair, kept one higher so that 0 means none."""
        good = (pair >= 0) & (values >= 0)
        np.maximum.at(self.pair_iteration, pair[good], values[good] + 1)
        np.maximum.at(self.pair_last_ns, pair[good], times[good])


@dataclass(slots=True)
class _Reader:
    store: ShapeStore
    dropped: Dropped
    files: list[LogFile] = field(default_factory=list)
    states: list[_FileState] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    shape_table: KeyTable = field(default_factory=lambda: KeyTable(limits.MAX_LOG_SHAPES))
    prefix_table: KeyTable = field(default_factory=lambda: KeyTable(limits.MAX_LOG_STREAMS))
    writers: list[LogWriter] = field(default_factory=list)
    counts: _Counts = field(default_factory=_Counts)
    series: SeriesReader = field(default_factory=SeriesReader)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    row_count: int = 0
    texts: dict[int, str] = field(default_factory=dict)
    places: dict[tuple[int, int], WrittenLine] = field(default_factory=dict)
    flights: list[FlightRecord] = field(default_factory=list)
    line_table: list[tuple[Any, ...]] | None = None
    buffer: LineBuffer = field(default_factory=LineBuffer)
    inspected: int = 0
    lines: int = 0
    byte_count: int = 0

    def read_file(self, log: OpenLog, year: int) -> None:
        if is_flight_dump(log.text.head, log.file.name):
            records = parse_flight_dump(log.text.read_all(limits.MAX_FLIGHT_DUMP_BYTES + 1), log.file.name)
            self.dropped.add("broken flight record", int(not records))
            self.flights += records
            return
        if not log.text.head:
            self.add_empty_file(log, year)
            return
        state: _FileState | None = None
        for block in read_blocks(log, self.dropped, self.buffer):
            if state is None:
                state = self.begin_file(log, year, block.buffer[: min(block.size, 1 << 15)].tobytes())
            at = 0
            while at < block.size:
                lines, at, following, cut = scan_block(
                    block.buffer,
                    block.size,
                    at,
                    state.lines + 1,
                    LINES_PER_SCAN,
                    host_prefix=state.host_prefix,
                    max_line=limits.MAX_LOG_LINE_BYTES,
                )
                state.lines = following - 1
                self.dropped.add("lines cut at the cap", cut)
                if lines.count:
                    self.take(block.buffer, lines, state)
            state.cut = bool(block.size) and block.buffer[block.size - 1] not in (10, 13)
            self.byte_count += block.size

    def add_empty_file(self, log: OpenLog, year: int) -> None:
        """A file without a line still says that its writer exists and wrote nothing."""
        self.dropped.add("empty file")
        state = self.begin_file(log, year, b"")
        self.prefix_table.assign(np.array([_salt(state.number)], dtype=np.uint64))
        self.writers.append(LogWriter(state.number, Identity()))

    def begin_file(self, log: OpenLog, year: int, head: bytes) -> _FileState:
        state = _FileState(len(self.files), year=year)
        state.host_prefix = looks_host_prefixed(head.decode("utf-8", "replace"))
        self.files.append(log.file)
        self.states.append(state)
        self.identities.append(identity_of_file(log.file.name))
        return state

    def take(self, buf: UInt8, lines: Lines, state: _FileState) -> None:
        """One scan's worth of lines."""
        self.lines += lines.count
        times = self.times(lines, state)
        writer = self.writers_of(buf, lines, state)
        shape = self.shapes_of(buf, lines, state)
        pair, fresh = self.counts.take(shape, writer, lines, times, len(self.store.shapes), len(self.writers))
        self.keep_places(buf, lines, fresh, shape, writer, state)
        flags = self.store.flags[shape]
        if (flags & int(ShapeFlag.INSPECT)).any():
            shape = self.inspect(buf, lines, shape, flags, state)
            flags = self.store.flags[shape]
        if self.line_table is not None:
            files = np.full(lines.count, state.number, dtype=np.int32)
            self.line_table.append((shape, writer, files, lines.number.copy()))
        wanted = np.flatnonzero(flags & int(ShapeFlag.ROW))
        self.keep_rows(buf, lines, wanted, shape, writer, times, state)
        scanned = ScannedLines(buf, lines, shape, writer, times, state.number)
        rows = np.flatnonzero(flags & int(ShapeFlag.ITERATION))
        if rows.size:
            values = self.series.take_iterations(scanned, rows, self.store)
            self.counts.take_iterations(pair[rows], values, times[rows])
        rows = np.flatnonzero(flags & int(ShapeFlag.METRIC))
        if rows.size:
            self.series.take_metrics(scanned, rows, self.store)

    def times(self, lines: Lines, state: _FileState) -> Int64:
        times = lines.time_ns
        absolute = times[times > YEARLESS_END_NS]
        if absolute.size:
            state.year = year_of(int(absolute[-1]))
        times = set_year(times, state.year).copy()
        state.last_ns = int(fill_times(times, state.last_ns))
        return times

    def writers_of(self, buf: UInt8, lines: Lines, state: _FileState) -> Int32:
        """Writer of every line; equal prefixes of different files are different writers."""
        ids, first = self.prefix_table.assign(lines.prefix ^ _salt(state.number))
        for row in first.tolist():
            identity = Identity()
            if lines.prefix[row] != 0:
                head = bytes(buf[lines.start[row] : lines.head_end[row]]).decode("utf-8", "replace")
                identity = identity_of_prefix(head)
            self.writers.append(LogWriter(state.number, identity))
        return np.maximum(ids, 0)

    def shapes_of(self, buf: UInt8, lines: Lines, state: _FileState) -> Int32:
        ids, first = self.shape_table.assign(lines.shape)
        for row in first.tolist():
            self.store.add(buf, lines, int(row), state.number)
        missing = ids < 0
        if missing.any():
            self.dropped.add("lines of shapes beyond the cap", int(missing.sum()))
            ids[missing] = 0
        return ids

    def keep_places(
        self, buf: UInt8, lines: Lines, fresh: Int32, shape: Int32, writer: Int32, state: _FileState
    ) -> None:
        """Text and neighbours of lines about trouble, once per shape and writer."""
        for row in fresh[(self.store.flags[shape[fresh]] & int(ShapeFlag.TROUBLE)) != 0].tolist():
            if len(self.places) >= _MAX_PLACES:
                return
            self.places[int(shape[row]), int(writer[row])] = place_of(buf, lines, row, state.number)

    def inspect(self, buf: UInt8, lines: Lines, shape: Int32, flags: Int32, state: _FileState) -> Int32:
        """Lines whose numbers matter get a shape per meaning: the shape itself, or a variant of it."""
        shape = shape.copy()
        for row in np.flatnonzero(flags & int(ShapeFlag.INSPECT)).tolist():
            if self.inspected >= _MAX_INSPECTED:
                break
            self.inspected += 1
            shape[row], key = self.store.variant(int(shape[row]), buf, lines, row, state.number)
            if key is not None:
                self.shape_table.assign(np.array([key], dtype=np.uint64))
        return shape

    def keep_rows(
        self, buf: UInt8, lines: Lines, wanted: Int64, shape: Int32, writer: Int32, times: Int64, state: _FileState
    ) -> None:
        room = limits.MAX_LOG_EVENT_ROWS - self.row_count
        if wanted.size > room:
            self.dropped.add("event lines beyond the cap (counted only)", int(wanted.size - room))
            wanted = wanted[:room]
        if not wanted.size:
            return
        keeps_text = wanted[(self.store.flags[shape[wanted]] & int(ShapeFlag.TEXT)) != 0]
        place = np.searchsorted(wanted, keeps_text)
        for row, at in zip(keeps_text.tolist(), place.tolist(), strict=True):
            if len(self.texts) >= _MAX_TEXTS:
                break
            self.texts[self.row_count + at] = line_text(buf, lines, row, tagged=False)[:_TEXT_CHARS]
        file = np.full(wanted.size, state.number, dtype=np.int32)
        timed = lines.time_ns[wanted] > 0
        self.rows.append((shape[wanted], writer[wanted], file, lines.number[wanted], times[wanted], timed))
        self.row_count += int(wanted.size)


def read_job(
    paths: list[Path],
    library: Library,
    *,
    dropped: Dropped | None = None,
    only: Callable[[str], bool] | None = None,
) -> JobLog:
    """Read all log files of one job, or those whose names `only` accepts.

    InputError where nothing of them can be read as text.
    """
    return _finished(_read(paths, _Reader(ShapeStore(library), dropped or Dropped()), only))


def read_job_lines(paths: list[Path], library: Library) -> tuple[JobLog, LineTable]:
    """The same with a table of all lines, for the baseline."""
    reader = _read(paths, _Reader(ShapeStore(library), Dropped(), line_table=[]))
    dtypes = (np.int32, np.int32, np.int32, np.int64)
    columns = [joined(reader.line_table or [], column, dtype) for column, dtype in enumerate(dtypes)]
    return _finished(reader), LineTable(*columns)


def _read(paths: list[Path], reader: _Reader, only: Callable[[str], bool] | None = None) -> _Reader:
    dropped = reader.dropped
    year = 1970
    for log in open_logs(paths, dropped):
        if only is not None and not only(log.file.name):
            continue
        year = _year_hint(log.file, year)
        reader.read_file(log, year)
    if not reader.lines and not reader.flights:
        why = ", ".join(f"{count} {reason}" for reason, count in dropped.as_tuple()) or "no lines"
        raise InputError(f"nothing to read in {', '.join(map(str, paths))}: {why}")
    return reader


def _year_hint(file: LogFile, previous: int) -> int:
    """The year of the file's last change, for times without a year before any time with one."""
    try:
        return year_of(int(file.path.stat().st_mtime_ns))
    except OSError:
        return previous


def _finished(reader: _Reader) -> JobLog:
    counts = reader.counts
    for name in ("writer", "writer_last_line", "writer_last_ns"):
        setattr(counts, name, _grown(getattr(counts, name), len(reader.writers)))
    used, writers, shapes = counts.pair_table.used, len(reader.writers), len(reader.store.shapes)
    iterations, metrics = reader.series.finished()
    dtypes = (np.int32, np.int32, np.int32, np.int64, np.int64, np.bool_)
    return JobLog(
        files=reader.files,
        file_identity=reader.identities,
        shapes=reader.store.shapes,
        writers=reader.writers,
        rows=LogRows(*(joined(reader.rows, column, dtype) for column, dtype in enumerate(dtypes))),
        iterations=iterations,
        metrics=metrics,
        flights=reader.flights,
        texts=reader.texts,
        places=reader.places,
        count=counts.shape[:shapes],
        pair_shape=joined(counts.pairs, 0, np.int32),
        pair_writer=joined(counts.pairs, 1, np.int32),
        pair_count=counts.pair[:used],
        pair_iteration=counts.pair_iteration[:used] - 1,
        pair_last_ns=counts.pair_last_ns[:used],
        writer_lines=counts.writer[:writers],
        writer_last_line=counts.writer_last_line[:writers],
        writer_last_ns=counts.writer_last_ns[:writers],
        file_lines=np.array([state.lines for state in reader.states], dtype=np.int64),
        file_last_ns=np.array([state.last_ns for state in reader.states], dtype=np.int64),
        file_cut=tuple(state.cut for state in reader.states),
        lines=reader.lines,
        bytes=reader.byte_count,
        dropped=reader.dropped,
    )
