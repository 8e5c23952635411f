"""Claim: `kill -9` at 50 random moments during a replay leaves the same results as an undisturbed run.

Prints the number of kills and whether findings, steps, transitions, windows and counts are equal. Takes some minutes.
Usage: python benchmarks/service_kill.py [KILLS] [CAPTURE]
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from running_service import ROOT, Service, compared


def run(folder: Path, capture: Path, kills: int, speed: float, last_ns: int = 0) -> dict[str, Any]:
    service = Service(folder, capture)
    service.get("/healthz")
    ended = threading.Event()

    def send() -> None:
        service.send(speed)
        ended.set()

    threading.Thread(target=send, daemon=True).start()
    chance, done = random.Random(1), 0
    while done < kills and not ended.is_set():
        time.sleep(chance.uniform(0.05, 2.0))
        service.kill()
        service.start()
        done += 1
        if chance.random() < 0.7:  # some kills hit the start itself
            service.get("/healthz")
    ended.wait()
    made = service.results(last_ns)
    service.stop()
    print(f"{done} kills", {name: len(value) for name, value in made.items()}, flush=True)
    return made


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    capture = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "examples" / "slow_nic"
    with tempfile.TemporaryDirectory() as folder:
        calm = run(Path(folder) / "calm", capture, 0, 8.0)
        killed = run(Path(folder) / "killed", capture, kills, 0.17, calm["windows"][0]["end_ns"])
    sys.exit(not compared(calm, killed))


if __name__ == "__main__":
    main()
