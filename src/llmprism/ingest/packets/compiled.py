"""How the packet kernels are compiled: decorators for entry points and for what they call.

Called functions are inlined and no reference counts are kept: the kernels only read and write arrays that the caller
owns, and counting references for every array handed to every function costs ten times the work itself (measured: 190 ns
against 20 ns per packet). Without counting, a kernel must not create arrays.

numba takes a cached kernel for fresh as long as the kernel's own file is unchanged, whatever happened to the functions
inlined into it. So the digest of all files of this package is made part of the stamp that it compares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

from numba import njit

__all__ = ["allocating", "inlined", "kernel", "outlined", "sources_digest"]

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: Final[dict[str, Any]] = {"_nrt": False}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """An entry point that Python calls; its compiled form is kept on disk."""
    return cast("Callable[P, R]", _stamped(njit(cache=True, **_OPTIONS)(function)))


def allocating(function: Callable[P, R]) -> Callable[P, R]:
    """An entry point that creates arrays, and so keeps reference counts."""
    return cast("Callable[P, R]", _stamped(njit(cache=True)(function)))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A part of a kernel."""
    return cast("Callable[P, R]", njit(forceinline=True, **_OPTIONS)(function))


def outlined(function: Callable[P, R]) -> Callable[P, R]:
    """A part of a kernel that few packets need; called, so that the code for the many stays small."""
    return cast("Callable[P, R]", njit(**_OPTIONS)(function))


@lru_cache(maxsize=1)
def sources_digest() -> str:
    """Changes with every file of this package."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _stamped(dispatcher: Any) -> Any:
    if not hasattr(dispatcher, "_cache"):  # NUMBA_DISABLE_JIT: plain Python, for coverage-guided fuzzing
        return dispatcher
    index = dispatcher._cache._cache_file
    index._source_stamp = (index._source_stamp, sources_digest())
    return dispatcher
