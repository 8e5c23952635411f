"""The commands as users run them: the examples of every `--help`, and what they leave behind."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from llmprism.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]


def llmprism(*arguments, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "llmprism", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def examples_of(command):
    shown = llmprism(command, "--help").stdout
    return re.findall(rf"^ +(llmprism {command} .*|llmprism {command})$", shown, re.MULTILINE)


@pytest.mark.parametrize("command", ["diagnose", "demo"])
def test_the_examples_of_the_help_run(command, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    examples = examples_of(command)
    assert examples
    for example in examples:
        done = llmprism(*shlex.split(example)[1:], cwd=tmp_path)
        assert done.returncode in (0, 2), f"{example}: {done.stderr}"
        assert done.stderr == ""


def test_every_command_shows_an_example():
    for entry in COMMANDS:
        assert f"llmprism {entry.name}" in llmprism(entry.name, "--help").stdout


def test_diagnose_writes_every_form(tmp_path):
    capture = ROOT / "examples" / "slow_nic"
    done = llmprism(
        "diagnose", str(capture / "flows.parquet"), "-t", str(capture / "topology.json"), "--json", "r.json", "--html",
        "r.html", "--trace", "r.pftrace", "--timeline", "r.parquet", "--fail-on", "slow_nic", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Slow NIC" in done.stdout
    document = json.loads((tmp_path / "r.json").read_text())
    assert [finding["where"]["id"] for finding in document["findings"]] == ["10.13.0.1"]
    assert {path.name for path in tmp_path.iterdir()} == {"r.json", "r.html", "r.pftrace", "r.parquet"}


def test_the_same_input_gives_the_same_bytes():
    flows = str(ROOT / "examples" / "crash" / "flows.parquet")
    first, second = (llmprism("diagnose", flows, "--json", "-").stdout for _ in range(2))
    assert first == second != ""


def test_a_missing_file_is_one_clear_line():
    done = llmprism("diagnose", "no-such-file.parquet")
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(r"error\[\w+\]: .*no-such-file.parquet.*\n", done.stderr)
