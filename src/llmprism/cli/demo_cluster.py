"""`llmprism serve --demo`: a simulated cluster with faults, watched live.

A scenario of the simulator is made once, then played over and over with the clock's own times. Its first part is sent
at once as history, so that jobs and steps show within seconds; the faults follow in real time.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from llmprism.service.config import Config

__all__ = ["SCENARIO", "serve_demo"]

LEAD_S: Final = 30
"""Sent at once: enough for jobs to be believed and for a baseline of their step times."""

SCENARIO: Final = """
title = "Four tenants: a slow NIC that recovers, a slow GPU, a hang"
seconds = 110
seed = 7

[cluster]
servers = 6

[[job]]
name = "pretrain"
pp = 4
dp = 4
micro_batches = 8

[[job]]
name = "finetune"
dp = 8
compute_ms = 60

[[job]]
name = "longcontext"
pp = 2
dp = 4
compute_ms = 40

[[job]]
name = "research"
pp = 2
dp = 4
compute_ms = 50

[[fault]]
kind = "slow_nic"
job = "pretrain"
rank = 5
at_s = 36
for_s = 30
factor = 8.0

[[fault]]
kind = "slow_gpu"
job = "longcontext"
rank = 3
at_s = 45
factor = 3.0

[[fault]]
kind = "hang"
job = "research"
rank = 6
at_s = 60
"""


def serve_demo(settings: Config) -> None:
    """Runs until interrupted; everything it wrote is gone afterwards."""
    from llmprism.cli.serve import needs_serve_extra

    with needs_serve_extra():
        from llmprism.service.config import LogSettings, StoreSettings, TopologySettings
        from llmprism.service.logs import set_up_logs
        from llmprism.service.runner import serve

    set_up_logs(LogSettings(level="error", format="text"))
    with tempfile.TemporaryDirectory(prefix="llmprism-demo-") as folder:
        typer.echo("simulating a cluster of 48 GPUs with four jobs and three faults …", err=True)
        made = Path(folder) / "cluster"
        _simulate(made)
        config = replace(
            settings,
            store=StoreSettings(folder=str(Path(folder) / "data")),
            topology=TopologySettings(file=str(made / "topology.json")),
            log=LogSettings(level="error", format="text"),
        )

        def ready(address: str) -> None:
            typer.echo(f"open {address}/ (Ctrl-C ends the demo)", err=True)
            token = None
            threading.Thread(target=_play, args=(made, address, token), daemon=True, name="player").start()

        serve(config, ready=ready)


def _simulate(folder: Path) -> None:
    from llmprism.sim.run import simulate
    from llmprism.sim.scenario import parse_scenario

    simulate(parse_scenario("demo", SCENARIO), folder)


def _play(folder: Path, address: str, token: str | None) -> None:
    from llmprism.errors import LLMPrismError
    from llmprism.service.player import HttpTarget, opened, play

    try:
        target = HttpTarget(address, "demo", token)
        with opened([str(folder / "flows.parquet")]) as capture:
            number = play(capture, target, lead_ns=LEAD_S * 10**9)
            while True:
                time.sleep(20)  # the hang and the end of the others show before all start again
                number = play(capture, target, first_number=number)
    except LLMPrismError as error:
        sys.stderr.write(f"demo: {error}\n")
