"""Fits the confidence of findings on members and stages to findings whose truth is known.

    python benchmarks/finding_fit.py                      dev cases, sources, random faults of 100 seeds from 3001 on
    python benchmarks/finding_fit.py --seeds 20 --jobs 2  fewer

The log odds of a finding are a weighted sum of two log odds: what its detector says, and what the layout says about who
does the same work (`diagnose.trust.calibrated`). Reports hold the result; the detector's own is computed back from it.
Prints the weights for `diagnose/rules/trust.py`, and the calibration error as it is, fitted, and held out by source.
Findings that the weights in use hide are not seen: weights move by small steps.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import exp
from pathlib import Path

import numpy as np

from calibration import DATA, SOURCES
from calibration_fit import logistic
from claims import Claim, claims_of, reliability
from llmprism.cli.diagnose import diagnose_files
from llmprism.dataset import cases
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.trust import log_odds
from llmprism.model import FindingKind
from llmprism.report.json_report import document
from llmprism.score import Truth, read_truth
from llmprism.sim import simulate
from llmprism.sim.simulation import EPOCH_NS
from robust_draw import draw_scenario
from robust_expected import answers_of

FIRST_SEED = 3001
"""Random scenarios from this seed on."""

FITTED_KINDS = (FindingKind.SLOW_GPU, FindingKind.IMBALANCE)
"""Slow places have a fit of their own (`place_fit.py`)."""


@dataclass(frozen=True)
class Said:
    """One finding: where from, how sure its detector and its job's layout were, how sure the report, and the truth."""

    part: str
    own: float
    peers: float
    confidence: float
    right: bool


def own_of(confidence: float, peers: float) -> float:
    """What the detector said, given what the report says."""
    rule = RULES.trust
    odds = (log_odds(confidence) - rule.fit_constant - rule.fit_peers * log_odds(peers)) / rule.fit_own
    return 1.0 / (1.0 + exp(-odds))


def said_in(task: tuple[str, str | int]) -> list[Said]:
    """The findings of a folder, or of a random seed with a planted fault."""
    part, place = task
    if isinstance(place, str):
        return _said(part, Path(place), [read_truth(Path(place) / "truth.json.gz")], None)
    scenario = draw_scenario(place, faults=True)
    with tempfile.TemporaryDirectory(prefix="findings-") as work:
        simulate(scenario, Path(work))
        until = EPOCH_NS + int(scenario.seconds * 1e9)
        return _said(part, Path(work), answers_of(scenario, Path(work)), until)


def _said(part: str, folder: Path, answers: Sequence[Truth], until_ns: int | None) -> list[Said]:
    paths = str(folder / "flows.parquet"), str(folder / "topology.json")
    report = diagnose_files([paths[0]], paths[1], with_events=False, watched_until_ns=until_ns)
    judged = [[c for c in claims_of(document(report), one) if c.kind == "finding"] for one in answers]
    right = [any(claims[k].right for claims in judged) for k in range(len(report.findings))]
    peers = {job.job.id: job.layout.peers_confidence for job in report.jobs}
    return [
        Said(part, own_of(finding.confidence, sure), sure, finding.confidence, true)
        for finding, true in zip(report.findings, right, strict=True)
        if finding.kind in FITTED_KINDS
        for sure in [peers[finding.job] if finding.job is not None else max(peers.values())]
    ]


def fit(said: Sequence[Said]) -> list[float]:
    terms = np.array([[1.0, log_odds(one.own), log_odds(one.peers)] for one in said])
    weights: list[float] = logistic(terms, np.array([one.right for one in said], dtype=np.float64)).tolist()
    return weights


def fitted(weights: Sequence[float], one: Said) -> float:
    odds = weights[0] + weights[1] * log_odds(one.own) + weights[2] * log_odds(one.peers)
    return min(1.0 / (1.0 + exp(-odds)), RULES.trust.most_sure)


def error(said: Sequence[Said], stated: Sequence[float]) -> float:
    claims = [Claim("finding", sure, one.right) for one, sure in zip(said, stated, strict=True)]
    return reliability(claims).error or 0.0


def lines_of(said: Sequence[Said]) -> list[str]:
    """The weights and how well they do."""
    weights = fit(said)
    held: dict[int, float] = {}
    for part in sorted({one.part for one in said}):
        others = fit([one for one in said if one.part != part])
        held |= {k: fitted(others, one) for k, one in enumerate(said) if one.part == part}
    return [
        f"{len(said)} findings, {sum(one.right for one in said)} right",
        f"fit_constant {weights[0]:.2f}, fit_own {weights[1]:.2f}, fit_peers {weights[2]:.2f}",
        f"calibration error: as it is {error(said, [one.confidence for one in said]):.3f}, "
        f"fitted {error(said, [fitted(weights, one) for one in said]):.3f}, "
        f"held out by source {error(said, [held[k] for k in range(len(said))]):.3f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100, help="random scenarios with a fault (default 100)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    arguments = parser.parse_args()
    tasks: list[tuple[str, str | int]] = [("dev", str(case.folder)) for case in cases(split="dev")]
    for source in SOURCES:
        tasks += [(source, str(path.parent)) for path in sorted((DATA / source).glob("*/flows.parquet"))]
    tasks += [("random", seed) for seed in range(FIRST_SEED, FIRST_SEED + arguments.seeds)]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        print("\n".join(lines_of([one for found in pool.map(said_in, tasks) for one in found])))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
