"""What a shape means, decided once from the first line that has it.

A shape is a line with everything that varies masked, so its meaning can be looked up instead of worked out: library
entries, progress markers, level, whether it is an exception, a stack frame, or an iteration line and which number in
it counts. Only lines whose meaning depends on a masked number (`Xid 79` or `Xid 63`) are looked at one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from llmprism.logs.launcher_reports import REPORT_LINE
from llmprism.logs.library import STACK_MEANINGS, Fault, FaultRole, Library, Marker
from llmprism.logs.metrics import Metric, metric_anchors

__all__ = [
    "COLLECTIVE_FRAME",
    "FRAME_LINE",
    "ITERATION_ANCHOR_BYTES",
    "POINT_TO_POINT_FRAME",
    "SEQUENCE_LINE",
    "LogLevel",
    "Shape",
    "ShapeFlag",
    "WrittenLine",
    "describe_shape",
    "exception_name",
    "iteration_anchor",
]

MAX_TEXT_CHARS: Final = 2_000
"""How much of a line is kept as text and matched; no signature sits deeper."""

ITERATION_ANCHOR_BYTES: Final = 16
_ANCHOR_BYTES: Final = 12


class LogLevel(IntEnum):
    NONE = 0
    DEBUG = 1
    INFO = 2
    WARNING = 3
    ERROR = 4
    FATAL = 5


class ShapeFlag(IntFlag):
    """What the reader must do with lines of a shape."""

    NONE = 0
    ROW = 1
    """Keep every line as a row: it bears on failure or progress."""
    TEXT = 2
    """Keep the text of every line: it names ranks, peers or counts."""
    INSPECT = 4
    """Match every line by itself: other numbers mean other entries."""
    ITERATION = 8
    """The line counts iterations."""
    EXCEPTION = 16
    TRACEBACK = 32
    FRAME = 64
    TROUBLE = 128
    """The line is about trouble: its text and neighbours are kept once per writer."""
    METRIC = 256
    """The line prints a loss, a gradient norm, a loss scale or a time per iteration."""


@dataclass(frozen=True, slots=True)
class WrittenLine:
    """A line as it was written, with its neighbours of the same writer: (line number, text) each."""

    file: int
    line: int
    text: str
    before: tuple[tuple[int, str], ...] = ()
    after: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True)
class Shape:
    """`anchor` is the text just before the iteration number. `frames` are (file, function), outermost first."""

    key: int
    text: str
    template: str
    flags: ShapeFlag
    level: LogLevel
    fault: Fault | None = None
    markers: tuple[Marker, ...] = ()
    anchor: bytes = b""
    frames: tuple[tuple[str, str], ...] = ()
    place: WrittenLine | None = None
    metrics: tuple[tuple[Metric, bytes, float], ...] = ()


_LEVELS: Final = (
    (LogLevel.FATAL, re.compile(r"\b(?:FATAL|CRITICAL|PANIC|Fatal error)\b")),
    (
        LogLevel.ERROR,
        re.compile(
            r"\b(?:ERROR|SEVERE|NCCL ERROR)\b|\[ERROR\]|(?:^|\s)(?:error|Error):|\"level(?:name)?\": ?\"(?:error|ERROR)"
        ),
    ),
    (LogLevel.WARNING, re.compile(r"\b(?:WARN|WARNING)\b|\bwarn(?:ing)?s?:|Warning:|UserWarning|\[NeMo W")),
    (LogLevel.INFO, re.compile(r"\b(?:INFO|NOTICE)\b|\[NeMo I")),
    (LogLevel.DEBUG, re.compile(r"\b(?:DEBUG|TRACE)\b")),
)
_GLOG_LEVEL: Final = re.compile(r"(?:^|[\s\[\]:])([DIWEF])\d{3,4} \d\d:\d\d:\d\d")
_GLOG_LETTERS: Final = {
    "D": LogLevel.DEBUG,
    "I": LogLevel.INFO,
    "W": LogLevel.WARNING,
    "E": LogLevel.ERROR,
    "F": LogLevel.FATAL,
}
_LEVEL_HEAD_CHARS: Final = 160

_EXCEPTION: Final = re.compile(
    r"^\s*((?:[A-Za-z_]\w*\.)*[A-Za-z_]*(?:Error|Exception|Interrupt|Failure|Timeout|Exit|Fault|Exceeded|Killed))(?=:\s|:$|$|\()"
)
FRAME_LINE: Final = re.compile(r'^\s*File "([^"]{1,300})", line \d+(?:, in (.{1,80}))?')
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\)")
_CONTINUATION: Final = re.compile(r"^\s*(?:frame #\d+|#\d+ |\^+$|at 0x|~+\^*)")

_NAMES_RANKS: Final = re.compile(
    r"(?:\brank\b[\s:=]*\d+ +nranks? \d+|Bootstrap ?: Using|GLOBAL_RANK: \d+|OOB|NET/Socket : Using|node rank \d+"
    r"|global_rank|local_rank: \d+ \(pid)"
)
"""Lines that say who writes them or where."""

SEQUENCE_LINE: Final = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: -?\d+|WorkNCCL\(SeqNum=\d+|work sequence id: \d+"
    r"|(?:joined but didn't finish|but didn't join) collective"
)
"""Lines that number the collectives of a rank."""

COLLECTIVE_FRAME: Final = re.compile(
    r'distributed_c10d\.py", line \d{1,6}, in (all_\w{1,40}|reduce\w{0,40}|broadcast\w{0,40}|scatter\w{0,40}'
    r'|gather\w{0,40}|barrier|monitored_barrier)\b|torch/autograd/\w+\.py", line \d{1,6}, in (_engine_run_backward)\b'
)
"""Frames of a stack that say in which collective of all ranks it waits: by name, or that of the gradients."""

POINT_TO_POINT_FRAME: Final = re.compile(
    r'distributed_c10d\.py", line \d{1,6}, in (?:i?send|i?recv|batch_isend_irecv)\b'
    r'|(?:pipelining/\w{1,40}|p2p_communication|pipe/p2p)\.py", line \d{1,6}, in \w{0,40}(?:p2p|communicate|send|recv)'
)
"""Frames that say that a rank waits for a neighbour in its pipeline (PyTorch, Megatron, DeepSpeed)."""

_ITERATION: Final = (
    re.compile(
        r"(?:^|[\s\[({|,'\"])(?P<word>iteration|iter|global[ _]steps?|step|steps|update|num_updates|batch)"
        r"['\"]?\s*[:=#]?\s*(?=\d)",
        re.I,
    ),
    re.compile(r"\|\s+(?=\d+/\d+ \[)"),
    re.compile(r"\"step_num\": (?=\d)"),
)
_NOT_COUNTING: Final = re.compile(
    r"(?:max|total|num|warmup|logging|save|eval|decay|train|optimization|accumulation|every|interval|per|last|best|from|first|of)[\s_-]*$",
    re.I,
)
"""Words before `step` that make it a setting or a place instead of a count of progress."""

_OTHER_BAR: Final = re.compile(
    r"load|download|map|generat|token|filter|resolv|fetch|sav|shard|eval|sanity|predict|copy|extract|upload|pars", re.I
)
"""Words before a progress bar that does not count training steps."""

_NOT_PROGRESS: Final = re.compile(r"checkpoint|saving|loading|resum|slurmstepd|srun:", re.I)


def _level(text: str, head: str) -> LogLevel:
    if match := _GLOG_LEVEL.search(head + text[:80]):
        return _GLOG_LETTERS[match[1]]
    start = text[:_LEVEL_HEAD_CHARS]
    return next((level for level, pattern in _LEVELS if pattern.search(start)), LogLevel.NONE)


def exception_name(text: str) -> str | None:
    """`torch.OutOfMemoryError` of `torch.OutOfMemoryError: CUDA out of memory`, or None."""
    match = _EXCEPTION.match(text)
    return match[1] if match else None


def iteration_anchor(text: str) -> bytes:
    """The few bytes before the number that counts iterations, or nothing."""
    if _NOT_PROGRESS.search(text):
        return b""
    for pattern in _ITERATION:
        for match in pattern.finditer(text):
            if "word" in match.groupdict() and _NOT_COUNTING.search(text[: match.start("word")]):
                continue
            if match[0].startswith("|"):
                return b"" if _OTHER_BAR.search(text[: match.start()]) else b"|"
            kept = re.search(rf"[^\d\s]\D{{0,{_ANCHOR_BYTES - 1}}}$", text[: match.end()].rstrip())
            return kept[0].encode()[-_ANCHOR_BYTES:] if kept else b""
    return b""


_ROLE_ORDER: Final = {FaultRole.BENIGN: 0, FaultRole.ROOT: 1, FaultRole.CASCADE: 2, FaultRole.WARNING: 3}


def choose_fault(faults: list[Fault]) -> Fault | None:
    """The entry that decides when several match: benign wording wins, then the heavier, then root before cascade."""
    if not faults:
        return None
    return min(faults, key=lambda fault: (fault.role is not FaultRole.BENIGN, -fault.weight, _ROLE_ORDER[fault.role]))


def _frame_flags(text: str, *, marked: bool) -> ShapeFlag:
    """What is kept of a line of a stack; `marked`: the library knows what it means."""
    flags = ShapeFlag.FRAME
    if marked:
        flags |= ShapeFlag.ROW | ShapeFlag.INSPECT
    if COLLECTIVE_FRAME.search(text) or POINT_TO_POINT_FRAME.search(text):
        flags |= ShapeFlag.ROW | ShapeFlag.TEXT
    return flags


def describe_shape(key: int, text: str, template: str, head: str, library: Library, *, quoted: bool = False) -> Shape:
    """The meaning of a shape from its first line; `head` is the prefix with its time and tags.

    `quoted`: the line is program code shown inside a traceback and means nothing by itself.
    """
    if quoted:
        return Shape(key, text, template, ShapeFlag.FRAME, LogLevel.NONE)
    encoded = text.encode()
    faults, markers = library.match(encoded)
    level = _level(text, head)
    flags = ShapeFlag.NONE
    fault = choose_fault(faults)
    if (
        fault
        and level < LogLevel.ERROR
        and not exception_name(text)
        and metric_anchors(text)
        and iteration_anchor(text)
    ):
        fault = None  # a line of progress that prints its numbers, `loss nan` among them
    frame = FRAME_LINE.match(text)
    if frame or _CONTINUATION.match(text):
        of_stacks = tuple(mark for mark in markers if mark.means in STACK_MEANINGS)
        return Shape(key, text, template, _frame_flags(text, marked=bool(of_stacks)), LogLevel.NONE, None, of_stacks)
    if _TRACEBACK.search(text):
        flags |= ShapeFlag.TRACEBACK | ShapeFlag.ROW
    if exception_name(text):
        flags |= ShapeFlag.EXCEPTION | ShapeFlag.ROW
    if level >= LogLevel.ERROR or (fault and fault.role is not FaultRole.BENIGN) or flags & ShapeFlag.EXCEPTION:
        flags |= ShapeFlag.ROW | ShapeFlag.TROUBLE
    if markers:
        flags |= ShapeFlag.ROW
    if library.depends_on_numbers(encoded):
        flags |= ShapeFlag.INSPECT | ShapeFlag.ROW
    names = _NAMES_RANKS.search(text) or REPORT_LINE.search(text) or SEQUENCE_LINE.search(text)
    if (fault and fault.accuses) or names:
        flags |= ShapeFlag.TEXT | ShapeFlag.ROW
    anchor = b"" if flags & (ShapeFlag.EXCEPTION | ShapeFlag.TRACEBACK) or fault else iteration_anchor(text)
    if anchor:
        flags |= ShapeFlag.ITERATION
    numbers = () if flags & (ShapeFlag.EXCEPTION | ShapeFlag.TRACEBACK) or fault else tuple(metric_anchors(text))
    if numbers:
        flags |= ShapeFlag.METRIC
    return Shape(key, text, template, flags, level, fault, tuple(markers), anchor, metrics=numbers)
