"""`llmprism replay`: play a capture back to a service, in real time or faster."""

from __future__ import annotations

import os
import uuid
from typing import Annotated

import typer

from llmprism.errors import UsageError

__all__ = ["replay"]


def replay(
    flows: Annotated[list[str], typer.Argument(metavar="FLOWS", help="Flow records: files or globs.")],
    to: Annotated[str, typer.Option(metavar="WHERE", help="A service's URL, a folder, or kafka://BROKERS/TOPIC.")],
    speed: Annotated[float, typer.Option(metavar="N", help="Times real time; 0 for as fast as it goes.")] = 1.0,
    keep_times: Annotated[bool, typer.Option("--keep-times", help="Send the records' own times.")] = False,
    squeeze: Annotated[bool, typer.Option("--squeeze", help="Shorten the times themselves by the speed.")] = False,
    producer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of this sender; the same name goes on where it stopped.")
    ] = None,
    column_map: Annotated[str | None, typer.Option("--map", metavar="MAP", help="Column names.")] = None,
    file_format: Annotated[str | None, typer.Option("--format", metavar="NAME", help="Format of the flows.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Play a capture back to a service, as a collector would send it.

    The times are moved so that the capture begins now, unless --keep-times is given. A token for a service that needs
    one is taken from the environment variable LLMPRISM_TOKEN.

    \b
    Examples:
      llmprism replay examples/slow_nic/flows.parquet --to http://127.0.0.1:8642
      llmprism replay examples/crash/flows.parquet --to flows/ --speed 10
    """
    if speed < 0:
        raise UsageError("--speed must be 0 or above")
    from llmprism.cli.screen import progress_bar
    from llmprism.ingest.mapping import ColumnMapping
    from llmprism.service.player import opened, play, target_of

    mapping = None
    if column_map:
        mapping = ColumnMapping.parse(column_map) if "=" in column_map else ColumnMapping.from_file(column_map)
    name = producer or f"replay-{uuid.uuid4().hex[:8]}"
    target = target_of(to, name, os.environ.get("LLMPRISM_TOKEN"))
    with opened(flows, mapping, file_format) as capture, progress_bar(quiet=quiet) as progress:

        def report_progress(sent: int, total: int) -> None:
            if progress is not None:
                progress("replaying", sent / total)

        batches = play(capture, target, speed=speed, keep_times=keep_times, squeeze=squeeze, progress=report_progress)
    if not quiet:
        typer.echo(f"{capture.records:,} records in {batches} batches sent to {to}")
