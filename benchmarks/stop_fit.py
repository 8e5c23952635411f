"""Fits the weights by which `diagnose.who_stopped` names who stopped first to stopped jobs whose culprit is known.

    python benchmarks/stop_fit.py --captures dataset --seeds 80002 400 --every 2

Captures are folders with flows, topology and truth; seeds are random scenarios in which a rank hangs or dies, played
again here. Prints the weights for `diagnose/rules/who_stopped.py` and how many of them come first: fitted to all, and
fitted to captures and tried on seeds, and the other way round.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from blame_fit import named, who
from llmprism.arrays import Bool, Float64
from llmprism.cli.diagnose import diagnose_files
from llmprism.dataset import cases
from llmprism.diagnose import who_stopped as stops
from llmprism.model import FindingKind, WhereType
from llmprism.model.job import Job
from llmprism.score import Truth, read_truth
from played import played
from robust_draw import draw_scenario

STOPS = (FindingKind.HANG, FindingKind.CRASH)


@dataclass(frozen=True)
class Stop:
    """One job that broke off: the signs of its members (one row each), and who is right."""

    part: str
    signs: Float64
    right: Bool


class _Seen:
    """The jobs whose culprit was looked for, each with the signs of its members, as `who_stopped` saw them."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.signs: list[Float64] = []
        self._named, self._signs = stops.who_stopped, stops.signs_of_stop

    def name(self, job: Job, *rest: Any) -> stops.Suspects:
        self.jobs.append(job)
        return self._named(job, *rest)

    def read(self, *given: Any) -> Float64:
        self.signs.append(self._signs(*given))
        return self.signs[-1]


def stops_in(part: str, flows: Path, until_ns: int | None) -> Iterator[Stop]:
    """The stopped jobs of a capture, with their true culprits; the last time that each was asked for counts."""
    seen, truth = _Seen(), read_truth(flows.parent / "truth.json.gz")
    with (
        mock.patch("llmprism.diagnose.endings.who_stopped", seen.name),
        mock.patch.object(stops, "signs_of_stop", seen.read),
    ):
        diagnose_files([str(flows)], str(flows.parent / "topology.json"), with_events=False, watched_until_ns=until_ns)
    last = {job.id: (job, signs) for job, signs in zip(seen.jobs, seen.signs, strict=True)}
    for job, signs in last.values():
        right = _culprits(job, truth)
        if right.any():
            yield Stop(part, signs, right)


def _culprits(job: Job, truth: Truth) -> Bool:
    names = {
        name
        for fault in truth.faults
        if fault.kind in STOPS and fault.where.type is WhereType.GPU
        for name in (str(fault.where.id), *fault.equivalents)
    }
    return np.array([job.transfers.addresses[member] in names for member in job.members])


def of_captures(folder: Path) -> Iterator[Stop]:
    for case in cases(folder=folder):
        if any(fault.kind in STOPS for fault in read_truth(case.folder / "truth.json.gz").faults):
            yield from stops_in("captures", case.folder / "flows.parquet", case.watched_until_ns)


def of_seeds(first: int, count: int, every: int) -> Iterator[Stop]:
    for seed in range(first, first + count, every):
        scenario = draw_scenario(seed, faults=True)
        if scenario.faults and scenario.faults[0].kind in ("hang", "crash", "crash_restart"):
            with played(scenario) as (folder, until_ns):
                yield from stops_in("seeds", folder / "flows.parquet", until_ns)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--captures", type=Path, default=Path("dataset"))
    parser.add_argument("--seeds", type=int, nargs=2, default=(80002, 400), metavar=("FIRST", "COUNT"))
    parser.add_argument("--every", type=int, default=2, help="every so many seeds: others stay unseen")
    parser.add_argument("--ridge", type=float, default=0.2)
    arguments = parser.parse_args()
    found = [*of_captures(arguments.captures), *of_seeds(arguments.seeds[0], arguments.seeds[1], arguments.every)]
    weights = who(found, arguments.ridge)
    print(f"by all {len(found)}: {weights.round(2)}, {named(found, weights)} come first")
    for part in ("captures", "seeds"):
        own, others = ([one for one in found if (one.part == part) is same] for same in (True, False))
        if own and others:
            print(f"fitted to {part}: {named(others, who(own, arguments.ridge))} of the {len(others)} others")


if __name__ == "__main__":
    main()
