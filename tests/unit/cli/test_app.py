import importlib
import subprocess
import sys
import types

import pytest
import typer

from llmprism import __version__
from llmprism.cli import main
from llmprism.cli.app import COMMANDS, CommandEntry


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"llmprism {__version__}\n"


def test_version_after_an_option_answers_too(capsys):
    assert main(["--version", "diagnose"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(arguments, capsys):
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    for entry in COMMANDS:
        assert entry.name in shown
        assert entry.summary in shown


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_can_be_loaded_and_helps_itself_with_an_example(entry, capsys):
    module, attribute = entry.target.split(":")
    target = getattr(importlib.import_module(module), attribute)
    assert callable(target) or isinstance(target, typer.Typer)
    assert main([entry.name, "--help"]) == 0
    assert f"llmprism {entry.name}" in capsys.readouterr().out


def test_names_are_unique():
    assert len({entry.name for entry in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_neither_version_nor_help_loads_anything_heavy(argument):
    heavy = "{'numpy', 'duckdb', 'numba', 'llmprism.cli.diagnose', 'llmprism.report.terminal'}"
    script = (
        f"import sys; from llmprism.cli import main; main(['{argument}']); sys.exit(len({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_command_with_sub_commands_is_registered_by_one_line(monkeypatch, capsys):
    outer, inner = typer.Typer(no_args_is_help=True), typer.Typer(no_args_is_help=True)
    outer.add_typer(inner, name="inner")

    @inner.command()
    def hello(name: str) -> None:
        """Greet.

        Example: llmprism outer inner hello you
        """
        typer.echo(f"hello {name}")

    @inner.command()
    def other() -> None:
        raise typer.Exit(2)

    module = types.ModuleType("llmprism_test_outer")
    module.app = outer
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entries = (*COMMANDS, CommandEntry("outer", "llmprism_test_outer:app", "A test."))
    monkeypatch.setattr("llmprism.cli.app.COMMANDS", entries)
    assert main(["outer", "inner", "hello", "you"]) == 0
    assert capsys.readouterr().out == "hello you\n"
    assert main(["outer", "inner", "other"]) == 2
    assert main(["outer", "inner", "hello", "--help"]) == 0
    assert "Example: llmprism outer inner hello you" in capsys.readouterr().out
    for arguments in (["outer"], ["outer", "inner"], ["outer", "inner", "hello"]):
        assert main(arguments) == 1
        error = capsys.readouterr().err
        assert error.startswith("error[usage]: Missing ")
        assert error.count("\n") == 1
