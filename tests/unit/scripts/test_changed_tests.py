"""Which unit tests `make check` runs for a changed file."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.scripts import load_script

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script():
    return load_script("changed_tests")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("src/llmprism/ingest/duplicates.py", "tests/unit/ingest/test_duplicates.py"),
        ("src/llmprism/kernel.py", "tests/unit/test_kernel.py"),
        ("src/llmprism/limits.py", "tests/unit/test_public_names.py"),
        ("src/llmprism/service/web/dom.js", "tests/unit/service"),
        ("src/llmprism/engine/spark/graph.py", "tests/unit/engine"),
        ("tests/unit/ingest/test_record_order.py", "tests/unit/ingest/test_record_order.py"),
        ("tests/unit/service/conftest.py", "tests/unit/service"),
        ("docs/glossary.md", "tests/unit/test_docs.py"),
        ("scripts/figures.py", "tests/unit/scripts/test_figures.py"),
        ("benchmarks/robust_draw.py", "tests/unit/benchmarks/test_robust.py"),
        ("lab/draw.py", "tests/unit/lab/test_draw.py"),
    ],
)
def test_a_changed_file_has_its_tests(script, changed, expected):
    assert script.tests_of(Path(changed), ROOT) == [Path(expected)]


@pytest.mark.parametrize(
    "changed",
    [
        "tests/e2e/test_commands.py",
        "Makefile",
        "deploy/llmprism.toml",
        "benchmarks/speed.py",
        "tests/unit/test_gone.py",
    ],
)
def test_what_has_no_unit_test_runs_none(script, changed):
    assert script.tests_of(Path(changed), ROOT) == []


def test_a_module_without_tests_of_its_own_has_those_that_import_it(script, tmp_path):
    tests = tmp_path / "tests" / "unit" / "ingest"
    tests.mkdir(parents=True)
    (tests / "test_one.py").write_text("from llmprism.ingest.made_up import f\n")
    (tests / "test_other.py").write_text("from llmprism.ingest.made_up_too import f\n")
    found = script.tests_of(Path("src/llmprism/ingest/made_up.py"), tmp_path)
    assert found == [Path("tests/unit/ingest/test_one.py")]
    assert script.tests_of(Path("src/llmprism/ingest/third.py"), tmp_path) == [Path("tests/unit/ingest")]
