"""How the simulator's kernels are compiled.

They pass tables (named tuples of a dozen arrays) to one another and allocate nothing. Reference counting of those
arrays at every call costs ten times the work itself, so it is switched off: `_nrt=False` compiles without numba's
run-time memory management, and a kernel that would allocate fails to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from llmprism.kernel_cache import compiled

__all__ = ["inlined", "kernel"]

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: Final[dict[str, Any]] = {"_nrt": False}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A function that Python or another kernel calls."""
    return compiled(**_OPTIONS)(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A part of a kernel, copied into it before types are inferred."""
    return compiled(inline="always", **_OPTIONS)(function)
