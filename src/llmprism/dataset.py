"""The open dataset: labelled captures of real training, made by the project's lab (docs/reference/dataset.md).

    from llmprism.dataset import load

    for case, flows, topology, truth in load("dev"):
        ...

A dataset is a folder with `cases.json` and one folder per case. The split is fixed: choose and tune on `dev`, report on
`test`. The data is part of the repository, not of the wheel; elsewhere the folder must be given.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from llmprism.errors import FormatError, InputError, UsageError
from llmprism.ingest import read_flows, read_topology
from llmprism.model import FlowTable, Topology
from llmprism.score import Truth, read_document, read_truth

__all__ = ["SPLITS", "Case", "cases", "load", "verify"]

SPLITS: Final = ("dev", "test")
SCHEMA: Final = "llmprism.dataset/1"
FOLDER: Final = Path(__file__).resolve().parents[2] / "dataset"
NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
"""Names of cases and files: nothing that could lead out of the folder."""


@dataclass(frozen=True, slots=True)
class Case:
    """One capture. `frameworks` and `layouts` are those of its jobs; `faults` what was planted, empty: healthy.

    `seconds` is the length of the window and `watched_until_ns` its end, when the collector stopped: silence before it
    was watched. `files` maps each file's name to its SHA-256.
    """

    name: str
    split: str
    about: str
    frameworks: tuple[str, ...]
    layouts: tuple[str, ...]
    faults: tuple[str, ...]
    backend: str
    records: int
    seconds: float
    watched_until_ns: int
    folder: Path
    files: dict[str, str]

    def flows(self) -> FlowTable:
        return read_flows([self.folder / "flows.parquet"])

    def topology(self) -> Topology:
        return read_topology(self.folder / "topology.json")

    def truth(self) -> Truth:
        return read_truth(self.folder / "truth.json.gz")


def cases(split: str | None = None, folder: Path | None = None) -> list[Case]:
    """The cases of a split, or of both, by name."""
    if split is not None and split not in SPLITS:
        raise UsageError(f"split: {split!r} is not one of {', '.join(SPLITS)}")
    root = FOLDER if folder is None else folder
    index = root / "cases.json"
    if not index.is_file():
        raise InputError(f"{index}: there is no dataset; it is part of the repository, not of the wheel")
    document = read_document(index)
    if document.get("schema") != SCHEMA:
        raise FormatError(f"{index}: schema: {document.get('schema')!r} is not {SCHEMA!r}")
    listed = document.get("cases")
    if not isinstance(listed, list):
        raise FormatError(f"{index}: cases: a list is expected")
    found = [_case(item, root, f"{index}: cases[{i}]") for i, item in enumerate(listed)]
    return sorted((case for case in found if split in (None, case.split)), key=lambda case: case.name)


def load(split: str | None = None, folder: Path | None = None) -> Iterator[tuple[Case, FlowTable, Topology, Truth]]:
    """Each case with its flow records, topology and truth, one after the other."""
    for case in cases(split, folder):
        yield case, case.flows(), case.topology(), case.truth()


def verify(case: Case) -> None:
    """Raises FormatError where a file of the case is absent or not the one that was published."""
    for name, expected in case.files.items():
        path = case.folder / name
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise FormatError(f"{path}: {error.strerror or error}") from error
        if found != expected:
            raise FormatError(f"{path}: the file is not the one that was published")


def _case(value: object, root: Path, field: str) -> Case:
    if not isinstance(value, dict):
        raise FormatError(f"{field}: an object is expected")
    name = _text(value, "name", field)
    files = value.get("files")
    if not isinstance(files, dict):
        raise FormatError(f"{field}.files: an object is expected")
    for each in (name, *files):
        if not isinstance(each, str) or not NAME.fullmatch(each):
            raise FormatError(f"{field}: {each!r} is no name of a case or file")
    split = _text(value, "split", field)
    if split not in SPLITS:
        raise FormatError(f"{field}.split: {split!r} is not one of {', '.join(SPLITS)}")
    return Case(
        name=name,
        split=split,
        about=_text(value, "about", field),
        frameworks=_texts(value, "frameworks", field),
        layouts=_texts(value, "layouts", field),
        faults=_texts(value, "faults", field),
        backend=_text(value, "backend", field),
        records=_whole(value, "records", field),
        seconds=_number(value, "seconds", field),
        watched_until_ns=_whole(value, "watched_until_ns", field),
        folder=root / name,
        files={each: _text(files, each, f"{field}.files") for each in files},
    )


def _text(value: dict[str, Any], key: str, field: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise FormatError(f"{field}.{key}: text is expected")
    return found


def _texts(value: dict[str, Any], key: str, field: str) -> tuple[str, ...]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise FormatError(f"{field}.{key}: a list of texts is expected")
    return tuple(found)


def _whole(value: dict[str, Any], key: str, field: str) -> int:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int):
        raise FormatError(f"{field}.{key}: an integer is expected")
    return found


def _number(value: dict[str, Any], key: str, field: str) -> float:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise FormatError(f"{field}.{key}: a number is expected")
    return float(found)
