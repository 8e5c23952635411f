"""Compiles functions to machine code and keeps the code on disk, stamped with all sources that it depends on.

The compiler's own cache takes a compiled function for fresh as long as the file of that function is unchanged. It does
not see that a constant or a callee in another file has changed, and goes on with the old value. So every compiled
function of the package is made here, by `compiled`, and its machine code lies in a directory that is named after a
digest of its file and of all files of the package which that one imports, directly or through others:

    <base>/kernels/<module>/<digest>/<function>-<line>.<python>.nbc

An edit of any of them leads to another directory and so to a recompilation; an edit elsewhere does not. The directories
of older sources are removed, all but the last `KEPT_STAMPS`. The base is `NUMBA_CACHE_DIR` where that is set, otherwise
`__pycache__` in the package, otherwise the user's cache directory; where none can be written, or the sources were
edited after this process had loaded them, the code is compiled anew and not kept. Of several processes that need the
same function at once, one compiles it and the others wait for its code: copies of a process and test runners would all
spend the same seconds otherwise.

Importing this module imports the compiler, which takes a second: `llmprism.kernel` does so only when it is worth it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, ParamSpec, TypeVar, cast, overload

from numba import njit
from numba.core import caching

from llmprism.started import STARTED_AT

__all__ = ["KEPT_STAMPS", "code_directory", "compiled", "sources", "sources_digest"]

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE: Final = Path(__file__).resolve().parent

KEPT_STAMPS: Final = 4
"""Stamps of one file that are kept: those of a few checkouts or versions that share `NUMBA_CACHE_DIR`."""

LONGEST_WAIT_S: Final = 60.0
"""How long to wait for another process that compiles the same function, in seconds: the slowest kernel takes 10 s on a
core of its own. A process that failed to compile and goes on holds its lock; then everybody compiles."""

POLL_S: Final = 0.05

_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from|import)[ \t]+(llmprism(?:\.\w+)*)(?:[ \t]+import[ \t]+(\([^)]*\)|[^\n(]*))?", re.M
)
"""An import from this package. There are no relative ones: ruff refuses them."""


@overload
def compiled(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def compiled(*, cached: bool = True, **options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def compiled(
    function: Callable[P, R] | None = None, /, *, cached: bool = True, **options: Any
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: the function, compiled at its first call; `options` are those of the compiler.

    `cached=False` is for functions that only other compiled functions call: their code is part of the callers'.
    """
    if function is None:
        return lambda wrapped: _compiled(wrapped, cached, options)
    return _compiled(function, cached, options)


def _compiled(function: Callable[P, R], cached: bool, options: dict[str, Any]) -> Callable[P, R]:
    dispatcher = njit(**options)(function)
    switched_off = not hasattr(dispatcher, "enable_caching")  # NUMBA_DISABLE_JIT: for fuzzers that look into Python
    if cached and not switched_off and _Locator.from_function(function, function.__code__.co_filename):
        dispatcher._cache = cast(Any, _FunctionCache)(function)
    return cast("Callable[P, R]", dispatcher)


@cache
def sources(module: Path) -> frozenset[Path]:
    """The source files of this package that a file imports, directly or through others, and the file itself."""
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting.extend(_imported(file.read_bytes()))
    return frozenset(found)


def _imported(text: bytes) -> Iterator[Path]:
    for match in _IMPORT.finditer(text):
        target = PACKAGE.joinpath(*match[1].decode().split(".")[1:])
        names = re.findall(r"\w+", (match[2] or b"").decode())
        for candidate in (target, *(target / name for name in names)):
            yield from (file for file in (candidate.with_suffix(".py"), candidate / "__init__.py") if file.is_file())


@cache
def sources_digest(module: Path) -> str | None:
    """Changes with every source file that a file depends on. None: this process runs older ones."""
    digest = hashlib.sha256()
    try:
        for file in sorted(sources(module)):
            if file.stat().st_mtime > STARTED_AT:
                return None
            content = file.read_bytes()
            digest.update(b"%s\0%d\0" % (file.relative_to(PACKAGE).as_posix().encode(), len(content)))
            digest.update(content)
    except OSError:
        return None
    return digest.hexdigest()


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


class _Locator(caching._CacheLocator):
    """Tells the compiler's cache where the code of a function of this package lies."""

    def __init__(self, directory: Path, module: Path, line: int) -> None:
        self._directory = directory
        self._line = line
        self._py_file = module  # numba names it in warnings

    def get_cache_path(self) -> str:
        return str(self._directory)

    def get_source_stamp(self) -> str:
        return self._directory.name

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Any, file: str) -> _Locator | None:
        """None for functions of other packages, whose sources nobody looks at."""
        path = Path(file).resolve()
        directory = code_directory(path) if path.is_relative_to(PACKAGE) else None
        return cls(directory, path, function.__code__.co_firstlineno) if directory else None


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [cast(Any, _Locator)]  # noqa: RUF012 - numba's name


class _FunctionCache(caching.FunctionCache):
    """The compiler calls `load_overload`, and where that gives nothing compiles and calls `save_overload`."""

    _impl_class = _CacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        cast(Any, super()).__init__(function)
        self._turns: list[IO[bytes]] = []

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        load = cast(Any, super()).load_overload
        found = load(sig, target_context)
        if found is not None:
            return found
        turn = _wait_for_turn(Path(self._cache_path) / f"{self._impl.filename_base}.lock")
        if turn is None:
            return None
        found = load(sig, target_context)
        if found is None:
            self._turns.append(turn)
        else:
            turn.close()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            cast(Any, super()).save_overload(sig, data)
        finally:
            if self._turns:
                self._turns.pop().close()


def _wait_for_turn(lock: Path) -> IO[bytes] | None:
    """The lock of a function, held until it is closed; None where others held it too long, or it cannot be had.

    The system frees it with the process. Threads of one process take turns by the compiler's own lock, and a function
    is locked before those that it calls: nobody waits in a circle.
    """
    try:
        file = lock.open("wb")
    except OSError:
        return None
    until = time.monotonic() + LONGEST_WAIT_S
    while time.monotonic() < until:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            time.sleep(POLL_S)
        except OSError:  # a file system without locks
            break
        else:
            return file
    file.close()
    return None
