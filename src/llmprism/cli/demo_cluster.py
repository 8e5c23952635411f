"""`llmprism serve --demo`: a simulated cluster on a bad day, watched live.

Four tenants train on it; one gets a slow NIC, one hangs, one loses a rank and comes back, and a file server becomes
slow. The first part is sent at once as history, so that jobs and their usual step times show within seconds; the faults
follow in real time, and after a pause everything starts again.
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

__all__ = ["make_cluster", "serve_demo"]

LEAD_S: Final = 44
"""Sent at once: enough for jobs to be believed and for a baseline of their step times."""

PAUSE_S: Final = 45
"""Between two rounds: longer than the silence after which a job has ended."""

SCENARIO: Final = """
title = "A small cluster on a bad day"
seconds = 240
seed = 7

[cluster]
servers = 20
gpus_per_server = 4
servers_per_pod = 10
spines = 2
storage_nodes = 2
storage_gbps = 200

[[job]]
name = "pretrain"
tp = 4
pp = 2
dp = 3
micro_batches = 6
compute_ms = 40
gradient_mb = 120

[[job]]
name = "reader"
tp = 4
dp = 4
data_mb = 120
compute_ms = 40

[[job]]
name = "phoenix"
tp = 4
pp = 2
dp = 2
micro_batches = 6
compute_ms = 30

[[job]]
name = "reasoner"
tp = 4
pp = 2
dp = 2
micro_batches = 4
compute_ms = 50

[[fault]]
kind = "slow_nic"
job = "pretrain"
rank = 9
at_s = 48
for_s = 120
factor = 24

[[fault]]
kind = "slow_storage"
rank = 1
at_s = 46
factor = 20

[[fault]]
kind = "hang"
job = "reasoner"
rank = 5
at_s = 57.3

[[fault]]
kind = "crash_restart"
job = "phoenix"
rank = 6
at_s = 62
restart_s = 40
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
        made = Path(folder)
        typer.echo("simulating a cluster of 80 GPUs …", err=True)
        make_cluster(made)
        config = replace(
            settings,
            store=StoreSettings(folder=str(made / "data")),
            topology=TopologySettings(file=str(made / "topology.json")),
            log=LogSettings(level="error", format="text"),
            token=(),
            windows=replace(settings.windows, compile_ahead=False),
        )

        def ready(address: str) -> None:
            typer.echo(f"four jobs, four faults to come: open {address}/ (Ctrl-C ends the demo)", err=True)
            threading.Thread(target=_play, args=(made, address), daemon=True, name="player").start()

        serve(config, ready=ready)


def make_cluster(folder: Path) -> None:
    """Writes flows.parquet and topology.json of the whole cluster."""
    from llmprism.sim.run import simulate
    from llmprism.sim.scenario import parse_scenario

    simulate(parse_scenario("demo", SCENARIO), folder)


def _play(folder: Path, address: str) -> None:
    from llmprism.errors import LLMPrismError
    from llmprism.service.player import HttpTarget, opened, play

    try:
        target = HttpTarget(address, "demo")
        with opened([str(folder / "flows.parquet")]) as capture:
            number = play(capture, target, lead_ns=LEAD_S * 10**9)
            while True:
                time.sleep(PAUSE_S)
                number = play(capture, target, first_number=number)
    except LLMPrismError as error:
        sys.stderr.write(f"demo: {error}\n")
