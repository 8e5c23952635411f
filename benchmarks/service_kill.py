"""Claim: 50 times `kill -9` of either process at random moments of a replay leave the results of an undisturbed run.

Half of the kills hit the service (and with it its evaluator), half the evaluator alone. The replay is as slow as this
machine's starts need it to be, so that all kills fall into it. Prints the number of kills of each and whether findings,
steps, transitions, windows and counts are equal. Takes some minutes.
Usage: python benchmarks/service_kill.py [KILLS] [CAPTURE]
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from processes import children_of
from running_service import ROOT, Service, compared

BETWEEN_S: Final = (0.05, 2.0)
"""Between two kills, once the service answers again."""

ROOM: Final = 3.0
"""The replay takes so much longer than the kills should need: starts on a busy machine vary by as much."""


LAST_WINDOW_NS: Final = 7 * 10**9
"""The last window ends at most so long before the last record: a hop, the lateness, and less than a batch."""


def run(folder: Path, capture: Path, kills: int, speed: float) -> dict[str, Any]:
    service = Service(folder, capture, WINDOWS__FIXED_HOP="true")
    service.get("/healthz")
    ended = threading.Event()

    def send() -> None:
        service.send(speed)
        ended.set()

    threading.Thread(target=send, daemon=True).start()
    chance, done = random.Random(1), {"service": 0, "evaluator": 0}
    while sum(done.values()) < kills and not ended.is_set():
        time.sleep(chance.uniform(*BETWEEN_S))
        done[_kill_one(service, evaluator=chance.random() < 0.5)] += 1
        if chance.random() < 0.7:  # some kills hit the start itself
            service.get("/healthz")
    ended.wait()
    service.until(lambda: _is_done(service.get("/api/v1/overview")), 600)
    made = service.results(0)
    service.stop()
    print(f"kills {done}", {name: len(value) for name, value in made.items()}, flush=True)
    if sum(done.values()) < kills:
        print(f"   only {sum(done.values())} of {kills} kills fell into the replay", flush=True)
    return made


def _is_done(overview: dict[str, Any]) -> bool:
    window = overview["window"]
    return bool(window) and overview["latest_ns"] - window["end_ns"] < LAST_WINDOW_NS


def _kill_one(service: Service, *, evaluator: bool) -> str:
    """Which one it was: there is no evaluator yet where the service has just been started."""
    children = children_of(service.process.pid) if evaluator else []
    if children:
        with suppress(ProcessLookupError):
            os.kill(children[0], signal.SIGKILL)
        return "evaluator"
    service.kill()
    service.start()
    return "service"


def start_s(folder: Path, capture: Path) -> float:
    """How long a service takes to answer on this machine now."""
    begun = time.monotonic()
    service = Service(folder, capture)
    service.get("/healthz")
    took = time.monotonic() - begun
    service.stop()
    return took


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    capture = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "examples" / "slow_nic"
    with tempfile.TemporaryDirectory() as folder:
        calm = run(Path(folder) / "calm", capture, 0, 8.0)
        lasts_s = (calm["windows"][0]["end_ns"] - calm["windows"][-1]["start_ns"]) / 1e9
        needed_s = kills * (sum(BETWEEN_S) / 2 + start_s(Path(folder) / "probe", capture))
        speed = min(8.0, lasts_s / (ROOM * needed_s))
        killed = run(Path(folder) / "killed", capture, kills, speed)
    sys.exit(not compared(calm, killed))


if __name__ == "__main__":
    main()
