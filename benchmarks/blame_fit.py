"""Fits the weights by which members are blamed for slower steps (`diagnose.blame`) to slowdowns whose truth is known.

    python benchmarks/blame_fit.py --captures dataset --seeds 13001 225

Captures are folders with flows, topology and truth; seeds are random scenarios with a fault planted in each, played
again here. Prints the weights for `diagnose/rules/blame.py`: first who was waited for (slow GPUs: a softmax over the
members), then whether a GPU was at all (all slowdowns, a logistic, of the member that the weights in use blame most).
Slowdowns that a slow place explains are left out of the second, since nobody is blamed for them. The first is fitted to
captures and tried on seeds, too, and the other way round.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from calibration_fit import logistic
from llmprism.arrays import Bool, Float64
from llmprism.cli.diagnose import diagnose_files
from llmprism.diagnose.blame import shares_of, signs_of, terms_of
from llmprism.diagnose.evidence import JobEvidence, gather_evidence, usual_steps
from llmprism.diagnose.rules import RULES
from llmprism.model import FindingKind
from llmprism.model.report import Report
from llmprism.score import Truth, read_truth
from played import played
from robust_draw import draw_scenario
from robust_expected import fault_shows

SLOWER = (
    FindingKind.SLOW_GPU, FindingKind.IMBALANCE, FindingKind.SLOW_NIC, FindingKind.SLOW_LINK, FindingKind.SLOW_SWITCH,
    FindingKind.SLOW_GROUP,
)  # fmt: skip
PLACES = ("slow_nic", "slow_link", "slow_switch", "slow_group", "slow_storage", "congestion")


@dataclass(frozen=True)
class Slowdown:
    """Of one job: the signs of its members (one row each), who is right (none where no GPU is slow), whether a place
    explains it, and of the one most blamed the terms of the second fit and whether it is right."""

    part: str
    signs: Float64
    right: Bool
    placed: bool
    terms: Float64
    blamed: bool


class Case(Protocol):
    """Whatever is decided between members by a weighted sum of signs: one row of them for each, and who is right."""

    @property
    def signs(self) -> Float64: ...
    @property
    def right(self) -> Bool: ...


def slowdowns(part: str, report: Report, truth: Truth) -> Iterator[Slowdown]:
    """The jobs of a report that the only fault of the truth slows down."""
    if len(truth.faults) != 1 or truth.faults[0].kind not in SLOWER:
        return
    fault = truth.faults[0]
    gpu = fault.kind is FindingKind.SLOW_GPU
    for one in report.jobs:
        evidence = gather_evidence(one.job, one.layout, one.timeline, one.state)
        names = [one.job.transfers.addresses[member] for member in one.job.members]
        right = np.isin(names, [str(fault.where.id), *fault.equivalents]) & gpu
        slower, usual = _steps(evidence, fault.start_ns, fault.end_ns)
        if (gpu and not right.any()) or not slower.any() or usual.sum() < RULES.members.late_steps:
            continue
        longer = float((evidence.duration_ns - evidence.normal_ns)[slower].mean())
        signs = signs_of(evidence, slower, usual, longer)
        found = np.isin(names, [f.where.id for f in report.findings if f.kind is FindingKind.SLOW_GPU])
        columns = (signs.late_clear, signs.silent_clear, signs.handed_clear, signs.held_clear, signs.work, found)
        placed = any(f.kind.value in PLACES for f in report.findings)
        shares = shares_of(signs, found=int(np.argmax(found)) if found.any() else None)
        row = int(np.argmax(shares))
        own = right if right[row] else np.arange(len(names)) == row
        terms = terms_of(evidence, signs, row, float(shares[own].sum()), slower, usual)
        terms[-1] *= not found.any()
        terms = np.concatenate([[1.0], terms, [float(found.any())]])
        yield Slowdown(part, np.stack(columns, axis=1), right, placed, terms, bool(right[row]))


def _steps(evidence: JobEvidence, start_ns: int, end_ns: int | None) -> tuple[Bool, Bool]:
    """The slower steps while the fault lasts, and the usual ones while it does not."""
    steps, until = evidence.timeline.steps, np.iinfo(np.int64).max if end_ns is None else end_ns
    hit = evidence.counted & (steps.end_ns > start_ns) & (steps.start_ns < until)
    slower = hit & (evidence.duration_ns >= RULES.members.slowdown * evidence.normal_ns)
    return slower, usual_steps(evidence, RULES) & ~hit


def of_captures(folder: Path) -> Iterator[Slowdown]:
    for flows in sorted(folder.glob("*/flows.parquet")):
        place = flows.parent
        report = diagnose_files([str(flows)], str(place / "topology.json"), with_events=False)
        yield from slowdowns("captures", report, read_truth(place / "truth.json.gz"))


def of_seeds(first: int, count: int) -> Iterator[Slowdown]:
    for seed in range(first, first + count):
        scenario = draw_scenario(seed, faults=True)
        with played(scenario) as (place, until_ns):
            if scenario.faults and fault_shows(scenario, place):
                flows, topology = str(place / "flows.parquet"), str(place / "topology.json")
                report = diagnose_files([flows], topology, with_events=False, watched_until_ns=until_ns)
                yield from slowdowns("seeds", report, read_truth(place / "truth.json.gz"))


def who(cases: Sequence[Case], ridge: float = 0.5) -> Float64:
    """Weights that make the right members most likely: Newton steps of a softmax, halved where they lead nowhere."""
    weights: Float64 = np.zeros(cases[0].signs.shape[1])
    for _ in range(100):
        slope, bend = -ridge * weights, ridge * np.eye(weights.size)
        for case in cases:
            share = _shares(case, weights)
            mean, own = share @ case.signs, np.where(case.right, share, 0.0)
            slope += own @ case.signs / own.sum() - mean
            bend += (case.signs - mean).T @ (share[:, None] * (case.signs - mean))
        step = np.linalg.solve(bend, slope)
        while _gain(cases, weights + step, ridge) < _gain(cases, weights, ridge) and np.abs(step).max() > 1e-6:
            step /= 2.0
        weights = weights + step
        if np.abs(step).max() <= 1e-6:
            break
    return weights


def _shares(case: Case, weights: Float64) -> Float64:
    odds = case.signs @ weights
    share = np.exp(odds - odds.max())
    return np.asarray(share / share.sum())


def _gain(cases: Sequence[Case], weights: Float64, ridge: float) -> float:
    likely = sum(float(np.log(_shares(case, weights)[case.right].sum())) for case in cases)
    return likely - 0.5 * ridge * float(weights @ weights)


def named(cases: Sequence[Case], weights: Float64) -> int:
    return sum(bool(case.right[int(np.argmax(case.signs @ weights))]) for case in cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--captures", type=Path, default=Path("dataset"))
    parser.add_argument("--seeds", type=int, nargs=2, default=(13001, 225), metavar=("FIRST", "COUNT"))
    arguments = parser.parse_args()
    cases = [*of_captures(arguments.captures), *of_seeds(*arguments.seeds)]
    slow = [case for case in cases if case.right.any()]
    print(f"who, by all {len(slow)}: {who(slow).round(2)}, {named(slow, who(slow))} come first")
    for part in ("captures", "seeds"):
        own, others = ([case for case in slow if (case.part == part) is same] for same in (True, False))
        if own and others:
            print(f"fitted to {part}: {named(others, who(own))} of the {len(others)} others")
    judged = [case for case in cases if case.right.any() or not case.placed]
    terms, right = np.stack([case.terms for case in judged]), np.array([float(case.blamed) for case in judged])
    print(f"whether a GPU at all, by {len(judged)}: {logistic(terms, right).round(2)}")


if __name__ == "__main__":
    main()
