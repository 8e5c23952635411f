"""The reference names every command, every option and every error."""

from pathlib import Path

import pytest

from llmprism import errors
from llmprism.cli import main
from llmprism.cli.app import COMMANDS
from llmprism.model import FindingKind

DOCS = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_is_in_the_reference(entry):
    assert f"## `llmprism {entry.name}" in (DOCS / "cli.md").read_text()


@pytest.mark.parametrize("command", ["diagnose", "demo", "serve", "top", "replay"])
def test_every_option_is_in_the_reference(command, capsys):
    main([command, "--help"])
    words = capsys.readouterr().out.replace(",", " ").split()
    reference = (DOCS / "cli.md").read_text()
    for option in {word for word in words if word.startswith("--")}:
        assert f"`{option}" in reference, option


def test_every_error_is_in_the_reference():
    reference = (DOCS / "errors.md").read_text()
    for name in errors.__all__:
        assert f"### {getattr(errors, name).slug}\n" in reference


def test_every_kind_of_finding_is_in_the_reference():
    reference = (DOCS / "report.md").read_text()
    for kind in FindingKind:
        assert f"| `{kind.value}` |" in reference
