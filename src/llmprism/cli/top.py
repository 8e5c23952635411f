"""`llmprism top`: the live picture in a terminal."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from llmprism.cli.service_answers import answer_of, check_address
from llmprism.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["picture", "top"]

_COLOURS: Final = {
    "running": "green",
    "started": "cyan",
    "restarted": "cyan",
    "slowed": "yellow",
    "stalled": "yellow",
    "hung": "red",
    "crashed": "red",
    "ended": "dim",
}


def top(
    url: Annotated[str, typer.Argument(metavar="URL", help="The service.")] = "http://127.0.0.1:8642",
    interval: Annotated[float, typer.Option(metavar="SECONDS", help="Time between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the picture once and end.")] = False,
) -> None:
    """Show what a service sees, in the terminal: open findings first, then the jobs with their step times.

    A token is taken from the environment variable LLMPRISM_TOKEN. Ctrl-C ends it.

    \b
    Examples:
      llmprism top
      llmprism top http://monitor:8642 --once
    """
    if interval <= 0:
        raise UsageError("--interval must be above 0")
    check_address(url)
    from llmprism.cli.screen import stdout_console

    console = stdout_console()
    if once:
        console.print(picture(_overview(url)))
        return
    from rich.live import Live

    with Live(picture(_overview(url)), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            try:
                shown = picture(_overview(url))
            except InputError as error:
                shown = _trouble(str(error))
            live.update(shown, refresh=True)


def _overview(url: str) -> dict[str, Any]:
    status, document = answer_of(url, "/api/v1/overview")
    if status != HTTPStatus.OK:
        raise InputError(f"{url}: answers {status}" + ("; set LLMPRISM_TOKEN" if status == 401 else ""))
    return document


def _trouble(text: str) -> RenderableType:
    from rich.text import Text

    return Text(text, style="red")


def picture(overview: dict[str, Any]) -> RenderableType:
    """The overview as tables. Names are cleaned: nothing from outside steers the terminal."""
    from rich.console import Group
    from rich.text import Text

    from llmprism.report.text import count, moment, plural

    window = overview["picture"].get("window")
    jobs = overview["jobs"]
    gpus = sum(job["gpus"] for job in jobs)
    found = len(overview["findings"])
    verdict = f"{plural(found, 'problem')} open" if found else "nothing wrong"
    head = Text(verdict, style="bold red" if found else "bold green")
    head.append(f"   {plural(len(jobs), 'job')} on {count(gpus)} GPUs", style="default")
    if window:
        head.append(f"   as of {moment(window['end_ns'], 0)}", style="dim")
    parts: list[RenderableType] = [head]
    if overview["shedding"]:
        parts.append(Text("overloaded: some pushed records were turned away", style="yellow"))
    parts += [Text(text, style="red") for text in overview["troubles"]]
    if overview["findings"]:
        parts += [Text(), _findings(overview["findings"])]
    parts += [Text(), _jobs(jobs)]
    return Group(*parts)


def _findings(findings: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from llmprism.report.text import clean, moment

    table = Table(box=None, pad_edge=False, expand=True)
    for title in ("since", "what", "where", "job", "cost", "summary"):
        table.add_column(
            title, overflow="ellipsis", no_wrap=title != "summary", ratio=1 if title == "summary" else None
        )
    for finding in findings[:20]:
        place = finding["where"]["id"]
        table.add_row(
            moment(finding["start_ns"], 0),
            Text(finding["title"], style="bold red"),
            Text(clean(place if isinstance(place, str) else ", ".join(place), 40)),
            Text(clean(finding["job"] or "", 24)),
            f"{finding['lost_gpu_seconds'] / 3600:.2f} GPU-h",
            Text(clean(finding["summary"])),
        )
    return table


def _jobs(jobs: list[dict[str, Any]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from llmprism.report.text import clean, duration, sparkline

    table = Table(box=None, pad_edge=False)
    for title, side in (("job", "left"), ("state", "left"), ("GPUs", "right"), ("layout", "left"), ("step", "right"),
                        ("usual", "right"), ("steps", "right"), ("recent steps", "left")):  # fmt: skip
        table.add_column(title, justify="right" if side == "right" else "left", no_wrap=True)
    for job in jobs:
        recent = [end - start for start, end in job["recent"]][-24:]
        table.add_row(
            Text(clean(job["id"], 28)),
            Text(job["state"], style=_COLOURS.get(job["state"], "")),
            str(job["gpus"]),
            _layout(job.get("layout") or {}),
            duration(job["recent_ns"]) if job["recent_ns"] else "–",
            duration(job["baseline_ns"]) if job["baseline_ns"] else "–",
            str(job["steps"]),
            sparkline(recent, 24) if recent else "",
        )
    return table


def _layout(layout: dict[str, Any]) -> str:
    return " ".join(f"{key}{layout[key]}" for key in ("pp", "dp", "tp", "ep", "cp") if (layout.get(key) or 1) > 1)
