"""Fits the weights by which `diagnose.whether_stopped` doubts that a job broke off to jobs whose truth is known.

    python benchmarks/ending_fit.py --captures dataset --seeds 130002 600 --every 2

Captures are folders with flows, topology and truth; seeds are random scenarios, played again here twice: as they are,
if a rank hangs or dies in them, and without a fault, with all jobs ending normally. Asked are the ends of all jobs as
they were watched, and as if they had been for one, two and a half and six steps after the last message. What the gates
of `endings` take for a stop is fitted; nothing else is ever weighed. Prints the weights for
`diagnose/rules/whether_stopped.py`, and with a tenth left out each time how many stops are lost and ends kept apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.cli.diagnose import diagnose_files
from llmprism.dataset import cases
from llmprism.diagnose import endings
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.probes import without_probes
from llmprism.diagnose.rhythm import with_whole_steps
from llmprism.diagnose.whether_stopped import signs_of_whether
from llmprism.model import FindingKind, JobState, Window
from llmprism.model.job import Job
from llmprism.model.timeline import Timeline
from llmprism.pipeline import local
from llmprism.score import Truth, read_truth
from played import played
from robust_draw import draw_scenario, with_normal_ends

STOPS = (FindingKind.HANG, FindingKind.CRASH)
WATCHED_STEPS = (1.0, 2.5, 6.0)
CAPTURE_WEIGHT = 3.0
"""Real captures count more than random scenarios."""


@dataclass(frozen=True)
class Said:
    """A silence that the gates take for a stop: where from, its signs, and whether it is one."""

    name: str
    part: str
    signs: Float64
    right: bool


class Seen:
    """The jobs that were analysed; and the signs of each silence that was asked about."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Job, Timeline, Window]] = []
        self.signs: list[Float64] = []
        self._analyse, self._signs = local.analyse_job, signs_of_whether

    def analyse(self, job: Job, window: Window, **how: Any) -> Any:
        found = self._analyse(job, window, **how)
        self.jobs.append((without_probes(job), with_whole_steps(found[1]), window))
        return found

    def read(self, *given: Any, **more: Any) -> Float64:
        self.signs.append(self._signs(*given, **more))
        return self.signs[-1]


def said_in(name: str, part: str, flows: Path, until_ns: int | None) -> Iterator[Said]:
    """What is said of the jobs of one capture, watched for as long as it was, and for shorter."""
    seen, truth = Seen(), read_truth(flows.parent / "truth.json.gz")
    with mock.patch.object(local, "analyse_job", seen.analyse):
        topology = str(flows.parent / "topology.json")
        diagnose_files([str(flows)], topology, with_events=False, watched_until_ns=until_ns, jobs=1)
    with mock.patch("llmprism.diagnose.endings.signs_of_whether", seen.read):
        for job, timeline, window in seen.jobs:
            right = _broke_off(job, truth)
            training = training_messages(job)
            if timeline.steps.count < 2 or not training.any():
                continue
            last, period = int(job.transfers.end_ns[training].max()), float(np.median(timeline.steps.duration_ns))
            for until in {window.end_ns, *(last + int(steps * period) for steps in WATCHED_STEPS)}:
                if until <= window.end_ns:
                    seen.signs.clear()
                    watched = kept(job, job.transfers.end_ns <= until)
                    endings.final_ending(watched, timeline, Window(window.start_ns, until))
                    yield from (Said(name, part, signs, right) for signs in seen.signs[-1:])


def kept(job: Job, keep: Bool) -> Job:
    """The job as it is seen by these of its messages."""
    if keep.all():
        return job
    left = np.unique(job.transfers.pair_of_row[keep])
    return replace(job, transfers=job.transfers.select_rows(keep), bulk=None if job.bulk is None else job.bulk[left])


