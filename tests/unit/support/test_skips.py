"""Skipped tests are summed up by reason; on CI only the machine may be the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

SUITE = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_one(number):
    pytest.skip("{reason}")

def test_other():
    pass
"""


def run(folder: Path, reason: str, *, ci: bool) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (folder / "test_suite.py").write_text(SUITE.format(reason=reason))
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "CI": "1" if ci else ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("ci", [True, False])
def test_reasons_are_counted_and_the_machines_are_accepted(tmp_path, ci):
    done = run(tmp_path, "softflowd is not installed: scripts/install-test-deps installs it", ci=ci)
    assert "   3 softflowd is not installed" in done.stdout
    assert done.returncode == 0


def test_a_missing_package_fails_on_ci_alone(tmp_path):
    assert run(tmp_path, "needs llmprism[serve]", ci=False).returncode == 0
    done = run(tmp_path, "needs llmprism[serve]", ci=True)
    assert done.returncode == 1
    assert "may not be skipped: needs llmprism[serve]" in done.stdout
