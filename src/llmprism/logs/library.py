"""The fault library: human-readable TOML entries that say what a line means, and the one matcher for all of them.

A *fault* entry has a pattern, a class, a role and advice; a *marker* entry says what a line means for the job's
progress (a stage begins, the run ended well, someone cancelled it). Entries ship in `library/*.toml`; users add files
of the same form, and an entry of theirs with the same id replaces ours. The reference is docs/reference/fault-
library.md.

Roles: `root` can start a failure; `cascade` is said by those who suffer from someone else's; `warning` is worth a note
and never a cause by itself; `benign` is noise that looks like trouble. `echo` marks a root that ranks also print when a
peer died under them (CUDA errors after an aborted collective), so that it accuses nobody when most ranks say it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from llmprism import limits
from llmprism.errors import FormatError, InputError
from llmprism.logs.pattern import PatternSet, check_pattern, without_numbers
from llmprism.model.log import CauseClass, Stage

__all__ = ["STACK_MEANINGS", "Fault", "FaultRole", "Library", "Marker", "Meaning", "load_library", "parse_library"]


class FaultRole(StrEnum):
    ROOT = "root"
    CASCADE = "cascade"
    WARNING = "warning"
    BENIGN = "benign"


class Meaning(StrEnum):
    """What a marker line means for the job's progress."""

    LAUNCH = "stage.launch"
    INIT = "stage.init"
    DATA = "stage.data"
    TRAIN = "stage.train"
    EVAL = "stage.eval"
    EVAL_DONE = "stage.eval_done"
    CHECKPOINT = "stage.checkpoint"
    CHECKPOINT_DONE = "stage.checkpoint_done"
    SHUTDOWN = "stage.shutdown"
    SUCCESS = "success"
    GAVE_UP = "gave_up"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time_limit"
    STOPPED = "stopped"
    BARRIER = "stack.barrier"
    SCRIPT_TOP = "stack.script_top"


STACK_MEANINGS: Final = frozenset({Meaning.BARRIER, Meaning.SCRIPT_TOP})
"""Meanings of single frames of a stack; other markers do not count in lines that are part of one."""


class Severity(StrEnum):
    FATAL = "fatal"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a line means.

    `accuses`: the line names the rank or address that is to blame. `hang`: it is about waiting. `closed`: a peer's
    connection was closed, so that its process had ended before. `node_wide`: it speaks
    of the node, not of one process. `stage`: the stage in which it happens, where nothing else says which.
    `weight` decides between entries that match the same line: the heavier wins.
    """

    id: str
    patterns: tuple[str, ...]
    cause: CauseClass
    role: FaultRole
    severity: Severity
    summary: str
    advice: str
    source: str
    echo: bool = False
    accuses: bool = False
    hang: bool = False
    closed: bool = False
    node_wide: bool = False
    weight: float = 1.0
    examples: tuple[str, ...] = ()
    stage: Stage = Stage.UNKNOWN


@dataclass(frozen=True, slots=True)
class Marker:
    id: str
    patterns: tuple[str, ...]
    means: Meaning
    source: str = ""
    examples: tuple[str, ...] = ()


_FAULT_KEYS: Final = {
    "id", "pattern", "patterns", "class", "role", "severity", "summary", "advice", "source",
    "echo", "accuses", "hang", "closed", "node_wide", "weight", "examples", "stage",
}  # fmt: skip
_MARKER_KEYS: Final = {"id", "pattern", "patterns", "means", "source", "examples"}


def parse_library(text: str, name: str) -> tuple[list[Fault], list[Marker]]:
    """The entries of one TOML file; FormatError names the entry and the field that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{name}: {error}") from error
    unknown = set(document) - {"fault", "marker"}
    if unknown:
        raise FormatError(f"{name}: unknown table {sorted(unknown)[0]!r}; use [[fault]] and [[marker]]")
    faults = [_fault(entry, name) for entry in _tables(document, "fault", name)]
    markers = [_marker(entry, name) for entry in _tables(document, "marker", name)]
    return faults, markers


