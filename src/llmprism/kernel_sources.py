"""Which sources a compiled function depends on, and where its machine code is kept.

The code lies in a directory that is named after a digest of the function's file and of all files of the package which
that one imports, directly or through others:

    <base>/kernels/<module>/<digest>/

An edit of any of them leads to another directory; an edit elsewhere does not. The directories of older sources are
removed, all but the last `KEPT_STAMPS`. The base is `NUMBA_CACHE_DIR` where that is set, otherwise `__pycache__` in the
package, otherwise the user's cache directory. A process that was started before the sources were edited keeps nothing.

Every file is read once, however many depend on it. The digests are kept with the time and the size of every source file
in `<base>/kernels/<digest of the package's place>.digests`: while none of these changes, which is how Python judges its
own byte code, nothing is read (0.04 s). This module does without the compiler, whose import takes a fifth of a second.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Final

from llmprism.started import STARTED_AT

__all__ = ["KEPT_STAMPS", "PACKAGE", "code_directory", "code_directory_of", "sources", "sources_digest"]

PACKAGE: Final = Path(__file__).resolve().parent

KEPT_STAMPS: Final = 4
"""Stamps of one file that are kept: those of a few checkouts or versions that share `NUMBA_CACHE_DIR`."""

_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from|import)[ \t]+llmprism((?:\.\w+)*)(?:[ \t]+import[ \t]+(\([^)]*\)|[^\n(]*))?", re.M
)
"""An import from this package. There are no relative ones: ruff refuses them."""


@dataclass(frozen=True, slots=True)
class _ReadFile:
    """A file as it was read: its digest, when it was changed, and the files of this package that it imports."""

    digest: bytes
    changed_at: float
    imported: frozenset[Path]


@cache
def _source(file: Path) -> _ReadFile:
    content = file.read_bytes()
    return _ReadFile(hashlib.sha256(content).digest(), file.stat().st_mtime, frozenset(_imported(content)))


def _imported(text: bytes) -> Iterator[Path]:
    """The files of the modules and packages in import statements; a name may be that of a module or not."""
    files = _files()
    for module, names in _IMPORT.findall(text):
        target = module.decode().replace(".", "/")
        candidates = (target, *(f"{target}/{name}" for name in re.findall(r"\w+", names.decode())))
        yield from (files[name] for one in candidates for name in (f"{one}.py", f"{one}/__init__.py") if name in files)


@cache
def _files() -> dict[str, Path]:
    """The source files of the package by their names below it."""
    found: dict[str, Path] = {}
    for folder, folders, names in os.walk(PACKAGE):
        folders[:] = (one for one in folders if one != "__pycache__")
        below = folder.removeprefix(str(PACKAGE))
        found.update({f"{below}/{name}": Path(folder, name) for name in names if name.endswith(".py")})
    return found


@cache
def sources(module: Path) -> frozenset[Path]:
    """The source files of this package that a file imports, directly or through others, and the file itself."""
    found: set[Path] = set()
    waiting = {module}
    while waiting:
        file = waiting.pop()
        found.add(file)
        waiting |= _source(file).imported - found
    return frozenset(found)


@cache
def sources_digest(module: Path) -> str | None:
    """Changes with every source file that a file depends on. None: this process runs older ones."""
    name, remembered = module.relative_to(PACKAGE).as_posix(), _remembered()
    if name not in remembered:
        digest = _digest_of_sources(module)
        if digest is None:
            return None
        remembered[name] = digest
        _remember(remembered)
    return remembered[name]


def _digest_of_sources(module: Path) -> str | None:
    digest = hashlib.sha256()
    try:
        for file in sorted(sources(module)):
            source = _source(file)
            if source.changed_at > STARTED_AT:
                return None
            digest.update(b"%s\0%s" % (file.relative_to(PACKAGE).as_posix().encode(), source.digest))
    except OSError:
        return None
    return digest.hexdigest()


@cache
def _states() -> tuple[tuple[str, int, int], ...]:
    """The time of the last change, in ns, and the size of every source file."""
    stats = {name: file.stat() for name, file in _files().items()}
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()))


@cache
def _remembered() -> dict[str, str]:
    """Digests of files that were made when all sources were as they are now."""
    for file in _digest_files():
        try:
            states, digests = marshal.loads(file.read_bytes())  # noqa: S302 - as code of Python is kept
            if states == _states() and all(changed_at <= STARTED_AT * 1e9 for _, changed_at, _ in states):
                return dict(digests)
        except (OSError, ValueError, EOFError, TypeError):
            continue
    return {}


def _remember(digests: dict[str, str]) -> None:
    for file in _digest_files():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            written = file.with_suffix(f".{os.getpid()}")
            written.write_bytes(marshal.dumps((_states(), digests)))
            written.replace(file)
        except OSError:
            continue
        return


def _digest_files() -> Iterator[Path]:
    place = hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:24]
    return (base / "kernels" / f"{place}.digests" for base in _bases())


@cache
def code_directory(module: Path) -> Path | None:
    """Where the code of a source file is kept; None: nowhere."""
    digest = sources_digest(module)
    if digest is None:
        return None
    name = ".".join(module.relative_to(PACKAGE).with_suffix("").parts)
    for base in _bases():
        directory = base / "kernels" / name / digest[:24]
        try:
            if not directory.is_dir():
                directory.mkdir(parents=True, exist_ok=True)
                _remove_old(directory.parent)
        except OSError:
            continue
        if os.access(directory, os.W_OK):
            return directory
    return None


def code_directory_of(function: FunctionType) -> Path | None:
    """Where the code of a function is kept; None for functions of other packages, whose sources nobody looks at."""
    file = _resolved(function.__code__.co_filename)
    return code_directory(file) if file.is_relative_to(PACKAGE) else None


@cache
def _resolved(file: str) -> Path:
    return Path(file).resolve()


def _bases() -> Iterator[Path]:
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / "llmprism"
    else:
        yield PACKAGE / "__pycache__"
    if home := os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME"):
        yield Path(home) / ("llmprism" if os.environ.get("XDG_CACHE_HOME") else ".cache/llmprism")


def _remove_old(directory: Path) -> None:
    """Removes the code of older sources. A process that still uses it compiles again."""
    newest_first = sorted(directory.iterdir(), key=lambda found: found.stat().st_mtime, reverse=True)
    for old in newest_first[KEPT_STAMPS:]:
        shutil.rmtree(old, ignore_errors=True)
