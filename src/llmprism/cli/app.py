"""The typer application and the one visible list of commands.

To add a command: write `cli/<command>.py` with a typer-annotated function (or a `typer.Typer()` for a command with
sub-commands) and add one line to `COMMANDS`. The module named there is imported only when that command runs or its
own help is shown; `llmprism --help` shows the summaries that stand here and imports none of them.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from llmprism import __version__
from llmprism.cli.as_given import without_conversion

__all__ = ["COMMANDS", "CommandEntry", "command_line"]


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """`target` is `module:attribute`; the attribute is a command function or a `typer.Typer`."""

    name: str
    target: str
    summary: str


COMMANDS: Final = (
    CommandEntry("diagnose", "llmprism.cli.diagnose:diagnose", "Say what is wrong with the jobs in flow records."),
    CommandEntry("serve", "llmprism.cli.serve:serve", "Watch a cluster live: service, page, metrics, alerts."),
    CommandEntry("top", "llmprism.cli.top:top", "Show what a service sees, in the terminal."),
    CommandEntry("replay", "llmprism.cli.replay:replay", "Play a capture back to a service."),
    CommandEntry("config", "llmprism.cli.config:app", "Check and show the service's settings, make tokens."),
    CommandEntry("doctor", "llmprism.cli.doctor:doctor", "Check a service and all around it, and say what to do."),
    CommandEntry("demo", "llmprism.cli.demo:demo", "Diagnose the bundled captures of real training jobs."),
    CommandEntry(
        "simulate", "llmprism.cli.simulate:simulate", "Make the flow records of a simulated cluster, with exact truth."
    ),
    CommandEntry("score", "llmprism.cli.score:score", "Compare a report with the truth."),
    CommandEntry("convert", "llmprism.cli.convert:convert", "Turn packets or collector output into flow records."),
    CommandEntry("inspect", "llmprism.cli.inspect:inspect", "Say what flow records can and cannot support."),
    CommandEntry("topology", "llmprism.cli.topology:app", "Build or check a topology file."),
    CommandEntry("logs", "llmprism.cli.logs:app", "Diagnose failed jobs from their logs."),
    CommandEntry("completion", "llmprism.cli.completion:completion", "Print a script that completes in a shell."),
)

_HELP: Final = """Tell what is wrong with the LLM training jobs on a GPU cluster, from network flow records and logs.

\b
Examples:
  llmprism demo
  llmprism diagnose flows.parquet --topology topology.json
  llmprism diagnose flows.parquet --html report.html --json -
"""


class _LazyGroup(TyperGroup):
    """A group whose commands are imported when they are needed; help lists them from `COMMANDS` alone."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        entry = next((entry for entry in COMMANDS if entry.name == cmd_name), None)
        if entry is None:
            return None
        return _load(entry)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.summary) for entry in COMMANDS])


def _load(entry: CommandEntry) -> Any:
    module, attribute = entry.target.split(":")
    target = getattr(importlib.import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        single = _typer()
        single.command(entry.name)(target)
        target = single
    command = typer.main.get_command(target)
    command.name = entry.name
    return _in_house_style(command)


_TYPERS_COMPLETION: Final = ("install_completion", "show_completion")
"""Options that typer adds to commands with sub-commands; `llmprism completion` is for all of them."""


def _in_house_style(command: Any) -> Any:
    """No markup in help; a missing sub-command is an error like any other, however the command's file set itself up."""
    command.rich_markup_mode = None
    command.params = [one for one in command.params if one.name not in _TYPERS_COMPLETION]
    without_conversion(command)
    if isinstance(command, TyperGroup):
        command.no_args_is_help = False
        for sub_command in command.commands.values():
            _in_house_style(sub_command)
    return command


def _typer(**settings: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"llmprism {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


def command_line() -> Any:
    """The whole command line as one callable."""
    app = _typer(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
    app.callback(help=_HELP)(_root)
    command = typer.main.get_command(app)
    without_conversion(command)
    return command
