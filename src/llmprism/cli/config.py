"""`llmprism config`: check, show and help with the service's configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from llmprism.cli.serve import needs_serve_extra

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Check and show the service's settings, and make access tokens.

\b
Examples:
  llmprism config check llmprism.toml
  llmprism config show
  llmprism config token collector --scope ingest
""",
)

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="Settings as TOML; the defaults without one.")]


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key.startswith("LLMPRISM_") and "__" in key}


@app.command()
def check(file: File = None) -> None:
    """Say whether the settings can be used. Starts nothing.

    Example: llmprism config check llmprism.toml
    """
    with needs_serve_extra():
        from llmprism.service.config import load_config
    config = load_config(file, _environment())
    for settings in config.directory:
        if not Path(settings.path).is_dir():
            typer.echo(f"warning: the folder {settings.path} does not exist", err=True)
    if config.topology.file:
        from llmprism.ingest import read_topology

        read_topology(config.topology.file)
    typer.echo(f"{file or 'the defaults'}: fine")


@app.command()
def show(file: File = None) -> None:
    """Print all settings as they are in force: defaults, file and environment together.

    Example: LLMPRISM_SERVER__PORT=9000 llmprism config show
    """
    with needs_serve_extra():
        from llmprism.service.config import load_config
        from llmprism.service.config_text import as_toml
    typer.echo(as_toml(load_config(file, _environment())), nl=False)


@app.command()
def token(
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    scope: Annotated[list[str] | None, typer.Option(help="read, ingest or admin. Repeatable.")] = None,
) -> None:
    """Make an access token: print it once, with the lines for the settings file, which keep only its hash.

    Example: llmprism config token grafana --scope read
    """
    import hashlib
    import json
    import secrets

    from llmprism.errors import UsageError

    scopes = scope or ["read"]
    for one in scopes:
        if one not in ("read", "ingest", "admin"):
            raise UsageError(f"there is no scope {one!r}; there are read, ingest and admin")
    text = secrets.token_urlsafe(32)
    digest = hashlib.sha256(text.encode()).hexdigest()
    typer.echo(
        f'token: {text}\n\n[[token]]\nname = {json.dumps(name)}\nsha256 = "{digest}"\nscopes = {json.dumps(scopes)}'
    )
