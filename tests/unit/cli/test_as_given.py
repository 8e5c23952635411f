"""Texts on the command line are taken as they are; whatever else there is typer converts as ever."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from llmprism.cli.as_given import without_conversion


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def _taken(*arguments: str, converted: bool = False) -> dict[str, Any]:
    """What the function behind a command line gets."""
    taken: dict[str, Any] = {}
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(
        names: list[str],
        text: str | None = None,
        word: str = "usual",
        more: Annotated[list[str] | None, typer.Option()] = None,
        number: Annotated[int | None, typer.Option(min=1)] = None,
        colour: Colour = Colour.RED,
        file: Path | None = None,
        upper: Annotated[str, typer.Option(parser=str.upper)] = "none",
        flag: bool = False,
    ) -> None:
        taken.update(locals())

    made = typer.main.get_command(app)
    if not converted:
        without_conversion(made)
    with made.make_context("command", list(arguments)) as context:
        made.invoke(context)
    return {name: value for name, value in taken.items() if name not in ("taken", "app")}


@pytest.mark.parametrize(
    "arguments",
    [
        ["a"],
        ["a", "b", "--text", "1", "--more", "x", "--more", "", "--flag"],
        ["a", "--number", "3", "--colour", "blue", "--file", "b/c", "--upper", "loud", "--word", "one"],
        ["\udce4"],
    ],
)
def test_the_function_gets_what_typer_gives_it(arguments):
    assert _taken(*arguments) == _taken(*arguments, converted=True)


@pytest.mark.parametrize("arguments", [[], ["a", "--number", "0"], ["a", "--number", "x"], ["a", "--colour", "green"]])
def test_what_typer_refuses_is_refused_in_the_same_words(arguments):
    said = []
    for converted in (False, True):
        with pytest.raises(typer.TyperException) as error:
            _taken(*arguments, converted=converted)
        said.append(error.value.format_message())
    assert said[0] == said[1]


def test_options_of_a_diagnosis_are_read_without_pydantic(request):
    code = (
        "import sys; from llmprism.cli import main;"
        "main(['diagnose', 'nowhere.parquet', '-t', 'x.json', '--fail-on', 'crash', '--quiet']);"
        "print('pydantic' in sys.modules)"
    )
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=request.config.rootpath, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
