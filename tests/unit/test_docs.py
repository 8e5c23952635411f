"""The reference names every command, every option and every error; what the documents name exists."""

import re
from pathlib import Path

import pytest

from llmprism import errors
from llmprism.cli import main
from llmprism.cli.app import COMMANDS
from llmprism.model import FindingKind

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


def test_every_make_target_that_is_written_down_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    scripts = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "scripts").glob("*.py")]
    named = {
        target: page.name
        for page in [*PAGES, *scripts]
        for target in re.findall(r"(?:`|^ {4}|^\$ )make ([a-z][a-z-]*)", page.read_text(), re.M)
    }
    assert {"demo", "test", "check"} <= named.keys()
    assert {target: page for target, page in named.items() if target not in targets} == {}


def test_every_name_in_the_glossary_is_one_of_the_sources():
    sources = sorted((ROOT / "src").rglob("*.py"))
    words = {word for file in sources for word in re.findall(r"\w+", file.read_text())}
    files = {part for file in sources for part in (file.name, f"{file.parent.name}/{file.name}")}
    rows = re.findall(r"^\|.*\|$", (ROOT / "docs/glossary.md").read_text(), re.M)
    names = {name for row in rows for name in re.findall(r"`([\w./]+)`", row)}
    assert len(names) > 20
    assert sorted(name for name in names if name not in files | words and name.split(".")[-1] not in words) == []
