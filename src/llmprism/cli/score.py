"""`llmprism score REPORT TRUTH`: how much of the truth a report finds, and how much of what it says is true."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from llmprism.score import Score

__all__ = ["score"]


def score(
    report: Annotated[Path, typer.Argument(help="Report of `llmprism diagnose --json`, or of any tool in that form.")],
    truth: Annotated[Path, typer.Argument(help="truth.json.gz of a capture or of `llmprism simulate`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole score as JSON.")] = False,
) -> None:
    """Score a report against the truth.

    Example: llmprism score report.json truth.json.gz
    """
    from rich.console import Console

    from llmprism.score import read_document, read_truth, score_report

    result = score_report(read_document(report), read_truth(truth))
    if as_json:
        sys.stdout.write(json.dumps(result.to_dict(), indent=2, sort_keys=True) + "\n")
        return
    console = Console()
    console.print(_summary(result))
    console.print(_confusion(result))


def _summary(result: Score) -> Table:
    from rich.table import Table

    values = result.to_dict()
    table = Table("what", "score", "detail", title="Score of the report")
    table.columns[1].justify = "right"
    table.add_row("jobs exact", _percent(values["jobs"]["recall"]), _counts(values["jobs"]))
    table.add_row("jobs, adjusted Rand index", _number(values["jobs"]["adjusted_rand_index"]), "")
    table.add_row("pairs right", _percent(values["pairs"]["accuracy"]), "")
    for kind, part in values["pairs"]["kinds"].items():
        detail = f"precision {_percent(part['precision'])}, recall {_percent(part['recall'])}"
        table.add_row(f"  {kind}", _percent(part["f1"]), detail)
    for name in ("groups", "pipelines"):
        table.add_row(f"{name} exact", _percent(values[name]["recall"]), _counts(values[name]))
    for name in ("micro_batches", "degrees", "schedule", "sharding", "state"):
        part = values[name]
        table.add_row(name.replace("_", "-"), _percent(part["value"]), f"{part['right']} of {part['total']}")
    steps = values["steps"]
    table.add_row("step F1", _number(steps["f1"]), _counts(steps))
    periods = f"p99 {_percent(steps['period_error_p99'])}, {steps['periods']} periods"
    table.add_row("step period, median error", _percent(steps["period_error_median"], 3), periods)
    table.add_row("total time, error", _percent(steps["total_time_error"], 3), "")
    faults = values["faults"]
    for name in ("detected", "kind_right", "located", "exact"):
        part = faults[name]
        table.add_row(
            f"faults {name.replace('_', ' ')}", _percent(part["value"]), f"{part['right']} of {part['total']}"
        )
    alarms = f"{faults['false_alarms']} of {faults['findings']} findings, {faults['repeats']} repeats"
    table.add_row("false alarms per job-hour", _number(faults["false_alarms_per_job_hour"]), alarms)
    return table


def _confusion(result: Score) -> Table:
    from rich.table import Table

    cells = {(truth, report): count for truth, report, count in result.pairs.confusion}
    columns = sorted({report for _, report in cells})
    table = Table("truth \\ report", *columns, title="Pairs")
    for truth in sorted({truth for truth, _ in cells}):
        table.add_row(truth, *(str(cells.get((truth, report), 0)) for report in columns))
    return table


def _percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _counts(part: dict[str, Any]) -> str:
    return f"{part['right']} of {part['expected']}, {part['claimed']} claimed"
