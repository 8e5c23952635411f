"""How the packet kernels are compiled: decorators for entry points and for what they call.

Called functions are inlined and no reference counts are kept: the kernels only read and write arrays that the caller
owns, and counting references for every array handed to every function costs ten times the work itself (measured: 190 ns
against 20 ns per packet). Without counting, a kernel must not create arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from llmprism.kernel_cache import compiled

__all__ = ["allocating", "inlined", "kernel", "outlined"]

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: Final[dict[str, Any]] = {"_nrt": False}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """An entry point that Python calls; its compiled form is kept on disk."""
    return compiled(**_OPTIONS)(function)


def allocating(function: Callable[P, R]) -> Callable[P, R]:
    """An entry point that creates arrays, and so keeps reference counts."""
    return compiled(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A part of a kernel."""
    return compiled(cached=False, forceinline=True, **_OPTIONS)(function)


def outlined(function: Callable[P, R]) -> Callable[P, R]:
    """A part of a kernel that few packets need; called, so that the code for the many stays small."""
    return compiled(cached=False, **_OPTIONS)(function)
