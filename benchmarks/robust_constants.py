"""The constants that decide in the stages, found in their source: module-level numbers and the defaults of rules.

A constant is a number given to a name in capitals at the top of a module, or the default of a field of a class whose
name ends in `Rules`, or an argument in a module-level call of such a class. Numbers inside functions are not found:
the style forbids them. `install` makes Python load a stage's source with one of them changed, without touching a file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType
from typing import Final

__all__ = ["STAGES", "Constant", "constants", "install", "moved"]

STAGES: Final = ("ingest", "recognize", "parallelism", "timeline", "diagnose", "stats")
RELOADED: Final = (*STAGES, "pipeline", "engine")
"""Packages that are imported anew with the change."""
KERNELS: Final = ("kernel", "inlined", "njit", "jit")
RULES: Final = "Rules"


@dataclass(frozen=True)
class Constant:
    """Where a number stands. `compiled`: a compiled kernel reads it, so kernels must be compiled anew."""

    file: str
    line: int
    column: int
    name: str
    value: float
    compiled: bool

    @property
    def place(self) -> str:
        parts = Path(self.file).parts
        package = len(parts) - parts[::-1].index("llmprism")  # the last one: the checkout may bear the name too
        return "/".join(parts[package:]).removesuffix(".py") + f".{self.name}"


def constants(source: Path, stages: tuple[str, ...] = STAGES) -> list[Constant]:
    """Every constant of these packages under `source` (the folder `llmprism`), in order of file and line."""
    files = sorted(file for stage in stages for file in (source / stage).rglob("*.py"))
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    in_kernels = {name for tree in trees.values() for name in _names_in_kernels(tree)}
    found = []
    for file, tree in trees.items():
        for name, node in _numbers(tree):
            value = ast.literal_eval(node)
            bare = name.rsplit(".", 1)[-1]
            found.append(Constant(str(file), node.lineno, node.col_offset, name, value, bare in in_kernels))
    return found


def moved(constant: Constant, factor: float) -> float | int:
    """The number times the factor; a whole number moves by one at least and stays above 0."""
    if isinstance(constant.value, int):
        step = max(1, round(abs(constant.value) * abs(factor - 1)))
        value = constant.value + (step if factor > 1 else -step)
        return value if constant.value <= 0 else max(value, 1)
    return constant.value * factor


def _numbers(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name.endswith(RULES):
            for item in statement.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and _is_number(item.value):
                    yield f"{statement.name}.{item.target.id}", item.value  # type: ignore[misc]
            continue
        target, value = _assigned(statement)
        if target is None:
            continue
        if _is_number(value):
            yield target, value  # type: ignore[misc]
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id.endswith(RULES):
            for keyword in value.keywords:
                if keyword.arg and _is_number(keyword.value):
                    yield f"{target}.{keyword.arg}", keyword.value  # type: ignore[misc]


def _assigned(statement: ast.stmt) -> tuple[str | None, ast.expr | None]:
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        name, value = statement.target.id, statement.value
    elif (
        isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
    ):
        name, value = statement.targets[0].id, statement.value
    else:
        return None, None
    return (name if name.lstrip("_").isupper() else None), value


def _is_number(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _names_in_kernels(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_decorator(item) in KERNELS for item in node.decorator_list):
            yield from (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))


def _decorator(node: ast.expr) -> str:
    while isinstance(node, ast.Call):
        node = node.func
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def install(constant: Constant, value: float) -> None:
    """From now on this process imports the constant's module with another value in its place."""
    target = Path(constant.file).resolve()

    class Loader(SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType | None:
            if Path(self.path).resolve() != target:
                return super().get_code(fullname)
            tree = ast.parse(self.get_data(self.path), filename=self.path)
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and (node.lineno, node.col_offset) == where:
                    node.value = value
            return compile(tree, self.path, "exec", dont_inherit=True)

    where = (constant.line, constant.column)
    for name in [name for name in sys.modules if name.startswith("llmprism.") and name.split(".")[1] in RELOADED]:
        del sys.modules[name]
    extensions = (ExtensionFileLoader, EXTENSION_SUFFIXES)
    sys.path_hooks.insert(0, FileFinder.path_hook(extensions, (Loader, SOURCE_SUFFIXES)))
    sys.path_importer_cache.clear()
