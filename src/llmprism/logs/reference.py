"""What good runs print: the cross-job filter.

A *reference* is made from finished runs of the same kind: for every shape the number of good runs that print it, the
most lines per actor in any of them, and the stages in which it appears. In a new job a line that a fair share of the
good runs print too, about as often and in the same stage, is no evidence. Runs that did not end well are not learnt
from. The store is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from llmprism import limits
from llmprism.errors import FormatError, InputError
from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import FaultRole, Library
from llmprism.logs.members import identify_members
from llmprism.logs.progress import measure_progress
from llmprism.logs.reader import read_job
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.shapes import Shape, ShapeFlag
from llmprism.logs.sources import looks_like_log
from llmprism.logs.tags import identity_of_file
from llmprism.logs.templates import MAX_CANDIDATES, similar_key, token_similarity
from llmprism.model.log import Outcome, Stage

__all__ = ["Reference", "find_runs", "learn_runs", "load_reference", "save_reference"]

SCHEMA: Final = "llmprism.logs.reference/1"
_GOOD: Final = frozenset({Outcome.SUCCESS, Outcome.RUNNING})


@dataclass(slots=True)
class _KnownShape:
    """`most`: lines per actor in the run that prints it most."""

    runs: int = 0
    most: float = 0.0
    stages: set[Stage] = field(default_factory=set)
    template: str = ""


@dataclass(slots=True)
class Reference:
    """Shapes of good runs by their hash."""

    runs: int = 0
    skipped: int = 0
    known: dict[int, _KnownShape] = field(default_factory=dict)
    rules: LogRules = RULES
    _by_key: dict[tuple[str, ...], list[_KnownShape]] = field(default_factory=dict)

    def is_normal(self, shape: Shape, stage: Stage, count: float) -> bool:
        """Whether good runs print this shape too, as often and in the same stage."""
        found = self.known.get(shape.key) or self._similar(shape)
        if found is None:
            return False
        if stage not in found.stages and Stage.UNKNOWN not in found.stages:
            return False
        if self.runs >= self.rules.few_runs and found.runs < self.rules.often_share * self.runs:
            return False
        if shape.flags & ShapeFlag.EXCEPTION or (shape.fault is not None and shape.fault.role is FaultRole.ROOT):
            return count <= self.rules.strict_ratio * found.most
        return count <= self.rules.often_ratio * found.most + 1

    def _similar(self, shape: Shape) -> _KnownShape | None:
        """A known shape that differs in few words (a name, a path); never for a line the library knows."""
        if shape.fault is not None:
            return None
        if not self._by_key:
            for known in self.known.values():
                self._by_key.setdefault(similar_key(known.template), []).append(known)
        candidates = self._by_key.get(similar_key(shape.template[:400]), [])[:MAX_CANDIDATES]
        alike = [
            known
            for known in candidates
            if token_similarity(known.template, shape.template[:400]) >= self.rules.nearly_same
        ]
        return max(alike, key=lambda known: known.most, default=None)

    def learn(self, log: JobLog) -> None:
        """Take in one good run."""
        self._by_key.clear()
        self.runs += 1
        members, progress = identify_members(log), measure_progress(log, self.rules)
        actors = max(len(members.actors), 1)
        stages = _stages_of_shapes(log, progress)
        for number, shape in enumerate(log.shapes):
            known = self.known.setdefault(shape.key, _KnownShape(template=shape.template[:400]))
            known.runs += 1
            known.most = max(known.most, float(log.count[number]) / actors)
            known.stages |= stages.get(number, {Stage.UNKNOWN})


def _stages_of_shapes(log: JobLog, progress: Any) -> dict[int, set[Stage]]:
    """Stages in which each kept shape appears; shapes without rows are not looked up."""
    stages: dict[int, set[Stage]] = {}
    rows = log.rows
    for shape in np.unique(rows.shape).tolist():
        own = np.flatnonzero(rows.shape == shape)
        picked = own if own.size <= 64 else own[np.linspace(0, own.size - 1, 64).astype(np.int64)]
        stages[shape] = {
            progress.stage_at(int(rows.file[row]), int(rows.line[row]), int(rows.time_ns[row]))
            for row in picked.tolist()
        }
    return stages


def find_runs(path: Path) -> list[list[Path]]:
    """The runs under a path: a file is a run, and so is a directory whose files are the ranks or nodes of one job.

    Files of one directory that are parts of one job but not named so are taken for several runs; that costs little,
    because counts are per actor.
    """
    if path.is_file():
        return [[path]]
    if not path.is_dir():
        raise InputError(f"no such reference: {path}")
    runs = [run for folder in sorted(path.iterdir()) if folder.is_dir() for run in find_runs(folder)]
    files = sorted(p for p in path.iterdir() if p.is_file() and looks_like_log(p))
    if any(_is_part_of_job(file.name) for file in files):
        return [[path]]
    return [*runs, *([file] for file in files)]


def _is_part_of_job(name: str) -> bool:
    identity = identity_of_file(name)
    return identity.rank is not None or identity.local_rank is not None or identity.node is not None


def learn_runs(paths: Iterable[Path], library: Library) -> Reference:
    """A reference from finished runs and stores of such; runs that did not end well are left out and counted."""
    reference = Reference()
    for path in paths:
        if path.is_file() and _is_store(path):
            _merge(reference, load_reference(path))
            continue
        for run in find_runs(path):
            try:
                log = read_job(run, library)
            except InputError:
                reference.skipped += 1
                continue
            if diagnose_log(log).outcome not in _GOOD:
                reference.skipped += 1
                continue
            reference.learn(log)
    if not reference.runs:
        raise InputError("the reference holds no run that ended well")
    return reference


def _merge(into: Reference, other: Reference) -> None:
    into.runs += other.runs
    into.skipped += other.skipped
    for key, known in other.known.items():
        mine = into.known.setdefault(key, _KnownShape(template=known.template))
        mine.runs += known.runs
        mine.most = max(mine.most, known.most)
        mine.stages |= known.stages


def _is_store(path: Path) -> bool:
    with path.open("rb") as file:
        return SCHEMA.encode() in file.read(200)


def save_reference(reference: Reference, path: Path) -> None:
    """Write the store: JSON, keys sorted, shapes in the order of their text so that two runs give the same file."""
    shapes = [
        {
            "key": f"{key:016x}",
            "template": known.template,
            "runs": known.runs,
            "most_per_actor": round(known.most, 3),
            "stages": sorted(stage.value for stage in known.stages),
        }
        for key, known in sorted(reference.known.items(), key=lambda item: (item[1].template, item[0]))
    ]
    document = {"schema": SCHEMA, "runs": reference.runs, "skipped": reference.skipped, "shapes": shapes}
    text = json.dumps(document, indent=1, sort_keys=False)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}") from error


def load_reference(path: Path) -> Reference:
    """Read a store; FormatError names what is wrong with it."""
    try:
        if path.stat().st_size > limits.MAX_TEMPLATE_STORE_BYTES:
            raise FormatError(f"{path}: larger than {limits.MAX_TEMPLATE_STORE_BYTES} bytes")
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not a reference store: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FormatError(f"{path}: not a reference store (schema {SCHEMA})")
    reference = Reference()
    try:
        reference.runs, reference.skipped = int(document["runs"]), int(document["skipped"])
        for entry in document["shapes"]:
            known = _KnownShape(
                int(entry["runs"]),
                float(entry["most_per_actor"]),
                {Stage(s) for s in entry["stages"]},
                str(entry["template"]),
            )
            reference.known[int(entry["key"], 16)] = known
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: damaged reference store: {error}") from error
    return reference
