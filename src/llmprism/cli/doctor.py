"""`llmprism doctor`: is everything in order around the service, and if not, what is to be done?"""

from __future__ import annotations

import json
import os
import time
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmprism.cli.serve import needs_serve_extra
from llmprism.cli.service_answers import answer_of, check_address
from llmprism.errors import InputError, UsageError

if TYPE_CHECKING:
    from llmprism.service.checkup import Result

__all__ = ["doctor"]


def doctor(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="A running service to ask as well.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings as TOML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="LEVEL", help="Exit with 2 on a problem or a warning: problem, warning.")
    ] = "",
) -> None:
    """Check settings, versions, disk, database, sources, clocks and receivers, and say what to do.

    With a URL the running service reports its troubles, its sources and their clocks too. Nothing is changed and
    nothing is sent to receivers. A token is taken from the environment variable LLMPRISM_TOKEN.

    \b
    Examples:
      llmprism doctor
      llmprism doctor --config llmprism.toml
      llmprism doctor http://127.0.0.1:8642 --fail-on warning
    """
    if fail_on not in ("", "problem", "warning"):
        raise UsageError(f"--fail-on {fail_on}: expected problem or warning")
    with needs_serve_extra():
        from llmprism.service.checkup import CheckLevel, check_answers, examine
        from llmprism.service.config import load_config
    environment = {key: value for key, value in os.environ.items() if key.startswith("LLMPRISM_") and "__" in key}
    results = examine(load_config(config, environment))
    if url is not None:
        check_address(url)
        ready = _ask(url, "/readyz") or {}
        results += check_answers(ready, _ask(url, "/api/v1/overview"), time.time_ns())
    _print(results, as_json)
    levels = {result.level for result in results}
    bad = CheckLevel.PROBLEM in levels or (fail_on == "warning" and CheckLevel.WARNING in levels)
    if fail_on and bad:
        raise typer.Exit(2)


def _ask(url: str, path: str) -> dict[str, Any] | None:
    """The answer, also of a service that is not ready; None where a token is missing."""
    status, document = answer_of(url, path)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return None
    if status not in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
        raise InputError(f"{url}{path}: answers {status}")
    return document


def _print(results: list[Result], as_json: bool) -> None:
    from llmprism.report.text import clean

    if as_json:
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(result) for result in results], indent=1))
        return
    for result in results:
        advice = f" -> {clean(result.advice)}" if result.advice and result.level != "ok" else ""
        typer.echo(f"{result.level:8} {result.subject:10} {clean(result.text, 400)}{advice}")
    problems = sum(result.level == "problem" for result in results)
    warnings = sum(result.level == "warning" for result in results)
    typer.echo(f"{problems} problems, {warnings} warnings")
