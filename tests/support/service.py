"""A real service in a process of its own, and what tests ask of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PATIENCE = 4
"""How many times longer a machine may take that compiles or runs other tests at the same time."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def clock_from_a_minute() -> Callable[[], int]:
    """The clock, set back to the last full minute. Windows end at multiples of four seconds: what is played on this
    clock is cut into the same windows whenever the test runs."""
    behind = time.time_ns() % 60_000_000_000
    return lambda: time.time_ns() - behind


class RunningService:
    """`llmprism serve` on a free port. `settings` are environment overrides, `SECTION__KEY`."""

    def __init__(self, folder: Path, *arguments: str, **settings: object) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.arguments = arguments
        self.environment = {f"LLMPRISM_{key}": str(value) for key, value in settings.items()}
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "service.log"
        self.data = folder / "data"

    def start(self) -> RunningService:
        command = [sys.executable, "-m", "llmprism", "serve", "--port", str(self.port)]
        command += ["--data", str(self.data), *self.arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LLMPRISM_LOG__FORMAT": "text"}
        environment["LLMPRISM_WINDOWS__COMPILE_AHEAD"] = "false"  # tests share the machine with each other
        environment |= self.environment
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stderr=log, stdout=log)
        self.until(lambda: self.get("/healthz"), 60)
        return self

    def kill(self) -> None:
        """As `kill -9` does: no chance to tidy up."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.loads(answer.read())

    def text(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return str(answer.read().decode())

    def until(self, check: Any, seconds: float) -> Any:
        """The first true answer of `check`; fails with the service's log after so many seconds of a machine that is not
        busy otherwise."""
        deadline = time.monotonic() + PATIENCE * seconds
        while time.monotonic() < deadline:
            try:
                found = check()
                if found:
                    return found
            except OSError:
                pass
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds} s; the log ends: {self.log.read_text()[-2000:]}")
