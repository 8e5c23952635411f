"""What the ranks wrote down, read back: one `JobNotes` per job, over all its attempts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["JobNotes", "read_job", "read_run"]

Note = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobNotes:
    """`ranks` are the `rank` notes in order; `attempts` holds, per attempt, each rank's notes."""

    name: str
    addresses: tuple[str, ...]
    ranks: tuple[Note, ...]
    attempts: tuple[tuple[tuple[Note, ...], ...], ...]

    @property
    def complete(self) -> bool:
        """Whether every rank said who it is, and from its own address."""
        said = [rank["address"] for rank in self.ranks]
        return said == list(self.addresses)

    def of_kind(self, kind: str) -> list[tuple[str, Note]]:
        """All notes of a kind with the address of the rank that wrote them."""
        return [
            (address, note)
            for attempt in self.attempts
            for address, notes in zip(self.addresses, attempt, strict=True)
            for note in notes
            if note["kind"] == kind
        ]

    def groups(self, name: str) -> list[tuple[str, ...]]:
        """Distinct groups of a name with two members and more, as addresses, in the order of the ranks."""
        found: dict[tuple[int, ...], None] = {}
        for rank in self.ranks:
            members = tuple(rank["groups"].get(name, ()))
            if len(members) > 1:
                found[members] = None
        return [tuple(self.addresses[member] for member in members) for members in sorted(found)]

    def group_names(self) -> list[str]:
        return sorted({name for rank in self.ranks for name in rank["groups"]})


def read_run(folder: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return run


def read_job(folder: Path, run: dict[str, Any], name: str) -> JobNotes:
    """A line that a dying rank did not finish is left out."""
    addresses = tuple(run["placement"][name])
    attempts = tuple(
        tuple(_lines(folder / "jobs" / attempt / f"rank{rank}.jsonl") for rank in range(len(addresses)))
        for attempt in run["attempts"][name]
    )
    ranks: tuple[Note, ...] = ()
    for attempt in attempts:
        ranks = ranks or tuple(note for notes in attempt for note in notes if note["kind"] == "rank")
    return JobNotes(name, addresses, ranks, attempts)


def _lines(path: Path) -> tuple[Note, ...]:
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return tuple(json.loads(line) for line in lines if line.endswith("}\n"))
