"""Fits the weights by which `diagnose.stage_signs` says whether a stage computes longer, and which.

    python benchmarks/stage_fit.py --captures dataset --seeds 140002 400 --every 2

Looked at are the stretches of slower steps of jobs with pipelines that are news (`diagnose.unexplained`), in captures
and in random scenarios with a fault, which are played again here. Right is the stage that the truth names at that time,
else "no stage". Prints the weights for `diagnose/rules/slow_stage.py`, and what the chances are worth for cases that
they were not fitted to.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blame_fit import who
from llmprism.arrays import Bool, Float64
from llmprism.cli.diagnose import diagnose_files
from llmprism.diagnose.evidence import JobEvidence, gather_evidence, usual_steps
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.stage_signs import stage_terms, stages_of
from llmprism.diagnose.unexplained import unexplained_steps
from llmprism.model import FindingKind
from llmprism.score import Truth, read_truth
from played import played
from robust_draw import draw_scenario
from robust_expected import answers_of

NAMES = ("fit_constant", "work", "handed", "silent", "fallen")
"""The weights, in the order of `stage_signs.stage_terms`."""

FOLDS = 10
RIDGE = 0.3
"""Inverse variance of a weight, below which none is believed."""


@dataclass(frozen=True)
class Stretch:
    """One stretch of slower steps: its case, one row of signs for each stage and one (of zeros) for none, and which of
    them is right."""

    case: str
    signs: Float64
    right: Bool


def stretches_of(case: str, jobs: Sequence[JobEvidence], answers: Sequence[Truth]) -> Iterator[Stretch]:
    """Those of the jobs of a case; of several answers any may be true."""
    for evidence in jobs:
        usual = usual_steps(evidence, RULES)
        for steps in unexplained_steps(evidence, (), {}) if stages_of(evidence) else ():
            terms = stage_terms(evidence, steps & ~usual, usual)
            if terms is not None:
                right = [_is_slow(evidence, rows.tolist(), steps, answers) for rows in stages_of(evidence)]
                right.append(not any(right))
                yield Stretch(case, np.vstack([terms, np.zeros(terms.shape[1])]), np.array(right))


def _is_slow(evidence: JobEvidence, rows: Sequence[int], steps: Bool, answers: Sequence[Truth]) -> bool:
    """Does the truth name the stage of these members at that time?"""
    bounds = evidence.timeline.steps
    start, end = int(bounds.start_ns[steps][0]), int(bounds.end_ns[steps][-1])
    names = {evidence.job.transfers.addresses[evidence.job.members[row]] for row in rows}
    return any(
        fault.kind is FindingKind.IMBALANCE
        and set(fault.where.id) == names
        and fault.start_ns <= end
        and (fault.end_ns is None or fault.end_ns >= start)
        for truth in answers
        for fault in truth.faults
    )


def of_folder(case: str, folder: Path, answers: Sequence[Truth], until_ns: int | None) -> list[Stretch]:
    paths = str(folder / "flows.parquet"), str(folder / "topology.json")
    report = diagnose_files([paths[0]], paths[1], with_events=False, watched_until_ns=until_ns)
    return list(
        stretches_of(
            case, [gather_evidence(one.job, one.layout, one.timeline, one.state) for one in report.jobs], answers
        )
    )


def collected(captures: Path, seeds: range) -> Iterator[Stretch]:
    for flows in sorted(captures.glob("*/flows.parquet")):
        truth = read_truth(flows.parent / "truth.json.gz")
        yield from of_folder(flows.parent.name, flows.parent, [truth], None)
    for seed in seeds:
        scenario = draw_scenario(seed, faults=True)
        with played(scenario) as (folder, until_ns):
            yield from of_folder(f"seed {seed}", folder, answers_of(scenario, folder), until_ns)


def chances(stretch: Stretch, weights: Float64) -> Float64:
    scores = stretch.signs @ weights
    share = np.exp(scores - scores.max())
    return np.asarray(share / share.sum())


def lines_of(stretches: Sequence[Stretch]) -> list[str]:
    """The weights, and how well they do where they were not fitted."""
    fold = [zlib.crc32(one.case.encode()) % FOLDS for one in stretches]
    bits, named = 0.0, []
    for part in range(FOLDS):
        weights = who([one for one, other in zip(stretches, fold, strict=True) if other != part], RIDGE)
        for one in (one for one, other in zip(stretches, fold, strict=True) if other == part):
            chance = chances(one, weights)
            bits += float(np.log(chance[one.right].sum()))
            stage = int(np.argmax(chance[:-1]))
            named.append((float(chance[stage]), bool(one.right[stage])))
    slow = sum(not one.right[-1] for one in stretches)
    lines = [f"{len(stretches)} stretches, {slow} with a slow stage; log likelihood held out {bits:.1f}"]
    lines += [f"{name}: {value:.2f}" for name, value in zip(NAMES, who(stretches, RIDGE), strict=True)]
    for low, high in ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0)):
        inside = [right for chance, right in named if low <= chance < high]
        lines.append(f"{low} to {high}: {sum(inside)} of {len(inside)} right")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=Path, default=Path("dataset"))
    parser.add_argument("--seeds", type=int, nargs=2, default=(140002, 400), metavar=("FIRST", "COUNT"))
    parser.add_argument("--every", type=int, default=2, help="every so many seeds (2: even ones)")
    given = parser.parse_args()
    first, number = given.seeds
    seeds = range(first, first + number * given.every, given.every)
    print("\n".join(lines_of(list(collected(given.captures, seeds)))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
