"""How the simulator's kernels are compiled.

They pass tables (named tuples of a dozen arrays) to one another and allocate nothing. Reference counting of those
arrays at every call costs ten times the work itself, so it is switched off: `_nrt=False` compiles without numba's
run-time memory management, and a kernel that would allocate fails to compile.

Compiled kernels are cached per file. numba does not see that a kernel of another file has changed: after an edit run
`find src -name "*.nb[ci]" -delete`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

__all__ = ["inlined", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False}


def kernel(function: F) -> F:
    return cast(F, njit(**OPTIONS)(function))


def inlined(function: F) -> F:
    return cast(F, njit(inline="always", **OPTIONS)(function))
