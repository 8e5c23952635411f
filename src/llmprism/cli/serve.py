"""`llmprism serve`: watch a cluster live."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llmprism.errors import UsageError

if TYPE_CHECKING:
    from llmprism.service.config import Config

__all__ = ["needs_serve_extra", "serve"]


def serve(
    config: Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings as TOML.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show a simulated cluster with faults.")] = False,
    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen.")] = None,
    port: Annotated[int | None, typer.Option(metavar="NUMBER", help="Where to listen; 0 for any free port.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where flows and history are kept.")] = None,
    watch: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="Take files dropped into this folder. Repeatable.")
    ] = None,
    topology: Annotated[Path | None, typer.Option("--topology", "-t", metavar="FILE", help="Topology as JSON.")] = None,
) -> None:
    """Watch a cluster live: take flow records as they arrive, and show jobs, steps and findings on a page.

    Records come from folders that collectors drop files into, by HTTP (POST /api/v1/flows) or from Kafka topics.
    Needs the extra: pip install 'llmprism[serve]'.

    \b
    Examples:
      llmprism serve --demo
      llmprism serve --watch flows/ --topology topology.json
      llmprism serve --config llmprism.toml
    """
    with needs_serve_extra():
        from llmprism.service.logs import set_up_logs
        from llmprism.service.runner import serve as run
    settings = _settings(config, host, port, data, watch or [], topology)
    if demo:
        from llmprism.cli.demo_cluster import serve_demo

        serve_demo(settings)
        return
    set_up_logs(settings.log)
    run(settings, ready=lambda address: typer.echo(f"llmprism watches; open {address}/", err=True))


class needs_serve_extra:  # noqa: N801 - reads as a sentence in a with statement
    """Turns a missing package of the extra into one clear line."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("llmprism"):
            raise UsageError(f"{error.name} is not installed; this needs: pip install 'llmprism[serve]'") from None


def _settings(
    config: Path | None,
    host: str | None,
    port: int | None,
    data: Path | None,
    watch: list[Path],
    topology: Path | None,
) -> Config:
    """The file's settings with the command line's on top, checked together."""
    from llmprism.service.config import load_config

    environment = {key: value for key, value in os.environ.items() if "__" in key}
    given = {"SERVER__HOST": host, "SERVER__PORT": port, "STORE__FOLDER": data, "TOPOLOGY__FILE": topology}
    environment |= {f"LLMPRISM_{key}": str(value) for key, value in given.items() if value is not None}
    settings = load_config(config, environment)
    if watch:
        from dataclasses import replace

        from llmprism.service.config import DirectorySettings

        for folder in watch:
            if not folder.is_dir():
                raise UsageError(f"{folder} is not a folder")
        more = tuple(DirectorySettings(str(folder)) for folder in watch)
        settings = replace(settings, directory=(*settings.directory, *more))
    return settings
