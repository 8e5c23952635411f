"""Accuracy on the open dataset, per framework, layout and fault: this tool's method and the published rules.

    python benchmarks/accuracy_dataset.py [--split dev|test] [--case NAME]... [--out FILE]

Every case is read once and diagnosed by each method in this process; a method that fails scores nothing there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from llmprism.dataset import Case, load
from llmprism.errors import LLMPrismError
from llmprism.pipeline import diagnose
from llmprism.report.json_report import document
from llmprism.score import Score, score_report

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("paper", "prism")
HEALTHY = "none (healthy)"
EMPTY: dict[str, object] = {"schema": "llmprism.report/1", "jobs": [], "findings": []}


@dataclass(frozen=True)
class Result:
    case: Case
    scores: dict[str, Score]
    seconds: dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=("dev", "test"), help="only this split (default: both)")
    parser.add_argument("--case", action="append", help="only this case (may be given several times)")
    parser.add_argument("--method", action="append", choices=METHODS, help="only this method")
    parser.add_argument("--out", type=Path, help="write the tables here too")
    arguments = parser.parse_args()
    methods = tuple(arguments.method or METHODS)
    results = list(_results(arguments.split, arguments.case, methods))
    text = tables(results, methods)
    print("\n" + text)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")
    return 0


def _results(split: str | None, names: list[str] | None, methods: tuple[str, ...]) -> Iterable[Result]:
    for case, flows, topology, truth in load(split):
        if names and case.name not in names:
            continue
        scores, seconds = {}, {}
        for method in methods:
            begin = time.perf_counter()
            try:
                watched = case.watched_until_ns
                found = diagnose(flows, topology, method=method, with_events=False, watched_until_ns=watched)
                report = document(found)
            except LLMPrismError as error:
                print(f"{case.name}: {method} failed: {error}", flush=True)
                report = dict(EMPTY)
            scores[method], seconds[method] = score_report(report, truth), time.perf_counter() - begin
        print(f"{case.name}: " + ", ".join(f"{m} {_line(scores[m])}" for m in methods), flush=True)
        yield Result(case, scores, seconds)


def _line(score: Score) -> str:
    faults = score.faults
    return (
        f"pairs {_percent(score.pairs.accuracy)}, step F1 {score.steps.boundaries.f1 or 0:.2f}, "
        f"faults {faults.exact.right}/{faults.exact.total}, {faults.false_alarms} false alarms"
    )


def tables(results: list[Result], methods: tuple[str, ...]) -> str:
    lines = [
        "# Accuracy on the open dataset",
        "",
        f"Written by `make bench-accuracy` at commit `{_commit()}` on the {len(results)} cases of the",
        "[dataset](reference/dataset.md). Shares and F1 are means over the cases that have the figure; the others are",
        "counted. A fault is exact when one finding has its kind and its place. `paper` are the published rules.",
    ]
    kinds: tuple[tuple[str, Callable[[Case], Iterable[str]]], ...] = (
        ("split", lambda case: (case.split,)),
        ("backend", lambda case: (case.backend,)),
        ("framework", lambda case: case.frameworks),
        ("layout", lambda case: case.layouts),
        ("fault", lambda case: sorted(set(case.faults)) or (HEALTHY,)),
    )
    for title, labels in kinds:
        lines += ["", f"## By {title}", "", *_grouped(results, methods, title, labels)]
    lines += ["", "## Every case", "", *_each(results, methods), ""]
    return "\n".join(lines)


def _grouped(
    results: list[Result], methods: tuple[str, ...], title: str, labels: Callable[[Case], Iterable[str]]
) -> list[str]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        for label in labels(result.case):
            groups.setdefault(label, []).append(result)
    if title == "split":
        groups["both"] = results
    head = [title, "cases", "method", *(name for name, _ in COLUMNS)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for label, members in sorted(groups.items()):
        for method in methods:
            scores = [result.scores[method] for result in members]
            cells = [label, str(len(members)), method, *(value(scores) for _, value in COLUMNS)]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _each(results: list[Result], methods: tuple[str, ...]) -> list[str]:
    head = ["case", "split", "method", *(name for name, _ in COLUMNS), "s"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for result in results:
        for method in methods:
            figures = [value([result.scores[method]]) for _, value in COLUMNS]
            cells = [result.case.name, result.case.split, method, *figures, f"{result.seconds[method]:.1f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def _ratio(parts: Iterable[tuple[int, int]]) -> str:
    pairs = list(parts)
    right, total = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return f"{right}/{total}" if total else "-"


def _step_f1(scores: list[Score]) -> str:
    value = _mean(score.steps.boundaries.f1 for score in scores)
    return "-" if value is None else f"{value:.3f}"


COLUMNS: tuple[tuple[str, Callable[[list[Score]], str]], ...] = (
    ("jobs exact", lambda scores: _ratio((s.jobs.exact.right, s.jobs.exact.expected) for s in scores)),
    ("pairs", lambda scores: _percent(_mean(s.pairs.accuracy for s in scores))),
    ("groups", lambda scores: _percent(_mean(s.structure.groups.f1 for s in scores))),
    ("pipelines", lambda scores: _percent(_mean(s.structure.pipelines.f1 for s in scores))),
    (
        "micro-batches",
        lambda scores: _ratio((s.structure.micro_batches.right, s.structure.micro_batches.total) for s in scores),
    ),
    ("step F1", _step_f1),
    ("period error", lambda scores: _percent(_mean(s.steps.period_error_median for s in scores), 2)),
    ("faults found", lambda scores: _ratio((s.faults.detected.right, s.faults.detected.total) for s in scores)),
    ("right kind", lambda scores: _ratio((s.faults.kind_right.right, s.faults.kind_right.total) for s in scores)),
    ("exact", lambda scores: _ratio((s.faults.exact.right, s.faults.exact.total) for s in scores)),
    ("false alarms", lambda scores: str(sum(s.faults.false_alarms for s in scores))),
)


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
