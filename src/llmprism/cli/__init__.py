"""The command line. `main` is the only thing that prints errors and the only thing that decides the exit code.

There is one file per command; `app.COMMANDS` lists them. Nothing heavy is imported here: `llmprism --version` answers
before even typer is loaded, and a command's module is imported when that command runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from llmprism import __version__

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 could not do its work, 2 as `--fail-on` demands."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        sys.stdout.write(f"llmprism {__version__}\n")
        return 0
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")  # making room for huge pages takes longer than they save
    from llmprism.cli.run import run

    return run(arguments or ["--help"])
