"""The shapes of a job as they are met: what each means, the place of its first line, the anchors of its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from llmprism.arrays import Int32, UInt8
from llmprism.logs.library import Library
from llmprism.logs.linetext import is_quoted_code, line_text, printable_text
from llmprism.logs.masking import mask_text, shape_hash
from llmprism.logs.metrics import ANCHOR_BYTES, METRICS
from llmprism.logs.scan import Lines
from llmprism.logs.shapes import (
    FRAME_LINE,
    ITERATION_ANCHOR_BYTES,
    MAX_TEXT_CHARS,
    Shape,
    ShapeFlag,
    WrittenLine,
    choose_fault,
    describe_shape,
)

__all__ = ["ShapeStore", "place_of"]


CONTEXT_LINES: Final = 3
_CONTEXT_REACH: Final = 400
"""Lines of other writers that may lie between a line and its neighbours of the same writer."""

_MAX_CONTEXT_SHAPES: Final = 3_000
_MAX_FRAMES_BACK: Final = 160
_MAX_FRAMES_REACH: Final = 20_000
"""Lines of all writers within which the frames of a traceback are looked for: 64 ranks fail line by line together."""


def place_of(buf: UInt8, lines: Lines, row: int, file: int) -> WrittenLine:
    """The line with its neighbours among those of the same writer."""
    low = max(0, row - _CONTEXT_REACH)
    same = np.flatnonzero(lines.prefix[low : row + _CONTEXT_REACH] == lines.prefix[row]) + low
    at = int(np.searchsorted(same, row))
    before, after = same[max(0, at - CONTEXT_LINES) : at], same[at + 1 : at + 1 + CONTEXT_LINES]
    return WrittenLine(
        file,
        int(lines.number[row]),
        line_text(buf, lines, row),
        tuple((int(lines.number[k]), line_text(buf, lines, k)) for k in before.tolist()),
        tuple((int(lines.number[k]), line_text(buf, lines, k)) for k in after.tolist()),
    )


def _frames_above(shape: Shape, buf: UInt8, lines: Lines, row: int) -> tuple[tuple[str, str], ...]:
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


@dataclass(slots=True)
class ShapeStore:
    """`flags`, `anchors` and the like are by shape number, grown as needed."""

    library: Library
    shapes: list[Shape] = field(default_factory=list)
    flags: Int32 = field(default_factory=lambda: np.zeros(1024, dtype=np.int32))
    anchors: UInt8 = field(default_factory=lambda: np.zeros((1024, ITERATION_ANCHOR_BYTES), dtype=np.uint8))
    anchor_sizes: Int32 = field(default_factory=lambda: np.zeros(1024, dtype=np.int32))
    metric_anchors: UInt8 = field(default_factory=lambda: np.zeros((1024, METRICS, ANCHOR_BYTES), dtype=np.uint8))
    metric_sizes: Int32 = field(default_factory=lambda: np.zeros((1024, METRICS), dtype=np.int32))
    context_shapes: int = 0
    variants: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, buf: UInt8, lines: Lines, row: int, file: int) -> int:
        """A new shape, described from its first line."""
        start, text_start = int(lines.start[row]), int(lines.text_start[row])
        end = min(int(lines.end[row]), text_start + MAX_TEXT_CHARS)
        raw = bytes(buf[text_start:end])
        shape = describe_shape(
            int(lines.shape[row]),
            printable_text(raw),
            mask_text(raw).decode("utf-8", "replace"),
            bytes(buf[start:text_start]).decode("utf-8", "replace"),
            self.library,
            quoted=is_quoted_code(buf, lines, row),
        )
        if shape.flags & ShapeFlag.ROW and self.context_shapes < _MAX_CONTEXT_SHAPES:
            self.context_shapes += 1
            shape.place = place_of(buf, lines, row, file)
            shape.frames = _frames_above(shape, buf, lines, row)
        return self._append(shape)

    def variant(self, base: int, buf: UInt8, lines: Lines, row: int, file: int) -> tuple[int, int | None]:
        """The shape of a line whose numbers matter: (its number, its new key where it was met for the first time)."""
        text = line_text(buf, lines, row, tagged=False)
        faults, markers = self.library.match(text.encode())
        fault = choose_fault(faults)
        own = self.shapes[base]
        if fault == own.fault and tuple(markers) == own.markers:
            return base, None
        meaning = (base, "|".join([fault.id if fault else "", *(marker.id for marker in markers)]))
        if meaning in self.variants:
            return self.variants[meaning], None
        key = shape_hash(f"{own.key} {meaning[1]}".encode())
        head = bytes(buf[lines.start[row] : lines.text_start[row]]).decode("utf-8", "replace")
        shape = describe_shape(key, text, own.template, head, self.library)
        shape.place = place_of(buf, lines, row, file)
        shape.frames = _frames_above(shape, buf, lines, row)
        self.variants[meaning] = self._append(shape)
        return self.variants[meaning], key

    def _append(self, shape: Shape) -> int:
        number = len(self.shapes)
        self.shapes.append(shape)
        if number >= self.flags.size:
            for name in ("flags", "anchors", "anchor_sizes", "metric_anchors", "metric_sizes"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        self.flags[number] = int(shape.flags)
        if shape.anchor:
            self.anchors[number, : len(shape.anchor)] = np.frombuffer(shape.anchor, dtype=np.uint8)
            self.anchor_sizes[number] = len(shape.anchor)
        for metric, anchor, _ in shape.metrics:
            self.metric_anchors[number, metric, : len(anchor)] = np.frombuffer(anchor, dtype=np.uint8)
            self.metric_sizes[number, metric] = len(anchor)
        return number
