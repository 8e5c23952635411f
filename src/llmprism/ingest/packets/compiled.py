"""How the packet kernels are compiled: one decorator for entry points, one for what they call.

Called functions are inlined and no reference counts are kept: the kernels only read and write arrays that the caller
owns, and counting references for every array handed to every function costs ten times the work itself (measured: 190 ns
against 20 ns per packet). Without counting, a kernel must not create arrays.

numba looks only at the file of an entry point to tell whether its compiled form is stale: after a change in another
file of this package, touch `scan.py` or delete the caches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

from numba import njit

__all__ = ["inlined", "kernel"]

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: Final[dict[str, Any]] = {"cache": True, "_nrt": False}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """An entry point that Python calls."""
    return cast("Callable[P, R]", njit(**_OPTIONS)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A part of a kernel."""
    return cast("Callable[P, R]", njit(forceinline=True, **_OPTIONS)(function))
