"""How large files and functions may be, and that compiled thresholds and types are said once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[2] / "src/llmprism").rglob("*.py"))
LONGEST_FILE = 400
LONGEST_FUNCTION = 60


@pytest.mark.parametrize("limit", [LONGEST_FILE])
def test_no_file_is_longer_than_a_reader_holds_in_mind(limit):
    assert len(SOURCES) > 300
    long = {path.name: lines for path in SOURCES if (lines := len(path.read_text().splitlines())) > limit}
    assert not long


def test_no_function_is_longer_than_a_screen():
    long = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long[f"{path.name}:{node.name}"] = lines
    assert not long


def test_names_are_words_that_a_stranger_knows():
    """Words that earlier versions used for many things (issue 13); docs/glossary.md has others."""
    dialect = {"told", "asked", "plain", "beside", "life", "lives"}
    used = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "name", None)
            if name and dialect & set(str(name).lower().split("_")) and name != "told_ns":  # a key of the API
                used.add(f"{path.name}: {name}")
    assert not used
