"""Every package says what it offers in an explicit `__all__`, and offers it."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import llmprism

SOURCE = Path(llmprism.__file__).parent
PACKAGES = sorted(
    ".".join(("llmprism", *path.parent.relative_to(SOURCE).parts)) for path in SOURCE.rglob("__init__.py")
)


def path_of(package: str) -> Path:
    return SOURCE.joinpath(*package.split(".")[1:], "__init__.py")


def names_written(package: str) -> list[str] | None:
    """The literal `__all__` of a package; None where there is none."""
    for node in ast.parse(path_of(package).read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return ast.literal_eval(node.value)
    return None


def names_bound(package: str) -> set[str]:
    """Public names that a package defines or imports from us for others to use."""
    bound: set[str] = set()
    for node in ast.parse(path_of(package).read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    return {name for name in bound if not name.startswith("_")}


def test_the_packages_are_found() -> None:
    assert {"llmprism", "llmprism.model", "llmprism.ingest.packets"} <= set(PACKAGES)


def test_the_public_names_of_the_project_are_explicit() -> None:
    assert names_written("llmprism") == llmprism.__all__
    assert "__version__" in llmprism.__all__


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_a_package_offers_exists_and_is_named_once(package: str) -> None:
    names = names_written(package) or []
    module = importlib.import_module(package)
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(set(names)) == len(names)
    assert not [name for name in names if name.startswith("_") and name != "__version__"]


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_gathers_from_its_modules_it_offers(package: str) -> None:
    assert names_bound(package) <= set(names_written(package) or [])
