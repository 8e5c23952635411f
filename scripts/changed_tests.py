#!/usr/bin/env python3
"""Runs the unit tests of what differs from another branch: `make check`.

A source file `src/llmprism/PACKAGE/MODULE.py` has its tests in `tests/unit/PACKAGE/test_MODULE.py`; where there is no
such file, in those of the package that import the module; where none does, all tests of the package are its tests.
The tests that look at all sources (`test_house.py` and others) run after any change of them.
So have `benchmarks/`, `lab/` and `scripts/`, but a file there that no test imports has none.
Changed test files are run themselves, and all tests in the folder of a changed `conftest.py`. End-to-end tests are not
run here: `make test` is the whole.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNIT = Path("tests/unit")
TOOLS = ("benchmarks", "lab", "scripts")
"""Folders with code that is not part of the package."""


def main(base: str = "main") -> int:
    changed = changed_files(base)
    tests = sorted({test for file in changed for test in tests_of(file, ROOT)} | set(_tests_of_the_house(changed)))
    if not tests:
        print("no unit test belongs to what has changed")
        return 0
    print("tests of what has changed:", *tests)
    workers = ["-n", "2", "--dist", "loadfile"] if len(tests) > 1 else []
    return subprocess.run(
        [sys.executable, "-m", "pytest", *workers, *map(str, tests)], cwd=ROOT, check=False
    ).returncode


def changed_files(base: str) -> list[Path]:
    """Files that differ from where this branch left `base`, committed or not; all uncommitted ones without a `base`."""
    start = _git("merge-base", base, "HEAD") or ["HEAD"]
    names = _git("diff", "--name-only", start[0]) + _git("ls-files", "--others", "--exclude-standard")
    return sorted({Path(name) for name in names})


def tests_of(file: Path, root: Path) -> list[Path]:
    """The files or folders with the unit tests of one file, relative to the root of the repository.

    >>> tests_of(Path("README.md"), ROOT)
    [PosixPath('tests/unit/test_docs.py')]
    """
    if file.parts[:2] == ("src", "llmprism"):
        return _tests_of_source(file, root)
    if file.parts[0] in TOOLS and file.suffix == ".py":
        return _tests_of_tool(file, root)
    if file.parts[:2] == UNIT.parts:
        candidates = [file.parent if file.name == "conftest.py" else file]
    else:
        candidates = [UNIT / "test_docs.py"] if file.suffix == ".md" else []
    return [one for one in candidates if (root / one).exists()]


def _tests_of_the_house(changed: list[Path]) -> list[Path]:
    """Those that look at all sources: sizes, twins, names, rules and registries."""
    sources = any(file.parts[:2] == ("src", "llmprism") for file in changed)
    return [UNIT / f"test_{name}.py" for name in ("house", "registries", "rules")] if sources else []


def _tests_of_source(file: Path, root: Path) -> list[Path]:
    package = UNIT.joinpath(*file.parts[2:-1])
    own = package / f"test_{file.stem}.py"
    if (root / own).exists():
        return [own]
    module = ".".join(file.with_suffix("").parts[1:])
    while package != UNIT and not (root / package).exists():
        package = package.parent
    if package == UNIT:
        return [one for one in (UNIT / "test_public_names.py",) if (root / one).exists()]
    return _importing(module, package, root) or [package]


def _tests_of_tool(file: Path, root: Path) -> list[Path]:
    own = UNIT / file.parent / f"test_{file.stem}.py"
    if (root / own).exists():
        return [own]
    module = ".".join(file.with_suffix("").parts) if file.parts[0] == "lab" else file.stem
    return _importing(module, UNIT / file.parts[0], root)


def _importing(module: str, folder: Path, root: Path) -> list[Path]:
    """The tests in a folder that import a module."""
    names = re.compile(rf"^\s*(from {re.escape(module)} |import {re.escape(module)}\b)", re.MULTILINE)
    tests = sorted((root / folder).rglob("test_*.py"))
    return [one.relative_to(root) for one in tests if names.search(one.read_text())]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
