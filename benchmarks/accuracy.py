"""The accuracy table: every scenario, simulated, and every real capture, diagnosed by each method and scored.

    python benchmarks/accuracy.py                         all of them, the published rules against ours
    python benchmarks/accuracy.py --scenario slow-nic     one of them
    python benchmarks/accuracy.py --tool "mytool {flows} {topology} {out}" --method mine

Scores of ours are kept in `out/accuracy` and measured again only where something that they depend on has changed
(`kept_scores.py`); `--again` measures all.

A tool is any command that reads flows and topology and writes a report of the contract; `{method}` is replaced by the
method's name. What it prints is ignored, its exit code must be 0 or 2. One that fails or takes too long scores as an
empty report, and the table says so.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibration import DATA, section, with_parts_of, with_section
from kept_scores import METHODS, KeptScores
from llmprism.score import Score, read_document, read_truth, score_report
from llmprism.score.pairs import MISSING, TRAINING_KINDS
from llmprism.sim import read_scenario, scenario_names, simulate

ROOT = Path(__file__).parents[1]
OUR_TOOL = (
    f"{shlex.quote(sys.executable)} -c 'from llmprism.cli import main; main()' "
    "diagnose {flows} --topology {topology} --method {method} --json {out} --quiet"
)
EMPTY_REPORT: dict[str, Any] = {"schema": "llmprism.report/1", "jobs": [], "findings": []}
LEVELS = ("easy", "medium", "hard", "brutal")
CAPTURE = "real capture"
FOR_SPEED = ("cluster-100000",)
"""Scenarios that are made for benchmarks of speed: 70 million records take minutes to write and to read."""
CAPTURES = ROOT / "../shared/data/captures"
KEPT = ROOT / "out" / "accuracy"


@dataclass(frozen=True)
class Result:
    """One method on one scenario; `failure` says why there is no report, `records` how many were read."""

    score: Score
    seconds: float
    failure: str = ""
    records: int = 0


@dataclass(frozen=True)
class Row:
    name: str
    level: str
    seed: str
    records: int
    results: dict[str, Result]


def main() -> int:
    arguments = _arguments()
    names = arguments.scenario or [name for name in scenario_names() if name not in FOR_SPEED]
    methods = arguments.method or ["paper", "prism"]
    kept = KeptScores(KEPT, Result) if arguments.tool == OUR_TOOL and set(methods) <= METHODS.keys() else None
    measure = Measure(methods, arguments.tool, arguments.timeout, None if arguments.again else kept)
    rows = [] if arguments.scenario else _captures(measure)
    with tempfile.TemporaryDirectory(prefix="accuracy-") as work:
        for name in sorted(names, key=lambda n: (LEVELS.index(read_scenario(n).level), n)):
            rows.append(_scenario(name, measure, Path(work)))
            print(f"{name}: " + ", ".join(_one_line(m, r) for m, r in rows[-1].results.items()), flush=True)
            _clear(Path(work))
    table = _document(rows, methods)
    if arguments.out is not None and not arguments.scenario and DATA.is_dir():
        confidence = section(arguments.out.parent / "images" / "calibration.svg")
        table = with_section(table, confidence)
        if arguments.out.exists():
            table = with_parts_of(table, arguments.out.read_text(encoding="utf-8"))
    print("\n" + table)
    if arguments.out is not None:
        arguments.out.write_text(table, encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", help="only this one (may be given several times)")
    parser.add_argument("--method", action="append", help="names of the methods (default: paper and prism)")
    parser.add_argument("--tool", default=OUR_TOOL, help="command with {flows}, {topology}, {method} and {out}")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds that a tool may take on one scenario")
    parser.add_argument("--again", action="store_true", help="measure what is known too")
    parser.add_argument("--out", type=Path, help="write the table here too")
    return parser.parse_args()


@dataclass(frozen=True)
class Measure:
    """How results come about: by which methods, by which tool, and where known ones are kept (None: nowhere)."""

    methods: list[str]
    tool: str
    timeout: float
    kept: KeptScores | None

    def known(self, given: bytes) -> dict[str, Result]:
        """The results on this input that need not be measured again."""
        found = {method: self.kept.find(method, given) for method in self.methods} if self.kept else {}
        return {method: result for method, result in found.items() if result is not None}

    def results(self, given: bytes, folder: Path, work: Path) -> dict[str, Result]:
        """Each method's result on the flows in a folder."""
        results = self.known(given)
        truth = read_truth(folder / "truth.json.gz")
        for method in self.methods:
            if method not in results:
                report, seconds, failure = _run_tool(
                    self.tool, method, folder, work / f"report-{method}.json", self.timeout
                )
                records = int(report.get("input", {}).get("records", 0))
                results[method] = Result(score_report(report, truth), seconds, failure, records)
                if self.kept and not failure:
                    self.kept.keep(method, given, results[method])
        return results


