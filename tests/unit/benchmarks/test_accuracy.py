"""The accuracy table can score any command: here one that writes an empty report, and one that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def table(tool: str, out: Path) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / "accuracy.py"), "--scenario", "slow-nic", "--method", "mine"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([*command, "--tool", tool, "--out", str(out)], check=True, env=environment, capture_output=True)
    return out.read_text()


def test_an_empty_report_scores_zero_and_a_failing_tool_is_named(tmp_path: Path) -> None:
    script = tmp_path / "tool.py"
    script.write_text(
        "import json, sys\n"
        "json.dump({'schema': 'llmprism.report/1', 'jobs': [], 'findings': []}, open(sys.argv[1], 'w'))\n"
        "sys.exit(2)\n"
    )
    written = table(f"{sys.executable} {script} {{out}}", tmp_path / "one.md")
    row = next(line for line in written.splitlines() if line.startswith("| slow-nic"))
    assert "| 0/1 |" in row
    assert "seed" in written
    failed = table(f"{sys.executable} -c 'raise SystemExit(1)'", tmp_path / "two.md")
    assert "exit 1" in failed
