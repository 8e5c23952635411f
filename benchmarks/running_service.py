"""`llmprism serve` in a process of its own, for the benchmarks that disturb it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmprism.service.player import HttpTarget, opened, play

ROOT = Path(__file__).parents[1]
WHEN = ("clock", "exporters", "repeated_requests")
"""What of a source depends on when its records came and how often they were sent."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """Started at once. `settings` are environment overrides, `SECTION__KEY`; time passes with the records only."""

    def __init__(self, folder: Path, capture: Path | None, *arguments: str, **settings: object) -> None:
        self.capture = capture
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [sys.executable, "-m", "llmprism", "serve", "--port", str(self.port)]
        self.command += ["--data", str(folder), *arguments]
        self.command += ["-t", str(capture / "topology.json")] if capture is not None else []
        settings = {
            "WINDOWS__IDLE_AFTER_S": "1e9", "WINDOWS__COMPILE_AHEAD": "false", "LOG__LEVEL": "error", **settings,
        }  # fmt: skip
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self.environment |= {f"LLMPRISM_{key}": str(value) for key, value in settings.items()}
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, env=self.environment, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def send(self, speed: float) -> None:
        """Plays the whole capture; batches that are turned away are sent again."""
        assert self.capture is not None
        with opened([str(self.capture / "flows.parquet")]) as records:
            play(records, HttpTarget(self.url, "bench", retries=10_000), speed=speed, keep_times=True)

    def get(self, path: str) -> Any:
        for _ in range(600):
            try:
                with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                    return json.loads(answer.read())
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the service does not answer")

    def ready(self) -> tuple[bool, list[str]]:
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=30) as answer:
                document = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            document = json.loads(error.read())
        except OSError as error:
            return False, [str(error)]
        return bool(document["ready"]), list(document["troubles"])

    def until(self, check: Callable[[], Any], seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = check()
            if found:
                return found
            time.sleep(0.2)
        raise SystemExit(f"not within {seconds} s")

    def results(self, last_ns: int) -> dict[str, Any]:
        """All results once the window that ends here has been made (0: once none has been made for a while)."""
        before, still = -1, 0
        windows: list[dict[str, Any]] = []
        while still < 8:
            windows = self.get("/api/v1/windows?limit=1000")["items"]
            if windows and last_ns and windows[0]["end_ns"] >= last_ns:
                break
            still = still + 1 if windows and len(windows) == before else 0
            before = len(windows)
            time.sleep(2)
        return left_behind(self.get, windows, WHEN)


def left_behind(get: Callable[[str], Any], windows: list[dict[str, Any]], when: tuple[str, ...]) -> dict[str, Any]:
    """Everything that a run leaves behind, with these windows, except when and by whom it was computed: `when` are the
    keys of sources that depend on it."""
    hidden = ("wall_ns", "took_ms")
    jobs = get("/api/v1/jobs")["items"]
    return {
        "findings": get("/api/v1/findings")["items"],
        "jobs": jobs,
        "steps": [get(f"/api/v1/jobs/{job['id']}/steps")["items"] for job in jobs],
        "transitions": get("/api/v1/transitions")["items"],
        "windows": [{key: value for key, value in one.items() if key not in hidden} for one in windows],
        "sources": [
            {key: value for key, value in one.items() if key not in when} for one in get("/api/v1/sources")["items"]
        ],
    }


def compared(calm: dict[str, Any], disturbed: dict[str, Any], but: tuple[str, ...] = ()) -> bool:
    """Prints which results differ; `but` need not be equal."""
    different = [name for name in calm if name not in but and calm[name] != disturbed[name]]
    print("   results " + (f"DIFFERENT in {', '.join(different)}" if different else "equal"), flush=True)
    for name in different:
        print(f"   {name}: {calm[name]} | {disturbed[name]}"[:2000], flush=True)
    return not different
