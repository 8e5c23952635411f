"""Accuracy on the real captures: this tool's method beside the published rules, scored the same way.

    python benchmarks/captures.py [DIRECTORY]

DIRECTORY defaults to ../shared/data/captures, else examples/.
"""

from __future__ import annotations

import sys
from pathlib import Path

from llmprism.ingest import read_flows, read_topology
from llmprism.pipeline import METHODS, diagnose
from llmprism.report.json_report import document
from llmprism.score import Score, read_truth, score_report

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("jobs", "pairs", "groups", "pipes", "batches", "step F1", "period", "total", "faults", "alarms")


def captures(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("*/truth.json.gz"))


def score_capture(folder: Path, method: str) -> Score:
    flows = read_flows([str(folder / "flows.parquet")])
    report = diagnose(flows, read_topology(str(folder / "topology.json")), method=method, with_events=False)
    return score_report(document(report), read_truth(folder / "truth.json.gz"))


def row(score: Score) -> list[float | None]:
    steps, faults = score.steps, score.faults
    return [
        score.jobs.exact.recall,
        score.pairs.accuracy,
        score.structure.groups.f1,
        score.structure.pipelines.f1,
        score.structure.micro_batches.value,
        steps.boundaries.f1,
        steps.period_error_median,
        steps.total_time_error,
        faults.exact.value,
        float(faults.false_alarms),
    ]


def mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def show(name: str, values: list[float | None]) -> None:
    cells = ["-" if v is None else f"{v:.4f}" if column in ("period", "total") else f"{v:.3f}"
             for v, column in zip(values, COLUMNS, strict=True)]  # fmt: skip
    print(f"{name:<12}" + "".join(f"{cell:>9}" for cell in cells))


def main() -> None:
    default = ROOT / "../shared/data/captures"
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else default if default.exists() else ROOT / "examples"
    for method in METHODS:
        print(f"\nmethod {method}\n{'':<12}" + "".join(f"{column:>9}" for column in COLUMNS))
        rows = {folder.name: row(score_capture(folder, method)) for folder in captures(root)}
        for name, values in rows.items():
            show(name, values)
        columns = list(zip(*rows.values(), strict=True))
        show("mean", [mean(list(column)) for column in columns[:-1]] + [sum(v or 0.0 for v in columns[-1])])
    print("\nalarms: false alarms, summed in the last row; period, total: relative errors; the others: shares right")


if __name__ == "__main__":
    main()
