"""A short run of the lab over gloo, from the fabric to the score; skipped where the machine does not allow it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmprism.score import read_truth, score_report
from support.perfect_report import truth_as_report

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("LAB_PYTHON") or sys.executable
TAG = "lpt"


def _obstacle() -> str:
    """Why the lab cannot run here; empty where it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "the lab needs Linux and root"
    missing = [tool for tool in ("ip", "tc", "tcpdump", "ethtool") if shutil.which(tool) is None]
    if missing:
        return f"the lab needs {', '.join(missing)}"
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode:
        return "PyTorch is not installed (make lab installs it; LAB_PYTHON names a Python that has it)"
    made = subprocess.run(["ip", "netns", "add", f"{TAG}probe"], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", f"{TAG}probe"], capture_output=True, check=False)
    return "" if made.returncode == 0 else "network namespaces cannot be made here"


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    if reason := _obstacle():
        pytest.skip(reason)


def _namespaces() -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(TAG)]


def _command(out: Path) -> list[str]:
    return [sys.executable, "-m", "lab", "run", "gloo-short", str(out), "--tag", TAG]


def test_a_short_run_gives_a_labelled_capture(tmp_path: Path) -> None:
    done = subprocess.run(
        _command(tmp_path / "case"), cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    truth = read_truth(tmp_path / "case" / "truth.json.gz")
    assert [fault.kind.value for fault in truth.faults] == ["slow_gpu"]
    assert len(truth.jobs[0].members) == 4
    assert score_report(truth_as_report(truth), truth).steps.boundaries.f1 == 1.0
    report = tmp_path / "report.json"
    tool = [sys.executable, "-c", "from llmprism.cli import main; main()", "diagnose"]
    files = [str(tmp_path / "case" / "flows.parquet"), "--topology", str(tmp_path / "case" / "topology.json")]
    subprocess.run([*tool, *files, "--json", str(report), "--quiet"], cwd=ROOT, check=True, timeout=120)
    score = score_report(json.loads(report.read_text()), truth)
    assert score.jobs.exact.right == 1
    assert _namespaces() == []


def test_ctrl_c_removes_everything(tmp_path: Path) -> None:
    process = subprocess.Popen(_command(tmp_path / "case"), cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(_namespaces()) < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(_namespaces()) == 5
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    assert _namespaces() == []
    assert not (tmp_path / "case").exists()
