"""`llmprism demo`: diagnoses the captures of real training jobs that come with the tool."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from llmprism.bundled import bundled_captures
from llmprism.cli.diagnose import diagnose_files, show
from llmprism.cli.outputs import Outputs
from llmprism.errors import OutputError, UsageError

__all__ = ["demo"]


def demo(
    captures: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Captures; all of them by default.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the HTML pages go.")] = Path("out"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the pages are.")] = False,
) -> None:
    """Diagnose the bundled captures of real training jobs.

    Each is a minute of network flow records of a real PyTorch job, with a fault injected in some of them. Prints the
    report of each and writes an HTML page.

    \b
    Examples:
      llmprism demo
      llmprism demo slow_nic --out out
    """
    known = bundled_captures()
    for name in captures or []:
        if name not in known:
            raise UsageError(f"no bundled capture is called {name}; there are {', '.join(known)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {out}: {error.strerror}") from error
    for name in captures or known:
        _diagnose_capture(known[name], out / f"{name}.html", quiet=quiet)


def _diagnose_capture(folder: Path, page: Path, *, quiet: bool) -> None:
    from llmprism.cli.screen import progress_bar, stdout_console

    console = stdout_console()
    if not quiet:
        console.rule(folder.name, align="left")
        console.print(f"What was done to it: {_injected(folder / 'truth.json.gz')}", style="dim")
    with progress_bar(quiet=quiet) as progress:
        report = diagnose_files([str(folder / "flows.parquet")], str(folder / "topology.json"), progress=progress)
    Outputs(html=str(page)).write(report)
    if not quiet:
        show(report)
    console.print(f"Page {page}", soft_wrap=True)
    if not quiet:
        console.print()


def _injected(truth: Path) -> str:
    """The fault that the capture was made with, as its own truth file says."""
    with gzip.open(truth, "rt", encoding="utf-8") as file:
        faults: list[dict[str, Any]] = json.load(file)["faults"]
    if not faults:
        return "nothing, a healthy job"
    return ", ".join(f"{fault['kind']} at {fault['where']}" for fault in faults)
