from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from llmprism.cli.score import score

APP = typer.Typer()
APP.command()(score)


def test_prints_a_table_and_json(tmp_path: Path) -> None:
    job = {
        "id": "a",
        "members": ["x", "y"],
        "layout": {"tp": 1, "pp": 1, "dp": 2},
        "groups": [{"kind": "dp", "members": ["x", "y"]}],
        "pipelines": [],
        "pairs": [{"src": "x", "dst": "y", "kind": "dp"}, {"src": "y", "dst": "x", "kind": "dp"}],
        "steps": [{"index": i, "start_ns": i * 10**9, "end_ns": (i + 1) * 10**9} for i in range(5)],
    }
    report, truth = tmp_path / "report.json", tmp_path / "truth.json"
    report.write_text(json.dumps({"schema": "llmprism.report/1", "jobs": [job], "findings": []}))
    truth.write_text(json.dumps({"schema": "llmprism.truth/1", "jobs": [job], "faults": []}))
    table = CliRunner().invoke(APP, [str(report), str(truth)])
    assert table.exit_code == 0, table.output
    assert "jobs exact" in table.output
    assert "100.0 %" in table.output
    printed = CliRunner().invoke(APP, [str(report), str(truth), "--json"])
    assert json.loads(printed.output)["steps"]["f1"] == 1.0
