"""Runs the command line and turns every way it can end into an exit code and at most one line on stderr.

    0    the command did its work
    1    it could not: bad input, bad arguments, or a bug of ours; `error[slug]: message` on stderr
    2    findings were reported and `--fail-on` demands this code
    130  interrupted from the keyboard

A reader that closes the pipe early (`llmprism ... | head`) is no error and gets no message. A bug prints one line
too; with LLMPRISM_TRACEBACK=1 in the environment it prints the traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from llmprism.cli.app import command_line
from llmprism.errors import LLMPrismError, UsageError
from llmprism.report.text import clean

__all__ = ["run", "silence_stdout"]

TRACEBACK_VARIABLE = "LLMPRISM_TRACEBACK"
INTERRUPTED = 130


def run(arguments: Sequence[str]) -> int:
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        return 0
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        result = _invoke(list(arguments))
    except typer.Exit as exit_request:
        return exit_request.exit_code
    except LLMPrismError as error:
        return _fail(error.slug, str(error), error.exit_code)
    except typer.TyperException as error:
        return _fail(UsageError.slug, error.format_message(), UsageError.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        text = f"{type(error).__name__}: {error} (a bug; {TRACEBACK_VARIABLE}=1 shows where)"
        return _fail("internal", text, 1)
    return result if isinstance(result, int) else 0


def _invoke(arguments: list[str]) -> object:
    """The command itself, without typer's own ways to end a program: those print usage and pick exit codes."""
    command = command_line()
    with command.make_context("llmprism", arguments) as context:
        result: object = command.invoke(context)
    return result


def _fail(slug: str, message: str, code: int) -> int:
    line = clean(" ".join(message.split()))
    sys.stderr.write(f"error[{slug}]: {line}\n")
    return code


def silence_stdout() -> None:
    """Point stdout at nothing, so that what is still buffered for a closed pipe raises nothing at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(nothing)
