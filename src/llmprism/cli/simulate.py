"""`llmprism simulate SCENARIO -o DIR`: flow records of a whole cluster, with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["simulate"]


def simulate(
    scenario: Annotated[str | None, typer.Argument(help="Name of a scenario (see --list) or a TOML file.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write into.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; the scenario's own when not given.", min=0)] = None,
    gpus: Annotated[int | None, typer.Option(help="Scale the cluster and its jobs to so many GPUs.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Length of the window.")] = None,
    events: Annotated[bool, typer.Option("--events", help="Write the true per-GPU events too.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the scenarios and stop.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary.")] = False,
) -> None:
    """Simulate a cluster: flows.parquet, topology.json and truth.json.gz.

    Example: llmprism simulate slow-nic -o out/slow-nic
    """
    from rich.console import Console

    from llmprism.errors import UsageError
    from llmprism.sim.scenario import read_scenario, scaled

    console = Console(stderr=True, quiet=quiet)
    if show_list:
        _list(Console())
        return
    if scenario is None or output is None:
        raise UsageError("a scenario and -o DIR are needed, or --list")
    chosen = scaled(read_scenario(scenario), gpus, minutes)
    from rich.progress import Progress

    from llmprism.sim.run import simulate as run

    with Progress(console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task(chosen.name, total=1.0)
        summary = run(chosen, output, seed, events, lambda share: bar.update(task, completed=share))
    console.print(
        f"{output}: {summary.records:,} records of {summary.jobs} jobs on {summary.gpus:,} GPUs, "
        f"{summary.steps:,} steps, {summary.faults} faults",
        markup=False,
        highlight=False,
    )


def _list(console: object) -> None:
    from rich.console import Console
    from rich.table import Table

    from llmprism.sim.scenario import LEVELS, read_scenario, scenario_names

    table = Table("scenario", "level", "GPUs", "seconds", "what")
    scenarios = [read_scenario(name) for name in scenario_names()]
    for item in sorted(scenarios, key=lambda s: (LEVELS.index(s.level), s.name)):
        gpus = item.cluster.servers * item.cluster.gpus_per_server
        table.add_row(item.name, item.level, f"{gpus:,}", f"{item.seconds:g}", item.title)
    if isinstance(console, Console):
        console.print(table)
