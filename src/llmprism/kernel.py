"""Loops over arrays that are interpreted on small inputs and compiled on large ones.

Compiling one kernel takes half a second; importing the compiler and loading the code that was kept of all kernels takes
half a second in all; and a small capture is diagnosed in less than that. So a kernel runs as the Python that it is
written in until enough rows have gone through the kernels of this process or one input is large, and as machine code
from then on. `llmprism.kernel_cache` compiles, and keeps the code on disk as long as no source of the package changes.

    @kernel
    def _total(values: Int64) -> int: ...

Both forms compute the same, to the bit: the Python form is the source of the compiled one. Where a loop in Python is
too slow even for small inputs, `@kernel(small=function)` names another function of the same arguments and result for
them, which a test compares with the kernel. Where that takes no loop over rows, only whole arrays, `by_arrays=function`
names it: `ARRAY_ROWS` of its rows count as one, and it is left after some twenty calls once the compiler is loaded.
`looks=3` is for one that looks three times at every row, `looks=0` for a search that leaves that to other kernels:
interpreted, it does not count, but each call of another kernel does.
`@compiled_kernel` is for those that use functions that Python and the compiler round differently.

Kernels may call kernels: interpreted ones call the interpreted form, compiled ones the compiled form.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, ParamSpec, TypeVar, overload

import numpy as np

from llmprism import started as started  # notes the time now; the compiler is imported later

__all__ = [
    "INTERPRETED_ROWS",
    "INTERPRETED_TOTAL",
    "Kernel",
    "always_compiled",
    "always_interpreted",
    "compiled_kernel",
    "kernel",
]

INTERPRETED_ROWS: Final = 60_000
"""Rows of one call beyond which it is compiled: all kernels together look 12 to 50 times at every record of a small
capture, at a microsecond in Python, and that of so many is worth the half second that loading compiled code takes."""

INTERPRETED_TOTAL: Final = 2_000_000
"""Rows of all interpreted calls of the process, after which everything is compiled: one to two seconds of Python."""

SEARCHED_SHARE: Final = 0.25
"""Of those rows, how many one search may take: one that looks at so many will look at many more (0.25 s of Python)."""

LOADING_ROWS: Final = 4_000
"""Rows of one kernel that are interpreted as fast as its code is loaded (4 ms), so that they are in any case."""

ARRAY_ROWS: Final = 16
"""Rows of a form by arrays that take as long as one interpreted row: 8 to 60 were measured."""

ARRAY_CALL: Final = 200
"""Interpreted rows that take as long as a form by arrays on no rows: some twenty calls of NumPy (0.1 to 0.7 ms)."""

P = ParamSpec("P")
R = TypeVar("R")


class _Tier:
    """How many rows have been interpreted in this process, and how many may be."""

    spent = 0
    rows: float = INTERPRETED_ROWS
    total: float = INTERPRETED_TOTAL


class _Depth(threading.local):
    """Is this thread inside an interpreted kernel? Then what that calls is interpreted with it."""

    inside = False


_depth = _Depth()


class Kernel(Generic[P, R]):
    """A function with a compiled form that is made when it is first worth its cost."""

    def __init__(
        self,
        function: Callable[P, R],
        small: Callable[P, R] | None = None,
        *,
        interpret: bool = True,
        arrays: bool = False,
        looks: int = 1,
    ) -> None:
        self.python = function
        self._arrays, self._looks = arrays, looks
        self._small = small or function
        self._interpret = interpret
        self._compiled: Callable[P, R] | None = None
        self._rows = 0
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._compiled is not None and _Tier.rows < np.inf:
            return self._compiled(*args, **kwargs)
        if _depth.inside:
            return self._small(*args, **kwargs)
        rows = max((argument.size for argument in args if isinstance(argument, np.ndarray)), default=0)
        if not self.interprets(rows):
            _Tier.spent = max(_Tier.spent, INTERPRETED_TOTAL)
            return self.compiled(*args, **kwargs)
        if not self._looks:
            return self._search(*args, **kwargs)
        _Tier.spent += rows // ARRAY_ROWS if self._arrays else rows * self._looks
        self._rows += ARRAY_CALL + rows // ARRAY_ROWS if self._arrays else rows
        _depth.inside = True
        try:
            return self._small(*args, **kwargs)
        finally:
            _depth.inside = False

    def _search(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Interpreted; its own rows are those that count meanwhile."""
        before = _Tier.spent
        try:
            return self._small(*args, **kwargs)
        finally:
            self._rows += _Tier.spent - before

    def interprets(self, rows: int) -> bool:
        """Whether a call with so many rows would be interpreted."""
        if not self._interpret or (self._compiled is not None and _Tier.rows < np.inf):
            return False
        if self._arrays:
            few = _Tier.spent < _Tier.total or self._rows <= LOADING_ROWS
        else:
            searched = not self._looks and self._rows > SEARCHED_SHARE * _Tier.total
            own = (self._rows + rows) * self._looks
            few = (_Tier.spent + rows <= _Tier.total and not searched) or 0 < own <= LOADING_ROWS
        return few and rows <= _Tier.rows

    @property
    def compiled(self) -> Callable[P, R]:
        """The compiled form."""
        if self._compiled is None:
            self._compiled = _compiled(self)
        return self._compiled


@overload
def kernel(function: Callable[P, R]) -> Kernel[P, R]: ...
@overload
def kernel(*, small: Callable[P, R], looks: int = 1) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
@overload
def kernel(*, by_arrays: Callable[P, R]) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
@overload
def kernel(*, looks: int) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
def kernel(
    function: Callable[P, R] | None = None,
    *,
    small: Callable[P, R] | None = None,
    by_arrays: Callable[P, R] | None = None,
    looks: int = 1,
) -> Kernel[P, R] | Callable[[Callable[P, R]], Kernel[P, R]]:
    """Decorator: the function as a kernel; `small` replaces it on small inputs, or `by_arrays`, whose rows count less;
    `looks` says how often it looks at every row itself, where that is not once."""
    if function is not None:
        return Kernel(function)
    return lambda wrapped: Kernel(wrapped, small or by_arrays, arrays=by_arrays is not None, looks=looks)


def compiled_kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Decorator: the function as a kernel that is never interpreted."""
    return Kernel(function, interpret=False)


def _compiled(loop: Kernel[P, R]) -> Callable[P, R]:
    from llmprism.kernel_cache import callable_from_compiled, compiled

    callable_from_compiled(Kernel)
    return compiled(nogil=True)(loop.python)


@contextmanager
def always_compiled() -> Iterator[None]:
    """Everything compiled while the context lasts: for tests and measurements."""
    with _tier(-1.0):
        yield


@contextmanager
def always_interpreted() -> Iterator[None]:
    """Everything interpreted while the context lasts: for tests."""
    with _tier(np.inf):
        yield


@contextmanager
def _tier(rows: float) -> Iterator[None]:
    before = _Tier.rows, _Tier.total
    _Tier.rows = _Tier.total = rows
    try:
        yield
    finally:
        _Tier.rows, _Tier.total = before
