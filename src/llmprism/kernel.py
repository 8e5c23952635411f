"""Loops over arrays that are interpreted on small inputs and compiled on large ones.

Compiling one kernel takes half a second, loading the compiler and what it kept of all kernels as long in all, and a
small capture is diagnosed in less than that. So a kernel runs as the Python that it is written in until enough rows
have gone through the kernels of this process or one input is large, and as machine code from then on. Few are enough
where its code has been kept, because that runs without the compiler (`llmprism.kernel_code`). Where it must be
compiled, `llmprism.kernel_cache` does so, and keeps the code as long as no source that it depends on changes.

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
from dataclasses import dataclass
from types import FunctionType
from typing import Final, Generic, ParamSpec, TypeVar, cast, overload

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
capture, at a microsecond in Python, and that of so many is worth the half second that the compiler takes to load."""

INTERPRETED_TOTAL: Final = 2_000_000
"""Rows of all interpreted calls of the process, after which everything is compiled: one to two seconds of Python."""

KEPT_TOTAL: Final = 40_000
"""Rows of all interpreted calls of the process, after which code that was kept is run, where it was: as many as Python
looks at while LLVM is loaded (0.05 s)."""

SEARCHED_SHARE: Final = 0.25
"""Of those rows, how many one search may take: one that looks at so many will look at many more (0.25 s of Python)."""

LOADING_ROWS: Final = 4_000
"""Rows of one kernel that are interpreted as fast as the compiler loads it (4 ms), so that they are in any case."""

UNKEPT_ROWS: Final = 20_000
"""Rows of a kernel without kept code that are interpreted at most where that of others was kept: it is compiled once,
for a second or two, so that it is kept too and does not take its 20 ms of Python in every run."""

KEPT_LOADING_ROWS: Final = 500
"""The same where LLVM alone links its code (0.5 ms)."""

ARRAY_ROWS: Final = 16
"""Rows of a form by arrays that take as long as one interpreted row: 8 to 60 were measured."""

ARRAY_CALL: Final = 200
"""Interpreted rows that take as long as a form by arrays on no rows: some twenty calls of NumPy (0.1 to 0.7 ms)."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many rows are interpreted at most: of one call, of all, of one kernel in any case."""

    rows: float
    total: float
    own: float


_COMPILING: Final = _Limits(INTERPRETED_ROWS, INTERPRETED_TOTAL, LOADING_ROWS)
_KEPT: Final = _Limits(KEPT_TOTAL, KEPT_TOTAL, KEPT_LOADING_ROWS)
_UNKEPT: Final = _Limits(UNKEPT_ROWS, KEPT_TOTAL, UNKEPT_ROWS)


class _Tier:
    """How many rows have been interpreted in this process, how many may be before code is compiled, or loaded, and
    whether kept code runs in it."""

    spent = 0
    compiling = _COMPILING
    kept = _KEPT
    some_kept = False

    @classmethod
    def before_compiling(cls) -> _Limits:
        return _UNKEPT if cls.some_kept and cls.compiling is _COMPILING else cls.compiling


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
        self._code: Callable[P, R] | None = None
        self._compiled: Callable[P, R] | None = None
        self._looked_for_code = False
        self._rows = 0
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._code is not None and _Tier.compiling.rows < np.inf:
            return self._code(*args, **kwargs)
        if _depth.inside:
            return self._small(*args, **kwargs)
        if self.interprets(_rows_of(args)):
            return self._interpreted(*args, **kwargs)
        return self.machine_code(*args, **kwargs)

    def _interpreted(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._looks:
            return self._search(*args, **kwargs)
        rows = _rows_of(args)
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
        if not self._interpret or (self._code is not None and _Tier.compiling.rows < np.inf):
            return False
        if self._few(rows, _Tier.kept):
            return True
        return self._kept_code() is None and self._few(rows, _Tier.before_compiling())

    def _few(self, rows: int, most: _Limits) -> bool:
        if self._arrays:
            few = _Tier.spent < most.total or self._rows <= most.own
        else:
            searched = not self._looks and self._rows > SEARCHED_SHARE * most.total
            own = (self._rows + rows) * self._looks
            few = (_Tier.spent + rows <= most.total and not searched) or 0 < own <= most.own
        return few and rows <= most.rows

    @property
    def machine_code(self) -> Callable[P, R]:
        """The form that runs without Python: code that was kept, or the compiled one."""
        if self._code is None and self._kept_code() is None:
            _Tier.spent = max(_Tier.spent, INTERPRETED_TOTAL)
            self._code = self.compiled
        return cast("Callable[P, R]", self._code)

    def _kept_code(self) -> Callable[P, R] | None:
        """Where there is some, it is run from then on, and that of other kernels is worth its loading."""
        if not self._looked_for_code:
            from llmprism.kernel_code import kept_code

            self._code = kept_code(cast("FunctionType", self.python), self._with_other_types)
            self._looked_for_code = True
            if self._code is not None:
                _Tier.spent, _Tier.some_kept = max(_Tier.spent, KEPT_TOTAL), True
        return self._code

    def _with_other_types(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """A call with arguments of types for which no code was kept."""
        if _depth.inside:
            return self._small(*args, **kwargs)
        if self._interpret and self._compiled is None and self._few(_rows_of(args), _Tier.before_compiling()):
            return self._interpreted(*args, **kwargs)
        return self.compiled(*args, **kwargs)

    @property
    def compiled(self) -> Callable[P, R]:
        """The compiled form, as the compiler has it: compiled kernels call it."""
        if self._compiled is None:
            self._compiled = _compiled(self)
            self._code = self._code or self._compiled
        return self._compiled


def _rows_of(arguments: tuple[object, ...]) -> int:
    return max((one.size for one in arguments if isinstance(one, np.ndarray)), default=0)


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
    before = _Tier.compiling, _Tier.kept
    _Tier.compiling = _Tier.kept = _Limits(rows, rows, min(rows, LOADING_ROWS))
    try:
        yield
    finally:
        _Tier.compiling, _Tier.kept = before
