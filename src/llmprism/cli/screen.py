"""The consoles of the command line: stdout for the report, stderr for progress.

`rich` is imported where something is shown: `diagnose --quiet` does without it.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from llmprism.cli.run import silence_stdout

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Progress", "progress_bar", "stdout_console"]

Progress = Callable[[str, float], None]
"""Called with the name of the stage at work and the share of it that is done."""

_PATIENCE_SECONDS: Final = 1.0
"""No bar before this: a run that is over in a second needs none."""


def stdout_console() -> Console:
    """What the encoding of stdout cannot say is escaped: a report must not fail for want of a character."""
    from rich.console import Console

    class ReportConsole(Console):
        """A console that stays silent when the reader of the pipe has gone (rich would exit with code 1)."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            silence_stdout()

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return ReportConsole(file=sys.stdout, markup=False, highlight=False, emoji=False)


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress | None]:
    """A bar on stderr, on a terminal only and only once the work proves long. Yields None where none is wanted."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(file=sys.stderr, markup=False, highlight=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    bar = Bar(*columns, console=console, transient=True)
    task = bar.add_task("", total=1.0)
    begun = time.monotonic()
    shown = False

    def report(stage: str, share: float) -> None:
        nonlocal shown
        bar.update(task, description=stage, completed=min(1.0, max(0.0, share)))
        if not shown and time.monotonic() - begun > _PATIENCE_SECONDS:
            bar.start()
            shown = True

    try:
        yield report
    finally:
        if shown:
            bar.stop()
