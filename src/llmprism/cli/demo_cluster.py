"""`llmprism serve --demo`: a cluster of three tenants with faults, watched live.

The tenants are the bundled captures of real jobs, each moved to addresses of its own, on one simulated cluster: one is
healthy, one gets a slow NIC that recovers, one loses a rank and crashes. The first part is sent at once as history,
so that jobs and steps show within seconds; the faults follow in real time, and after a pause everything starts again.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from llmprism.service.config import Config

__all__ = ["make_cluster", "serve_demo"]

LEAD_S: Final = 22
"""Sent at once: enough for jobs to be believed and for a baseline of their step times."""

PAUSE_S: Final = 25
"""Between two rounds: the crash and the end of the others show before all start again."""


@dataclass(frozen=True, slots=True)
class _Tenant:
    """A bundled capture, the first number of its addresses on the cluster, and when it begins."""

    capture: str
    network: int
    begins_s: float


TENANTS: Final = (_Tenant("pp4dp2tp2", 20, 0.0), _Tenant("slow_nic", 21, 15.0), _Tenant("crash", 22, 28.0))


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
        make_cluster(made)
        config = replace(
            settings,
            store=StoreSettings(folder=str(made / "data")),
            topology=TopologySettings(file=str(made / "topology.json")),
            log=LogSettings(level="error", format="text"),
            token=(),
        )

        def ready(address: str) -> None:
            typer.echo(f"three jobs, two faults to come: open {address}/ (Ctrl-C ends the demo)", err=True)
            threading.Thread(target=_play, args=(made, address), daemon=True, name="player").start()

        serve(config, ready=ready)


def make_cluster(folder: Path) -> None:
    """Writes flows.parquet and topology.json of all tenants together."""
    from llmprism.cli.demo import bundled_captures
    from llmprism.ingest.database import open_database

    captures = bundled_captures()
    selects: list[str] = []
    servers: list[dict[str, Any]] = []
    switches: dict[str, dict[str, Any]] = {}
    with open_database() as (connection, _):
        for tenant in TENANTS:
            file = captures[tenant.capture] / "flows.parquet"
            row = connection.execute(f"SELECT min(start_ns) FROM read_parquet('{file}')").fetchone()
            move = int(tenant.begins_s * 1e9) - (row[0] if row else 0)
            selects.append(
                f"SELECT start_ns + {move} AS start_ns, end_ns + {move} AS end_ns, bytes, switches, sport, dport, "
                f"'{tenant.network}' || substr(src, 3) AS src, '{tenant.network}' || substr(dst, 3) AS dst "
                f"FROM read_parquet('{file}')"
            )
            topology = json.loads((captures[tenant.capture] / "topology.json").read_text(encoding="utf-8"))
            servers += [_moved(server, tenant.network) for server in topology["servers"]]
            switches |= {switch["name"]: switch for switch in topology["switches"]}
        connection.execute(f"COPY ({' UNION ALL '.join(selects)}) TO '{folder / 'flows.parquet'}' (FORMAT parquet)")
    document = {"servers": servers, "switches": list(switches.values())}
    (folder / "topology.json").write_text(json.dumps(document), encoding="utf-8")


def _moved(server: dict[str, Any], network: int) -> dict[str, Any]:
    nics = [{**nic, "address": f"{network}{nic['address'][2:]}"} for nic in server["nics"]]
    return {"name": f"rack{network - 19}-{server['name']}", "nics": nics}


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
