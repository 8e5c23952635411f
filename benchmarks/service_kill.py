"""Claim: `kill -9` at 50 random moments during a replay leaves the same results as an undisturbed run.

Prints the number of kills and whether findings, steps, transitions, windows and counts are equal. Takes some minutes.
Usage: python benchmarks/service_kill.py [KILLS] [CAPTURE]
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from llmprism.service.player import HttpTarget, opened, play

ROOT = Path(__file__).parents[1]


class Service:
    def __init__(self, folder: Path, capture: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [sys.executable, "-m", "llmprism", "serve", "--port", str(self.port)]
        self.command += ["--data", str(folder), "-t", str(capture / "topology.json")]
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LLMPRISM_WINDOWS__IDLE_AFTER_S": "1e9"}
        self.environment["LLMPRISM_LOG__LEVEL"] = "error"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, env=self.environment, stderr=subprocess.DEVNULL)

    def get(self, path: str) -> Any:
        for _ in range(600):
            try:
                with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                    return json.loads(answer.read())
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the service does not answer")

    def results(self, last_ns: int) -> dict[str, Any]:
        """All results once the window that ends here has been made (0: once none has been made for a while)."""
        before, still = -1, 0
        while still < 8:
            windows = self.get("/api/v1/windows?limit=1000")["items"]
            if windows and last_ns and windows[0]["end_ns"] >= last_ns:
                break
            still = still + 1 if windows and len(windows) == before else 0
            before = len(windows)
            time.sleep(2)
        hidden = ("wall_ns", "took_ms")
        jobs = self.get("/api/v1/jobs")["items"]
        return {
            "findings": self.get("/api/v1/findings")["items"],
            "jobs": jobs,
            "steps": [self.get(f"/api/v1/jobs/{job['id']}/steps")["items"] for job in jobs],
            "transitions": self.get("/api/v1/transitions")["items"],
            "windows": [{key: value for key, value in one.items() if key not in hidden} for one in windows],
            "sources": self.get("/api/v1/sources")["items"],
        }


def run(folder: Path, capture: Path, kills: int, speed: float, last_ns: int = 0) -> dict[str, Any]:
    service = Service(folder, capture)
    service.get("/healthz")
    ended = threading.Event()

    def send() -> None:
        with opened([str(capture / "flows.parquet")]) as records:
            play(records, HttpTarget(service.url, "bench", retries=10_000), speed=speed, keep_times=True)
        ended.set()

    threading.Thread(target=send, daemon=True).start()
    chance, done = random.Random(1), 0
    while done < kills and not ended.is_set():
        time.sleep(chance.uniform(0.05, 2.0))
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        service.start()
        done += 1
        if chance.random() < 0.7:  # some kills hit the start itself
            service.get("/healthz")
    ended.wait()
    made = service.results(last_ns)
    service.process.terminate()
    service.process.wait()
    print(f"{done} kills", {name: len(value) for name, value in made.items()}, flush=True)
    return made


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    capture = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "examples" / "slow_nic"
    with tempfile.TemporaryDirectory() as folder:
        calm = run(Path(folder) / "calm", capture, 0, 8.0)
        killed = run(Path(folder) / "killed", capture, kills, 0.17, calm["windows"][0]["end_ns"])
    for name in calm:
        print(f"{name}: {'equal' if calm[name] == killed[name] else 'DIFFERENT'}")
    sys.exit(calm != killed)


if __name__ == "__main__":
    main()