def _scenario(name: str, measure: Measure, work: Path) -> Row:
    scenario = read_scenario(name)
    given = repr(scenario).encode()
    results = measure.known(given)
    if len(results) < len(measure.methods):
        simulate(scenario, work / name)
        results = measure.results(given, work / name, work / name)
    return Row(name, scenario.level, str(scenario.seed), max(one.records for one in results.values()), results)


def _captures(measure: Measure) -> list[Row]:
    """One row per capture with a truth beside the project; none where there are no captures."""
    rows = []
    for folder in sorted(CAPTURES.glob("*")) if CAPTURES.is_dir() else []:
        if (folder / "truth.json.gz").is_file():
            files = ("flows.parquet", "topology.json", "truth.json.gz")
            given = b"".join(hashlib.sha256((folder / name).read_bytes()).digest() for name in files)
            with tempfile.TemporaryDirectory(prefix="accuracy-") as work:
                results = measure.results(given, folder, Path(work))
            rows.append(Row(folder.name, CAPTURE, "-", max(one.records for one in results.values()), results))
    return rows


def _run_tool(tool: str, method: str, folder: Path, out: Path, timeout: float) -> tuple[dict[str, Any], float, str]:
    places = {"flows": folder / "flows.parquet", "topology": folder / "topology.json", "out": out}
    command = tool.format(method=method, **{key: shlex.quote(str(path)) for key, path in places.items()})
    begin = time.perf_counter()
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return EMPTY_REPORT, timeout, "took too long"
    except OSError as error:
        return EMPTY_REPORT, 0.0, str(error)
    seconds = time.perf_counter() - begin
    if done.returncode not in (0, 2):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return EMPTY_REPORT, seconds, f"exit {done.returncode}: {last[:100]}"
    try:
        return read_document(out), seconds, ""
    except Exception as error:
        return EMPTY_REPORT, seconds, str(error)[:100]


