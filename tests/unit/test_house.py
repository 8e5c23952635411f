"""How large files and functions may be, that nothing is written twice or for nobody, and which words names use."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/llmprism"
SOURCES = sorted(SOURCE.rglob("*.py"))
ROOT = SOURCE.parents[1]
ALL_CODE = sorted(
    file for part in ("src", "benchmarks", "scripts", "lab", "tests") for file in (ROOT / part).rglob("*.py")
)
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
TWIN_LINES = 6


@pytest.mark.parametrize("limit", [LONGEST_FILE])
def test_no_file_is_longer_than_a_reader_holds_in_mind(limit):
    assert len(SOURCES) > 300
    long = {path.name: lines for path in ALL_CODE if (lines := len(path.read_text().splitlines())) > limit}
    assert not long


def test_no_function_is_longer_than_a_screen():
    long = {}
    for path in ALL_CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long[f"{path.name}:{node.name}"] = lines
    assert not long


def code_lines(text):
    """Numbers and texts of the lines of a module that hold code: no docstring, comment, import or lone bracket."""
    tree = ast.parse(text)
    prose = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
        for number in range(node.lineno, node.end_lineno + 1)
    }
    for number, line in enumerate(text.splitlines(), 1):
        code = " ".join(line.split())
        if number not in prose and not code.startswith("#") and re.search(r"\w", code):
            yield number, code


def twins(modules):
    """Places of runs of so many equal lines of code, each with the place where the run stands first."""
    first, found = {}, []
    for name, text in modules.items():
        lines = list(code_lines(text))
        free_from = 0
        for place in range(len(lines) - TWIN_LINES + 1):
            run = tuple(code for _, code in lines[place : place + TWIN_LINES])
            known = first.setdefault(run, (name, place, lines[place][0]))
            overlaps = known[0] == name and place < known[1] + TWIN_LINES
            if not overlaps and place >= free_from:
                found.append(f"{name}:{lines[place][0]} as {known[0]}:{known[2]}")
                free_from = place + TWIN_LINES
    return found


def test_no_six_lines_stand_twice():
    assert twins({str(path.relative_to(SOURCE)): path.read_text() for path in SOURCES}) == []


def test_six_lines_that_stand_twice_are_found():
    body = "\n".join(f"name_{n} = {n}" for n in range(TWIN_LINES))
    assert twins({"a": f"import b\n{body}\n", "c": f"{body}\n# the same\nx = 1\n"}) == ["c:1 as a:2"]
    assert twins({"a": f"{body}\n", "c": body.replace("name_3", "other")}) == []


def names_used(trees):
    """Names that are read somewhere: variables, attributes, and words in strings (registries) but for `__all__`."""
    used = set()
    for tree in trees:
        listed = {
            id(one)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            for one in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                used.add(node.id if isinstance(node, ast.Name) else node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in listed:
                used.add(node.value)
    return used


def names_defined(tree):
    """Functions and classes, methods of classes without a base (others may override), and fields of dataclasses."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list:
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            for inner in node.body if not node.bases else ():
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield inner.name
                elif isinstance(inner, ast.AnnAssign):
                    yield inner.target.id


FOR_OTHERS = {
    "bytes_read": "a count in the notes of a capture, which are written as they are",
    "fitted_to": "says where fitted weights come from",
    "fragments": "as bytes_read",
    "malformed": "as bytes_read",
    "needs": "what a kind of finding needs: a test compares it with the documentation",
    "retransmitted_bytes": "as bytes_read",
    "acknowledgements": "as bytes_read",
    "verify": "the dataset is for others",
}
"""Names that nothing in `src` reads, with who does."""


def test_what_is_written_is_used_by_more_than_tests():
    trees = {path: ast.parse(path.read_text()) for path in SOURCES}
    used = names_used(trees.values())
    unused = {
        name: path.name
        for path, tree in trees.items()
        for name in names_defined(tree)
        if name not in used and not re.fullmatch("__.*__", name)
    }
    assert {name: file for name, file in unused.items() if name not in FOR_OTHERS} == {}
    assert unused.keys() == FOR_OTHERS.keys()


def test_a_name_that_nothing_reads_is_found():
    tree = ast.parse("__all__ = ['f', 'g']\ndef f(): ...\ndef g(): f()\nclass C:\n    x: int\n    y: int\nC(x=1).y\n")
    assert set(names_defined(tree)) - names_used([tree]) == {"g", "x"}


def test_names_are_words_that_a_stranger_knows():
    """Words that earlier versions used for many things (issue 13); docs/glossary.md has others."""
    dialect = {"told", "asked", "plain", "beside", "life", "lives"}
    used = set()
    for path in ALL_CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "name", None)
            if name and dialect & set(str(name).lower().split("_")) and name != "told_ns":  # a key of the API
                used.add(f"{path.name}: {name}")
    assert not used


def classes_by_name(modules):
    """Where each class stands, by its name without the underscore of a private one."""
    found = {}
    for name, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name.lstrip("_"), []).append(name)
    return found


def test_a_name_of_a_class_stands_for_one_thing():
    found = classes_by_name({str(path.relative_to(SOURCE)): path.read_text() for path in SOURCES})
    assert len(found) > 300
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_two_classes_of_one_name_are_found():
    assert classes_by_name({"a": "class Part: ...", "b": "class _Part: ...\nclass C: ..."})["Part"] == ["a", "b"]


def modules_by_name(paths):
    """Packages that have a module of each name. Rules mirror the modules that they are for, and `cli` has commands."""
    found = {}
    for path in paths:
        if path.parts[0] != "cli" and "rules" not in (path.stem, *path.parts) and path.stem != "__init__":
            found.setdefault(path.stem, []).append(path.parent)
    return found


def is_confusing(packages):
    """More than two modules of one name, or two in one part of the program."""
    return len(packages) > 2 or len({package.parts[:1] for package in packages}) < len(packages)


def test_a_name_of_a_module_stands_for_one_thing():
    found = modules_by_name([path.relative_to(SOURCE) for path in SOURCES])
    assert len(found) > 300
    assert {name for name, packages in found.items() if is_confusing(packages)} == set()


def test_modules_of_one_name_are_found():
    paths = ["a/x.py", "a/b/x.py", "c/y.py", "d/y.py", "c/rules/x.py", "c/z.py", "d/z.py", "e/z.py", "cli/z.py"]
    found = modules_by_name([Path(path) for path in paths])
    assert {name for name, packages in found.items() if is_confusing(packages)} == {"x", "z"}


MAPPED = (
    "ingest",
    "recognize",
    "parallelism",
    "timeline",
    "diagnose",
    "logs",
    "verdict",
    "sim",
    "service",
    "service/workers",
)


@pytest.mark.parametrize("package", MAPPED)
def test_the_docstring_of_a_package_is_a_map_of_its_modules(package):
    folder = SOURCE / package
    words = set(re.findall(r"\w+", ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))))
    assert {path.stem for path in folder.glob("*.py")} - {"__init__", "rules"} - words == set()


def test_types_of_arrays_have_one_name():
    again = re.compile(
        r"NDArray\[np\.(int64|int32|int8|float64|bool_|uint8|uint64)\]|^(Bool|U?Int\d+|Float64) = ", re.M
    )
    assert [path.name for path in SOURCES if again.search(path.read_text())] == ["arrays.py"]
