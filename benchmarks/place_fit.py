"""Fits the weights by which `diagnose.place_signs` says how likely a suspected place is the sick one.

    python benchmarks/place_fit.py --seeds 80002 100 --every 2      dataset, sources, and these random faults

Suspected places are taken by every sign before they compete, also those that are too unlikely to be named; the truth
of each is known. Those of one case that are right, and those that are wrong, weigh 1 together: a job with many slow
cells may have twenty wrong ones. Prints the weights for `diagnose/rules/named_place.py`, and what the chances are worth
for cases that they were not fitted to.
"""

from __future__ import annotations

import argparse
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from calibration import DATA, SOURCES
from claims import claims_of
from llmprism.arrays import Bool, Float64
from llmprism.cli.diagnose import diagnose_files
from llmprism.dataset import cases
from llmprism.diagnose.place_signs import odds_against, terms_of
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.slow_place_merge import SuspectedPlace
from llmprism.diagnose.slow_transfer import suspected_places
from llmprism.model.report import Report
from llmprism.report.json_report import document
from llmprism.score import Truth, read_truth
from played import played
from robust_draw import draw_scenario
from robust_expected import answers_of

NAMES = (
    "fit_constant", "lead", "of_cells", "of_sick", "of_slower", "clock", "alone", "held_back", "broken_up", "lagging",
    "second", "one_member",
)  # fmt: skip
"""The weights, in the order of `place_signs.terms_of`."""

FOLDS = 5
RIDGE = 0.02
"""Variance of a weight is so many times the number of places over 50, less than which no weight is believed."""

ALL = replace(RULES, trust=replace(RULES.trust, worth_a_look=0.0))
"""Rules by which every suspected place is listed."""


@dataclass(frozen=True)
class Judged:
    """One suspected place: the case, its signs as numbers, the odds of its rivals, and whether it is true."""

    case: str
    terms: Float64
    against: float
    right: bool


def judged(name: str, suspects: Sequence[SuspectedPlace], report: Report, answers: Sequence[Truth]) -> list[Judged]:
    """The suspected places of one case with their truth; of several answers any may be true."""
    named = document(replace(report, findings=tuple(one.finding for one in suspects)))
    claims = [[claim.right for claim in claims_of(named, one) if claim.kind == "finding"] for one in answers]
    right = [any(each) for each in zip(*claims, strict=True)]
    return [
        Judged(name, terms_of(one.signs), odds_against(one.signs), true)
        for one, true in zip(suspects, right, strict=True)
    ]


def suspects_in(name: str, folder: Path, answers: Sequence[Truth], until_ns: int | None) -> list[Judged]:
    """The suspected places of a folder."""
    seen: list[SuspectedPlace] = []

    def listed(cells: Any, rules: FaultRules = RULES) -> list[SuspectedPlace]:
        seen.extend(suspected_places(cells, ALL))
        return suspected_places(cells, rules)

    paths = str(folder / "flows.parquet"), str(folder / "topology.json")
    with mock.patch("llmprism.diagnose.slow_transfer.suspected_places", listed):
        report = diagnose_files([paths[0]], paths[1], with_events=False, watched_until_ns=until_ns)
    return judged(name, seen, report, answers)


def collected(seeds: range) -> Iterator[Judged]:
    """Those of the dataset, of the sources, and of random faults."""
    for case in cases():
        yield from suspects_in(case.name, case.folder, [case.truth()], case.watched_until_ns)
    for source in SOURCES:
        for flows in sorted((DATA / source).glob("*/flows.parquet")):
            truth = read_truth(flows.parent / "truth.json.gz")
            yield from suspects_in(f"{source}/{flows.parent.name}", flows.parent, [truth], None)
    for seed in seeds:
        scenario = draw_scenario(seed, faults=True)
        with played(scenario) as (folder, until_ns):
            yield from suspects_in(f"seed {seed}", folder, answers_of(scenario, folder), until_ns)


def weights_of(terms: Float64, against: Float64, right: Bool, share: Float64) -> Float64:
    """Logistic regression with a slight pull of all weights but the constant towards 0, given odds `against`."""
    pull = RIDGE * right.size / 50.0 * (np.arange(terms.shape[1]) > 0)
    found = np.zeros(terms.shape[1])
    for _ in range(100):
        chance = 1.0 / (1.0 + against * np.exp(-terms @ found))
        slope = terms.T @ (share * (right - chance)) - pull * found
        bend = (terms.T * (share * chance * (1.0 - chance))) @ terms + np.diag(pull + 1e-9)
        found += np.linalg.solve(bend, slope)
    return found


def lines_of(places: Sequence[Judged]) -> list[str]:
    """The weights, and how well they do where they were not fitted."""
    terms = np.array([one.terms for one in places])
    against = np.array([one.against for one in places])
    right = np.array([one.right for one in places])
    count = Counter((one.case, one.right) for one in places)
    share = np.array([1.0 / count[one.case, one.right] for one in places])
    fold = np.array([zlib.crc32(one.case.encode()) % FOLDS for one in places])
    chance = np.zeros(right.size)
    for part in range(FOLDS):
        inside = fold != part
        weights = weights_of(terms[inside], against[inside], right[inside], share[inside])
        chance[~inside] = 1.0 / (1.0 + against[~inside] * np.exp(-terms[~inside] @ weights))
    chance = np.clip(chance, 1.0 - RULES.trust.most_sure, RULES.trust.most_sure)
    bits = float((share * np.log(np.where(right, chance, 1.0 - chance))).sum())
    lines = [f"{right.size} suspected places, {int(right.sum())} right; log likelihood held out {bits:.1f}"]
    lines += [
        f"{name}: {value:.2f}" for name, value in zip(NAMES, weights_of(terms, against, right, share), strict=True)
    ]
    for low, high in ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.9), (0.9, 1.0)):
        inside = (chance >= low) & (chance < high)
        lines.append(f"{low} to {high}: {(share * right)[inside].sum():.1f} of {share[inside].sum():.1f} right")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(80002, 100), metavar=("FIRST", "COUNT"))
    parser.add_argument("--every", type=int, default=1, help="every so many seeds (2: even ones)")
    given = parser.parse_args()
    first, number = given.seeds
    seeds = range(first, first + number * given.every, given.every)
    print("\n".join(lines_of(list(collected(seeds)))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
