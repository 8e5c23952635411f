"""Log files → `JobLog`: counts per shape and writer, rows for the lines that matter, and the series of iterations.

One pass over the bytes. Per block the kernels give every line its shape, its prefix and its time; new shapes and new
prefixes (few) are described in Python; everything else is array work. Memory grows with distinct shapes, writers and
failure lines, never with the size of the logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmprism import limits
from llmprism.logs.clock import YEARLESS_END_NS, set_year, year_of
from llmprism.logs.joblog import IterationSeries, JobLog, Rows, Writer
from llmprism.logs.kernels import fill_times, numbers_after, pair_keys
from llmprism.logs.library import Library
from llmprism.logs.linetext import is_quoted_code, line_text, plain_text
from llmprism.logs.masking import mask_text, shape_hash
from llmprism.logs.scan import Lines, scan_block
from llmprism.logs.shapes import FRAME_LINE, MAX_TEXT_CHARS, Place, Shape, ShapeFlag, choose_fault, describe_shape
from llmprism.logs.sources import Dropped, LogFile, find_log_files, read_blocks
from llmprism.logs.tables import KeyTable
from llmprism.logs.tags import Identity, identity_of_file, identity_of_prefix, looks_host_prefixed

__all__ = ["read_job"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]

LINES_PER_SCAN: Final = 1 << 17
CONTEXT_LINES: Final = 3
_CONTEXT_REACH: Final = 400
"""Lines of other writers that may lie between a line and its neighbours of the same writer."""

_MAX_CONTEXT_SHAPES: Final = 3_000
_MAX_TEXTS: Final = 100_000
_MAX_INSPECTED: Final = 50_000
"""Lines matched one by one because their numbers matter; a flood beyond this is counted under the first meaning."""

_SERIES_PER_SCAN: Final = 2_000
_MAX_FRAMES_BACK: Final = 160
_MAX_FRAMES_REACH: Final = 20_000
"""Lines of all writers within which the frames of a traceback are looked for: 64 ranks fail line by line together."""

_MAX_PLACES: Final = 20_000


def _grown(array: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    if size <= array.size:
        return array
    bigger = np.zeros(max(size, array.size * 2, 64), dtype=array.dtype)
    bigger[: array.size] = array
    return bigger


@dataclass(slots=True)
class _FileState:
    number: int
    last_ns: int = 0
    year: int = 0
    host_prefix: bool = False
    default_writer: int = -1


@dataclass(slots=True)
class _Reader:
    library: Library
    dropped: Dropped
    files: list[LogFile]
    identities: list[Identity] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    flags: Int32 = field(default_factory=lambda: np.zeros(1024, dtype=np.int32))
    anchors: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((1024, 16), dtype=np.uint8))
    anchor_sizes: Int32 = field(default_factory=lambda: np.zeros(1024, dtype=np.int32))
    shape_table: KeyTable = field(default_factory=lambda: KeyTable(limits.MAX_LOG_SHAPES))
    prefix_table: KeyTable = field(default_factory=lambda: KeyTable(limits.MAX_LOG_STREAMS))
    pair_table: KeyTable = field(default_factory=lambda: KeyTable(4_000_000))
    writers: list[Writer] = field(default_factory=list)
    shape_count: Int64 = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    pair_count: Int64 = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    pairs: list[tuple[Int32, Int32]] = field(default_factory=list)
    writer_lines: Int64 = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    writer_last_line: Int64 = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    writer_last_ns: Int64 = field(default_factory=lambda: np.zeros(1024, dtype=np.int64))
    rows: list[tuple[Int32, Int32, Int32, Int64, Int64]] = field(default_factory=list)
    row_count: int = 0
    series: list[tuple[Int32, Int32, Int64, Int64, Int64]] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    places: dict[tuple[int, int], Place] = field(default_factory=dict)
    context_shapes: int = 0
    inspected: int = 0
    variants: dict[tuple[int, str], int] = field(default_factory=dict)
    lines: int = 0
    bytes: int = 0

    def read_file(self, number: int, year: int) -> tuple[int, int]:
        """Read one file; its lines and the last time in it."""
        file = self.files[number]
        self.identities.append(identity_of_file(file.name))
        state = _FileState(number, year=year)
        line_number = 1
        first = True
        for block in read_blocks(file, self.dropped):
            if first:
                head = block.buffer[: min(block.size, 1 << 15)].tobytes().decode("utf-8", "replace")
                state.host_prefix = looks_host_prefixed(head)
                first = False
            at = 0
            while at < block.size:
                lines, at, line_number, cut = scan_block(
                    block.buffer,
                    block.size,
                    at,
                    line_number,
                    LINES_PER_SCAN,
                    host_prefix=state.host_prefix,
                    max_line=limits.MAX_LOG_LINE_BYTES,
                )
                self.dropped.add("lines cut at the cap", cut)
                if lines.count:
                    self.take(block.buffer, lines, state)
            self.bytes += block.size
        return line_number - 1, state.last_ns

    def take(self, buf: NDArray[np.uint8], lines: Lines, state: _FileState) -> None:
        """One scan's worth of lines."""
        self.lines += lines.count
        times = self.times(lines, state)
        writer = self.writers_of(buf, lines, state)
        shape = self.shapes_of(buf, lines, state)
        fresh = self.count(shape, writer, lines, times)
        if fresh.size:
            self.keep_places(buf, lines, fresh, shape, writer, state)
        flags = self.flags[shape]
        if (flags & int(ShapeFlag.INSPECT)).any():
            shape = self.inspect(buf, lines, shape, flags, state)
            flags = self.flags[shape]
        wanted = np.flatnonzero(flags & int(ShapeFlag.ROW))
        self.keep_rows(buf, lines, wanted, shape, writer, times, state)
        counting = np.flatnonzero(flags & int(ShapeFlag.ITERATION))
        if counting.size:
            self.keep_iterations(buf, lines, counting, shape, times, state)

    def times(self, lines: Lines, state: _FileState) -> Int64:
        times = lines.time_ns
        absolute = times[times > YEARLESS_END_NS]
        if absolute.size:
            state.year = year_of(int(absolute[-1]))
        times = set_year(times, state.year).copy()
        state.last_ns = int(fill_times(times, state.last_ns))
        return times

    def writers_of(self, buf: NDArray[np.uint8], lines: Lines, state: _FileState) -> Int32:
        """Writer of every line; prefixes are told apart per file."""
        salt = np.uint64(((state.number + 1) * 0x9E3779B97F4A7C15) & ((1 << 64) - 1))
        ids, first = self.prefix_table.assign(lines.prefix ^ salt)
        base = self.identities[state.number]
        for row in first.tolist():
            identity = base
            if lines.prefix[row] != 0:
                head = bytes(buf[lines.start[row] : lines.text_start[row]]).decode("utf-8", "replace")
                identity = identity_of_prefix(head).over(base)
            self.writers.append(Writer(state.number, identity))
        return np.maximum(ids, 0)

    def shapes_of(self, buf: NDArray[np.uint8], lines: Lines, state: _FileState) -> Int32:
        ids, first = self.shape_table.assign(lines.shape)
        for row in first.tolist():
            self.add_shape(buf, lines, int(row), state)
        missing = ids < 0
        if missing.any():
            self.dropped.add("lines of shapes beyond the cap", int(missing.sum()))
            ids[missing] = 0
        return ids

    def add_shape(self, buf: NDArray[np.uint8], lines: Lines, row: int, state: _FileState) -> None:
        start, text_start = int(lines.start[row]), int(lines.text_start[row])
        end = min(int(lines.end[row]), text_start + MAX_TEXT_CHARS)
        raw = bytes(buf[text_start:end])
        head = bytes(buf[start:text_start]).decode("utf-8", "replace")
        shape = describe_shape(
            int(lines.shape[row]),
            plain_text(raw),
            mask_text(raw).decode("utf-8", "replace"),
            head,
            self.library,
            quoted=is_quoted_code(buf, lines, row),
        )
        if shape.flags & ShapeFlag.ROW and self.context_shapes < _MAX_CONTEXT_SHAPES:
            self.context_shapes += 1
            shape.place = self.place_of(buf, lines, row, state)
            shape.frames = self.frames_above(shape, buf, lines, row)
        self.append_shape(shape)

    def append_shape(self, shape: Shape) -> int:
        number = len(self.shapes)
        self.shapes.append(shape)
        if number >= self.flags.size:
            self.flags = np.concatenate([self.flags, np.zeros_like(self.flags)])
            self.anchors = np.concatenate([self.anchors, np.zeros_like(self.anchors)])
            self.anchor_sizes = np.concatenate([self.anchor_sizes, np.zeros_like(self.anchor_sizes)])
        self.flags[number] = int(shape.flags)
        if shape.anchor:
            self.anchors[number, : len(shape.anchor)] = np.frombuffer(shape.anchor, dtype=np.uint8)
            self.anchor_sizes[number] = len(shape.anchor)
        return number

    def place_of(self, buf: NDArray[np.uint8], lines: Lines, row: int, state: _FileState) -> Place:
        """The line with its neighbours among those of the same writer."""
        low = max(0, row - _CONTEXT_REACH)
        same = np.flatnonzero(lines.prefix[low : row + _CONTEXT_REACH] == lines.prefix[row]) + low
        at = int(np.searchsorted(same, row))
        before, after = same[max(0, at - CONTEXT_LINES) : at], same[at + 1 : at + 1 + CONTEXT_LINES]
        return Place(
            state.number,
            int(lines.number[row]),
            line_text(buf, lines, row),
            tuple((int(lines.number[k]), line_text(buf, lines, k)) for k in before.tolist()),
            tuple((int(lines.number[k]), line_text(buf, lines, k)) for k in after.tolist()),
        )

    def frames_above(self, shape: Shape, buf: NDArray[np.uint8], lines: Lines, row: int) -> tuple[tuple[str, str], ...]:
        """The stack frames that the same writer printed above an exception, outermost first."""
        if not shape.flags & ShapeFlag.EXCEPTION:
            return ()
        low = max(0, row - _MAX_FRAMES_REACH)
        same = np.flatnonzero(lines.prefix[low:row] == lines.prefix[row])[-_MAX_FRAMES_BACK:] + low
        frames: list[tuple[str, str]] = []
        for k in same[::-1].tolist():
            text = line_text(buf, lines, k, tagged=False)
            if match := FRAME_LINE.match(text):
                frames.append((match[1], match[2] or ""))
            elif "Traceback (most recent call last)" in text:
                break
        return tuple(reversed(frames))

    def keep_places(
        self, buf: NDArray[np.uint8], lines: Lines, fresh: Int32, shape: Int32, writer: Int32, state: _FileState
    ) -> None:
        """Text and neighbours of lines that tell of trouble, once per shape and writer."""
        for row in fresh[(self.flags[shape[fresh]] & int(ShapeFlag.TROUBLE)) != 0].tolist():
            if len(self.places) >= _MAX_PLACES:
                return
            self.places[int(shape[row]), int(writer[row])] = self.place_of(buf, lines, row, state)

    def inspect(self, buf: NDArray[np.uint8], lines: Lines, shape: Int32, flags: Int32, state: _FileState) -> Int32:
        """Lines whose numbers matter get a shape per meaning: the shape itself, or a variant of it."""
        shape = shape.copy()
        for row in np.flatnonzero(flags & int(ShapeFlag.INSPECT)).tolist():
            if self.inspected >= _MAX_INSPECTED:
                break
            self.inspected += 1
            base = int(shape[row])
            text = line_text(buf, lines, row, tagged=False)
            faults, markers = self.library.match(text.encode())
            fault = choose_fault(faults)
            own = self.shapes[base]
            if fault == own.fault and tuple(markers) == own.markers:
                continue
            meaning = (base, "|".join([fault.id if fault else "", *(marker.id for marker in markers)]))
            if meaning not in self.variants:
                key = shape_hash(f"{own.key} {meaning[1]}".encode())
                head = bytes(buf[lines.start[row] : lines.text_start[row]]).decode("utf-8", "replace")
                variant = describe_shape(key, text, own.template, head, self.library)
                variant.place = self.place_of(buf, lines, row, state)
                variant.frames = self.frames_above(variant, buf, lines, row)
                self.shape_table.assign(np.array([key], dtype=np.uint64))
                self.variants[meaning] = self.append_shape(variant)
            shape[row] = self.variants[meaning]
        return shape

    def count(self, shape: Int32, writer: Int32, lines: Lines, times: Int64) -> Int32:
        """Count the lines; the rows whose (shape, writer) is met for the first time."""
        self.shape_count = _grown(self.shape_count, len(self.shapes) + 1)
        self.shape_count += np.bincount(shape, minlength=self.shape_count.size)[: self.shape_count.size]
        keys = np.empty(shape.size, dtype=np.uint64)
        pair_keys(shape, writer, keys)
        pair, first = self.pair_table.assign(keys)
        if first.size:
            self.pairs.append((shape[first], writer[first]))
        self.pair_count = _grown(self.pair_count, self.pair_table.used + 1)
        known = pair[pair >= 0]
        self.pair_count += np.bincount(known, minlength=self.pair_count.size)[: self.pair_count.size]
        for name in ("writer_lines", "writer_last_line", "writer_last_ns"):
            setattr(self, name, _grown(getattr(self, name), len(self.writers) + 1))
        self.writer_lines += np.bincount(writer, minlength=self.writer_lines.size)[: self.writer_lines.size]
        np.maximum.at(self.writer_last_line, writer, lines.number)
        np.maximum.at(self.writer_last_ns, writer, times)
        return first

    def keep_rows(
        self,
        buf: NDArray[np.uint8],
        lines: Lines,
        wanted: Int64,
        shape: Int32,
        writer: Int32,
        times: Int64,
        state: _FileState,
    ) -> None:
        room = limits.MAX_LOG_EVENT_ROWS - self.row_count
        if wanted.size > room:
            self.dropped.add("event lines beyond the cap (counted only)", int(wanted.size - room))
            wanted = wanted[:room]
        if not wanted.size:
            return
        keeps_text = wanted[(self.flags[shape[wanted]] & int(ShapeFlag.TEXT)) != 0]
        place = np.searchsorted(wanted, keeps_text)
        for row, at in zip(keeps_text.tolist(), place.tolist(), strict=True):
            if len(self.texts) >= _MAX_TEXTS:
                break
            self.texts[self.row_count + at] = line_text(buf, lines, row, tagged=False)[:600]
        file = np.full(wanted.size, state.number, dtype=np.int32)
        self.rows.append((shape[wanted], writer[wanted], file, lines.number[wanted], times[wanted]))
        self.row_count += int(wanted.size)

    def keep_iterations(
        self, buf: NDArray[np.uint8], lines: Lines, rows: Int64, shape: Int32, times: Int64, state: _FileState
    ) -> None:
        values = np.empty(rows.size, dtype=np.int64)
        which = shape[rows]
        numbers_after(buf, lines.text_start[rows], lines.end[rows], which, self.anchors, self.anchor_sizes, values)
        changed = np.ones(rows.size, dtype=np.bool_)
        changed[1:] = (values[1:] != values[:-1]) | (which[1:] != which[:-1])
        kept = np.flatnonzero(changed & (values >= 0))
        if kept.size > _SERIES_PER_SCAN:
            stride = -(-kept.size // _SERIES_PER_SCAN)
            kept = np.unique(np.concatenate([kept[::stride], kept[-64:]]))
        if kept.size:
            file = np.full(kept.size, state.number, dtype=np.int32)
            at = rows[kept]
            self.series.append((which[kept], file, lines.number[at], times[at], values[kept]))


def _joined(parts: Sequence[tuple[Any, ...]], column: int, dtype: type) -> Any:
    """One column of the pieces gathered per block, as one array."""
    if not parts:
        return np.zeros(0, dtype=dtype)
    return np.concatenate([part[column] for part in parts]).astype(dtype, copy=False)


def read_job(paths: list[Path], library: Library, *, dropped: Dropped | None = None) -> JobLog:
    """Read all log files of one job."""
    dropped = dropped or Dropped()
    files = find_log_files(paths, dropped)
    reader = _Reader(library, dropped, files)
    file_lines = np.zeros(len(files), dtype=np.int64)
    file_last = np.zeros(len(files), dtype=np.int64)
    year = 1970
    for number, file in enumerate(files):
        year = _year_hint(file, year)
        file_lines[number], file_last[number] = reader.read_file(number, year)
    return _finished(reader, file_lines, file_last)


def _year_hint(file: LogFile, previous: int) -> int:
    """The year of the file's last change, for times without a year before any time with one."""
    try:
        return year_of(int(file.path.stat().st_mtime_ns))
    except OSError:
        return previous


def _finished(reader: _Reader, file_lines: Int64, file_last: Int64) -> JobLog:
    rows = reader.rows
    series = reader.series
    pairs = reader.pairs
    used = reader.pair_table.used
    writers = len(reader.writers)
    return JobLog(
        reader.files,
        reader.identities,
        reader.shapes,
        reader.writers,
        Rows(*(_joined(rows, c, t) for c, t in enumerate((np.int32, np.int32, np.int32, np.int64, np.int64)))),
        IterationSeries(
            *(_joined(series, c, t) for c, t in enumerate((np.int32, np.int32, np.int64, np.int64, np.int64)))
        ),
        reader.texts,
        reader.places,
        reader.shape_count[: len(reader.shapes)],
        _joined(pairs, 0, np.int32),
        _joined(pairs, 1, np.int32),
        reader.pair_count[:used],
        reader.writer_lines[:writers],
        reader.writer_last_line[:writers],
        reader.writer_last_ns[:writers],
        file_lines,
        file_last,
        reader.lines,
        reader.bytes,
        reader.dropped,
    )
