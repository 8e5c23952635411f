#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md and writes their output under them.

A block of `console` holds commands (`$ ...`), each followed by what it prints. Commands run one after the other in a
folder of their own, which sees the bundled captures as `examples`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def rendered(text: str, run: Callable[[str], str]) -> str:
    """The page with what `run` returns for each command in place of what stood there.

    >>> print(rendered("```console\\n$ date\\nyesterday\\n```", lambda command: f"{command}: today\\n"))
    ```console
    $ date
    date: today
    ```
    """

    def block(match: re.Match[str]) -> str:
        commands = [line.removeprefix("$ ") for line in match[1].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"$ {command}\n{run(command)}" for command in commands) + "```"

    return _BLOCK.sub(block, text)


def run_in(folder: Path) -> Callable[[str], str]:
    """Runs commands in a folder; what they print must be standard output, and they must succeed."""
    (folder / "examples").symlink_to(ROOT / "examples")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}

    def run(command: str) -> str:
        done = subprocess.run(
            shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode or done.stderr:
            raise RuntimeError(f"{command}: exit code {done.returncode}\n{done.stderr}")
        return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())

    return run


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(rendered(PAGE.read_text(), run_in(Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