def _tables(document: dict[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise FormatError(f"{name}: {key} must be a list of tables ([[{key}]])")
    return tables


def _common(entry: dict[str, Any], keys: set[str], name: str) -> tuple[str, str, tuple[str, ...]]:
    entry_id = entry.get("id")
    if not isinstance(entry_id, str) or not entry_id:
        raise FormatError(f"{name}: an entry has no id")
    where = f"{name}: entry {entry_id!r}"
    unknown = set(entry) - keys
    if unknown:
        raise FormatError(f"{where}: unknown field {sorted(unknown)[0]!r}")
    patterns = entry.get("patterns", [])
    if "pattern" in entry:
        patterns = [entry["pattern"], *patterns]
    if not patterns or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise FormatError(f"{where}: needs a pattern")
    for pattern in patterns:
        try:
            check_pattern(pattern)
        except FormatError as error:
            raise FormatError(f"{where}: {error}") from error
    return entry_id, where, tuple(patterns)


def _text(entry: dict[str, Any], key: str, where: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise FormatError(f"{where}: {key} must be text")
    return value


def _fault(entry: dict[str, Any], name: str) -> Fault:
    entry_id, where, patterns = _common(entry, _FAULT_KEYS, name)
    try:
        role = FaultRole(entry.get("role", "root"))
        cause = CauseClass(entry.get("class", "unknown"))
        severity = Severity(entry.get("severity", "error"))
        weight = float(entry.get("weight", 1.0))
        stage = Stage(entry.get("stage", "unknown"))
    except (ValueError, TypeError) as error:
        raise FormatError(f"{where}: {error}") from error
    return Fault(
        entry_id,
        patterns,
        cause,
        role,
        severity,
        _text(entry, "summary", where),
        _text(entry, "advice", where),
        _text(entry, "source", where),
        bool(entry.get("echo", False)),
        bool(entry.get("accuses", False)),
        bool(entry.get("hang", False)),
        bool(entry.get("closed", False)),
        bool(entry.get("node_wide", False)),
        weight,
        tuple(map(str, entry.get("examples", ()))),
        stage,
    )


def _marker(entry: dict[str, Any], name: str) -> Marker:
    entry_id, where, patterns = _common(entry, _MARKER_KEYS, name)
    try:
        means = Meaning(entry.get("means", ""))
    except ValueError as error:
        raise FormatError(f"{where}: {error}") from error
    return Marker(entry_id, patterns, means, _text(entry, "source", where), tuple(map(str, entry.get("examples", ()))))


class Library:
    """All entries with their one matcher. `faults` and `markers` are in file order; a later id replaces an earlier."""

    def __init__(self, faults: Iterable[Fault], markers: Iterable[Marker]) -> None:
        self.faults: tuple[Fault, ...] = tuple({fault.id: fault for fault in faults}.values())
        self.markers: tuple[Marker, ...] = tuple({marker.id: marker for marker in markers}.values())
        self._owner: list[int] = []
        strict: list[str] = []
        loose: list[str] = []
        all_patterns = [fault.patterns for fault in self.faults] + [marker.patterns for marker in self.markers]
        for number, patterns in enumerate(all_patterns):
            for pattern in patterns:
                without, names_number = without_numbers(pattern)
                if names_number:
                    loose.append(without)
                strict.append(pattern)
                self._owner.append(number)
        self._strict = PatternSet(strict)
        self._loose = PatternSet(loose)

    def match(self, text: bytes) -> tuple[list[Fault], list[Marker]]:
        """The entries that occur in the text, in library order."""
        numbers = sorted({self._owner[hit] for hit in self._strict.matches(text)})
        faults = [self.faults[number] for number in numbers if number < len(self.faults)]
        markers = [self.markers[number - len(self.faults)] for number in numbers if number >= len(self.faults)]
        return faults, markers

    def depends_on_numbers(self, text: bytes) -> bool:
        """Whether another line of the same shape, with other numbers, could match another entry."""
        return bool(self._loose.matches(text))

    def fault(self, entry_id: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.id == entry_id), None)


@cache
def _shipped() -> tuple[tuple[Fault, ...], tuple[Marker, ...]]:
    faults: list[Fault] = []
    markers: list[Marker] = []
    folder = resources.files("llmprism.logs") / "library"
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.endswith(".toml"):
            more_faults, more_markers = parse_library(file.read_text(encoding="utf-8"), file.name)
            faults += more_faults
            markers += more_markers
    return tuple(faults), tuple(markers)


def load_library(extra: Iterable[Path] = ()) -> Library:
    """The shipped entries and those of the user's files."""
    shipped_faults, shipped_markers = _shipped()
    faults, markers = list(shipped_faults), list(shipped_markers)
    for path in extra:
        try:
            if path.stat().st_size > limits.MAX_LIBRARY_BYTES:
                raise FormatError(f"{path}: larger than {limits.MAX_LIBRARY_BYTES} bytes")
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read library file {path}: {error}") from error
        more_faults, more_markers = parse_library(text, str(path))
        faults += more_faults
        markers += more_markers
    return Library(faults, markers)
