"""Parameters per GPU as read from the traffic, against the truth of the captures.

    python benchmarks/job_facts.py [DIRECTORY ...]

A DIRECTORY holds captures (folders with flows.parquet, topology.json and truth.json.gz); the default is those of
../shared/data whose truth has `parameters_per_rank`, else examples/. For each job: `right` where the most plausible
size is within 5 %, `rival` where one of the alternatives is, `wrong` where none is, `none` where no size is given,
`lost` where the job was not recognised.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmprism.ingest import read_flows, read_topology
from llmprism.pipeline import diagnose
from llmprism.report.json_report import document

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("captures", "captures_more", "frameworks", "production")
TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one job; `ratio` is the most plausible size over the truth, `confidence` that of the size."""

    job: str
    verdict: str
    ratio: float | None = None
    confidence: float | None = None


def captures(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("*/truth.json.gz"))


def outcomes(folder: Path) -> Iterator[Outcome]:
    """One for each job of the capture whose parameters are known."""
    with gzip.open(folder / "truth.json.gz", "rt", encoding="utf-8") as file:
        truth = json.load(file)
    flows = read_flows([str(folder / "flows.parquet")])
    jobs = document(diagnose(flows, read_topology(str(folder / "topology.json")), with_events=False))["jobs"]
    for index, job in enumerate(truth["jobs"]):
        if job.get("parameters_per_rank"):
            found = next((one for one in jobs if set(one["members"]) == set(job["members"])), None)
            yield judged(f"{folder.parent.name}/{folder.name}/{index}", job, found)


def judged(name: str, truth: dict[str, Any], found: dict[str, Any] | None) -> Outcome:
    """The truth is of the first rank, or of one rank of every stage."""
    if found is None:
        return Outcome(name, "lost")
    facts = found["facts"]
    if facts["parameters_per_gpu"] is None:
        return Outcome(name, "none")
    wanted = truth["parameters_per_rank"]
    stage = stage_of(found, truth["members"][0]) if isinstance(wanted, int) else None
    ratios = [ratio(one["parameters_per_gpu"], wanted, stage) for one in (facts, *facts["alternatives"])]
    close = [abs(one - 1.0) <= TOLERANCE for one in ratios]
    verdict = "right" if close[0] else "rival" if any(close) else "wrong"
    return Outcome(name, verdict, ratios[0], facts["confidence"])


def stage_of(found: dict[str, Any], address: str) -> int:
    return next((line.index(address) for line in found["pipelines"] if address in line), 0)


def ratio(sizes: list[int], wanted: int | list[int], stage: int | None) -> float:
    """Of the stage, or of the stage that is farthest off."""
    if isinstance(wanted, int):
        return sizes[stage or 0] / wanted
    if len(sizes) != len(wanted):
        return sum(sizes) / sum(wanted)
    return max((size / true for size, true in zip(sizes, wanted, strict=True)), key=lambda one: abs(one - 1.0))


def main() -> int:
    roots = [Path(name) for name in sys.argv[1:]]
    shared = [ROOT / "../shared/data" / source for source in SOURCES]
    roots = roots or [root for root in shared if root.is_dir()] or [ROOT / "examples"]
    counts: Counter[str] = Counter()
    for folder in (folder for root in roots for folder in captures(root)):
        for one in outcomes(folder):
            counts[one.verdict] += 1
            figures = "" if one.ratio is None else f"{one.ratio:8.3f} of the truth, confidence {one.confidence:.2f}"
            print(f"{one.job:40} {one.verdict:6} {figures}", flush=True)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in ("right", "rival", "wrong", "none", "lost")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