def _broke_off(job: Job, truth: Truth) -> bool:
    """Did this job break off for good?"""
    names = {job.transfers.addresses[member] for member in job.members}
    true = max(truth.jobs, key=lambda one: len(names & one.members), default=None)
    stopped = [fault for fault in truth.faults if true is not None and fault.job == true.id and fault.kind in STOPS]
    gone = {JobState.CRASHED.value, JobState.HUNG.value, JobState.STARTING.value}
    return any(fault.end_ns is None or (true is not None and true.state in gone) for fault in stopped)


def of_captures(folder: Path) -> Iterator[Said]:
    for case in cases(folder=folder):
        yield from said_in(case.name, "captures", case.folder / "flows.parquet", case.watched_until_ns)


def of_seeds(first: int, count: int, every: int) -> Iterator[Said]:
    for seed in range(first, first + count, every):
        scenario = draw_scenario(seed, faults=True)
        if scenario.faults and scenario.faults[0].kind in ("hang", "crash", "crash_restart"):
            for one in (scenario, with_normal_ends(scenario)):
                with played(one) as (folder, until_ns):
                    yield from said_in(str(seed), "seeds", folder / "flows.parquet", until_ns)


def weights_of(found: Sequence[Said], ridge: float) -> Float64:
    """Weights of a logistic by Newton's steps. The silences of one job share the weight of a few."""
    names = [one.name for one in found]
    weight = np.array([1.0 / np.sqrt(names.count(one.name)) for one in found])
    weight *= [CAPTURE_WEIGHT if one.part == "captures" else 1.0 for one in found]
    signs, right = np.stack([one.signs for one in found]), np.array([float(one.right) for one in found])
    penalty = np.full(signs.shape[1], ridge)
    penalty[0] = ridge / 50.0
    weights = np.zeros(signs.shape[1])
    for _ in range(50):
        share = _chances(signs, weights)
        slope = signs.T @ (weight * (right - share)) - penalty * weights
        bend = (signs * (weight * share * (1.0 - share))[:, None]).T @ signs + np.diag(penalty)
        weights = weights + np.clip(np.linalg.solve(bend, slope), -2.0, 2.0)
    return weights


def _chances(signs: Float64, weights: Float64) -> Float64:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(signs @ weights, -30.0, 30.0))))


def left_out_chances(found: Sequence[Said], ridge: float, folds: int = 10) -> Float64:
    """The chance of each, by weights that are fitted to the other nine tenths of the cases."""
    names = sorted({one.name for one in found})
    fold = np.array([names.index(one.name) % folds for one in found])
    chance = np.zeros(len(found))
    for number in range(folds):
        weights = weights_of([one for one, own in zip(found, fold, strict=True) if own != number], ridge)
        chance[fold == number] = _chances(np.stack([one.signs for one in found]), weights)[fold == number]
    return chance


def left_out(found: Sequence[Said], ridge: float) -> str:
    """With the cases of one tenth left out of the fit each time: what is doubted of these."""
    chance = left_out_chances(found, ridge)
    right = np.array([one.right for one in found])
    doubted = chance < 0.5
    stops, others = f"{(doubted & right).sum()} of {right.sum()}", f"{(doubted & ~right).sum()} of {(~right).sum()}"
    return f"left out in turn: {stops} stops doubted, {others} that are none"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--captures", type=Path, default=Path("dataset"))
    parser.add_argument("--seeds", type=int, nargs=2, default=(130002, 600), metavar=("FIRST", "COUNT"))
    parser.add_argument("--every", type=int, default=2, help="every so many seeds: others stay unseen")
    parser.add_argument("--ridge", type=float, default=0.5)
    arguments = parser.parse_args()
    found = [*of_captures(arguments.captures), *of_seeds(arguments.seeds[0], arguments.seeds[1], arguments.every)]
    print(f"by all {len(found)}: {weights_of(found, arguments.ridge).round(2)}; {left_out(found, arguments.ridge)}")


if __name__ == "__main__":
    main()