def _clear(work: Path) -> None:
    """Removes one scenario's files: all of them together are some gigabytes."""
    for folder in work.iterdir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def _percent(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def _one_line(method: str, result: Result) -> str:
    if result.failure:
        return f"{method} failed ({result.failure})"
    score = result.score
    return (
        f"{method} pairs {_percent(score.pairs.accuracy)}, step F1 {score.steps.boundaries.f1 or 0:.2f}, "
        f"faults {score.faults.exact.right} of {score.faults.exact.total}, {score.faults.false_alarms} false alarms"
    )


COLUMNS: tuple[tuple[str, Callable[[Score], str]], ...] = (
    ("jobs exact", lambda s: f"{s.jobs.exact.right}/{s.jobs.exact.expected}"),
    ("ARI", lambda s: "-" if s.jobs.adjusted_rand_index is None else f"{s.jobs.adjusted_rand_index:.2f}"),
    ("pairs", lambda s: _percent(s.pairs.accuracy)),
    ("groups", lambda s: _percent(s.structure.groups.f1)),
    ("pipelines", lambda s: _percent(s.structure.pipelines.f1)),
    ("micro-batches", lambda s: _share(s.structure.micro_batches)),
    ("step F1", lambda s: "-" if s.steps.boundaries.f1 is None else f"{s.steps.boundaries.f1:.2f}"),
    ("period error", lambda s: _percent(s.steps.period_error_median, 2)),
    ("p99", lambda s: _percent(s.steps.period_error_p99, 1)),
    ("faults found", lambda s: _share(s.faults.detected)),
    ("right kind", lambda s: _share(s.faults.kind_right)),
    ("located", lambda s: _share(s.faults.located)),
    ("false alarms", lambda s: str(s.faults.false_alarms)),
)


def _share(share: Any) -> str:
    return f"{share.right}/{share.total}" if share.total else "-"


def _document(rows: list[Row], methods: list[str]) -> str:
    lines = [
        "# Accuracy on real captures and simulated scenarios",
        "",
        f"Written by `make bench-accuracy` at commit `{_commit()}`. Each scenario runs with the seed in the table;",
        "real captures have none. [score another tool](how-to/score-another-tool.md) says what the columns mean.",
        "",
        "| scenario | level | seed | records | method | " + " | ".join(name for name, _ in COLUMNS) + " | s |",
        "|" + " --- |" * (6 + len(COLUMNS)),
    ]
    for row in rows:
        for method in methods:
            result = row.results[method]
            cells = [value(result.score) for _, value in COLUMNS]
            head = f"| {row.name} | {row.level} | {row.seed} | {row.records:,} | {method} | "
            time_cell = f"{result.seconds:.1f}" + (f" ({result.failure.replace('|', '/')})" if result.failure else "")
            lines.append(head + " | ".join(cells) + f" | {time_cell} |")
    lines += ["", "## All together", "", *_totals(rows, methods), ""]
    lines += ["## What each pair carries", "", *_confusion(rows, methods), ""]
    return "\n".join(lines)


def _confusion(rows: list[Row], methods: list[str]) -> list[str]:
    """Kinds of directed pairs, truth by report, summed over the scenarios."""
    lines = [
        "Directed pairs and the kind they carry, summed over all scenarios above: a row is the truth, a column is what",
        "the report says. `missing`: the report does not list the pair, or not that kind of it. The row `other` holds",
        "pairs that carry no traffic of these kinds (tied embeddings, for example) and were given one.",
    ]
    for method in methods:
        cells: Counter[tuple[str, str]] = Counter()
        for row in rows:
            for truth, said, count in row.results[method].score.pairs.confusion:
                cells[truth, said] += count
        columns = (*TRAINING_KINDS, "other", "unknown", MISSING)
        lines += ["", f"| {method}: truth | " + " | ".join(columns) + " | right |", "|" + " --- |" * (len(columns) + 2)]
        for truth in (*TRAINING_KINDS, "other"):
            counts = [cells[truth, said] for said in columns]
            right = _percent(cells[truth, truth] / sum(counts), 1) if sum(counts) and truth != "other" else "-"
            lines.append(f"| {truth} | " + " | ".join(f"{count:,}" for count in counts) + f" | {right} |")
    return lines


def _totals(rows: list[Row], methods: list[str]) -> list[str]:
    lines = [
        "| level | method | jobs exact | pairs | groups | pipelines | micro-batches | step F1 | period error | "
        "faults exact | false alarms per job-hour |",
        "|" + " --- |" * 11,
    ]
    for level in (CAPTURE, *LEVELS, "all"):
        chosen = [row for row in rows if level in ("all", row.level)]
        if not chosen:
            continue
        for method in methods:
            scores = [row.results[method].score for row in chosen]
            faults = [score.faults for score in scores]
            hours = sum(fault.job_hours for fault in faults)
            exact = (sum(f.exact.right for f in faults), sum(f.exact.total for f in faults))
            jobs = (sum(s.jobs.exact.right for s in scores), sum(s.jobs.exact.expected for s in scores))
            batches = sum((s.structure.micro_batches for s in scores[1:]), scores[0].structure.micro_batches)
            cells = [
                f"{jobs[0]}/{jobs[1]}",
                _percent(_mean([s.pairs.accuracy for s in scores]), 1),
                _percent(_mean([s.structure.groups.f1 for s in scores]), 1),
                _percent(_mean([s.structure.pipelines.f1 for s in scores]), 1),
                _share(batches),
                f"{_mean([s.steps.boundaries.f1 for s in scores]) or 0:.3f}",
                _percent(_mean([s.steps.period_error_median for s in scores]), 2),
                f"{exact[0]}/{exact[1]}",
                f"{sum(f.false_alarms for f in faults) / hours:.2f}" if hours else "-",
            ]
            lines.append(f"| {level} | {method} | " + " | ".join(cells) + " |")
    return lines


def _mean(values: list[float | None]) -> float | None:
    """Mean over the scenarios where the figure exists."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
