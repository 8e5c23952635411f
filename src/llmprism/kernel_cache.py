"""Compiles functions to machine code and keeps the code on disk, stamped with all sources that it depends on.

The compiler's own cache takes a compiled function for fresh as long as the file of that function is unchanged. It does
not see that a constant or a callee in another file has changed, and goes on with the old value. So every compiled
function of the package is made here, by `compiled`, and its machine code lies where `llmprism.kernel_sources` says:

    <base>/kernels/<module>/<digest of all sources>/<module>.<function>-<line>.<python>.nbc

Where no place can be written to, or the sources were edited after this process had loaded them, the code is compiled
anew and not kept. Of several processes that need the same function at once, one compiles it and the others wait for its
code: copies of a process and test runners would all spend the same seconds otherwise.

Importing this module imports the compiler, which takes a fifth of a second: `llmprism.kernel` does so only when it is
worth it. Kept code needs no more than that to run: what it takes to compile is imported when something must be, another
fifth. There the compiler looks for scipy, to multiply matrices with, whose import takes as long again; no function here
multiplies matrices, so scipy is not found while the compiler loads. This module must be the first to import it.
"""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, ParamSpec, TypeVar, cast, overload

import numpy as np

from llmprism.kernel_code import ALIGNED, CONTIGUOUS, FORTRAN, WRITEABLE, ArrayKind, Form, ScalarKind, add_form
from llmprism.kernel_sources import code_directory_of

__all__ = ["callable_from_compiled", "compiled"]

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_WAIT_S: Final = 60.0
"""How long to wait for another process that compiles the same function, in seconds: the slowest kernel takes 10 s on a
core of its own. A process that failed to compile and goes on holds its lock; then everybody compiles."""

POLL_S: Final = 0.05


@contextmanager
def _not_found(module: str) -> Iterator[None]:
    """Imports of this module fail while the context lasts; nothing changes where it has been imported before."""
    hidden = module not in sys.modules
    if hidden:
        sys.modules[module] = cast(Any, None)
    try:
        yield
    finally:
        if hidden:
            del sys.modules[module]


with _not_found("scipy"):
    from llvmlite.binding import ffi
    from numba import njit, types
    from numba.core import caching
    from numba.core.environment import Environment, lookup_environment
    from numba.core.runtime.nrt import rtsys
    from numba.extending import typeof_impl
    from numba.np.numpy_support import as_dtype


def _tell_nobody_of_calls() -> None:
    """The compiler tells its event system of every call of LLVM before and after it, some 250 times for a kernel whose
    code is loaded: a fifth of what that takes. Nobody listens here."""
    lock = getattr(cast(Any, ffi).lib, "_lock", None)
    for callbacks in list(getattr(lock, "_cblist", ())):
        cast(Any, ffi).unregister_lock_callback(*callbacks)


_tell_nobody_of_calls()


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


def callable_from_compiled(kind: type[Any]) -> None:
    """Compiled functions may call what is of this class: they call its attribute `compiled`."""
    if kind not in typeof_impl.registry:

        @typeof_impl.register(kind)
        def _(value: Any, context: object) -> Any:  # noqa: ARG001 - the compiler hands it in
            return types.Dispatcher(value.compiled)


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
        """None where nothing is kept of a function."""
        directory = code_directory_of(function)
        return cls(directory, Path(file), function.__code__.co_firstlineno) if directory else None


class _CacheImpl(caching.CompileResultCacheImpl):
    """What is kept of a compiled function. The compiler's own form holds the environments of all functions that were
    compiled into it in a form that imports their modules when it is read."""

    _locator_classes = [cast(Any, _Locator)]  # noqa: RUF012 - numba's name

    def reduce(self, cres: Any) -> tuple[Any, ...]:
        *parts, environments = cast(Any, super()).reduce(cres)
        return (*parts, tuple((one.globals["__name__"], one.consts, one.env_name) for one in environments))

    def rebuild(self, target_context: Any, payload: tuple[Any, ...]) -> Any:
        *parts, environments = payload
        return cast(Any, super()).rebuild(target_context, (*parts, tuple(_environment(*one) for one in environments)))


def _environment(module: str, constants: list[Any], name: str) -> Any:
    """The environment of a compiled function: its constants. The names of its module are those that are there: only
    functions that are not compiled through and through look them up, of which there are none."""
    known = cast(Any, lookup_environment)(name)
    if known is not None:
        return known
    made = cast(Any, Environment)(vars(sys.modules[module]) if module in sys.modules else {"__name__": module})
    made.consts[:], made.env_name = constants, name
    Environment._memo[name] = made
    return made


class _FunctionCache(caching.FunctionCache):
    """The compiler calls `load_overload`, and where that gives nothing compiles and calls `save_overload`."""

    _impl_class = _CacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        cast(Any, super()).__init__(function)
        self._turns: list[IO[bytes]] = []

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with _not_found("scipy"):
            rtsys.initialize(target_context)  # the functions that kept code calls to allocate arrays
            found = cast(Any, self)._load_overload(sig, target_context)
            if found is not None:
                return found
            target_context.refresh()
        turn = _wait_for_turn(Path(self._cache_path) / f"{self._impl.filename_base}.lock")
        if turn is None:
            return None
        found = cast(Any, self)._load_overload(sig, target_context)
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

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        own = cast(Any, self)
        payload = own._cache_file.load(own._index_key(sig, target_context.codegen()))
        if payload is None:
            return None
        self._keep_form(payload)
        return own._impl.rebuild(target_context, payload)

    def _save_overload(self, sig: Any, data: Any) -> None:
        own = cast(Any, self)
        if own._impl.check_cachable(data):
            own._impl.locator.ensure_cache_path()
            payload = own._impl.reduce(data)
            own._cache_file.save(own._index_key(sig, data.codegen), payload)
            self._keep_form(payload)

    def _keep_form(self, payload: tuple[Any, ...]) -> None:
        """The same for processes without the compiler."""
        form = _form_of(*payload)
        if form is not None:
            with suppress(OSError):
                add_form(cast(Any, self)._py_func, form)


def _form_of(library: tuple[Any, ...], description: Any, environment: Any, signature: Any, *rest: Any) -> Form | None:
    """What is kept of a compiled function, as it runs without the compiler; None where it needs the compiler."""
    kinds = [_kind_of(one) for one in signature.args]
    environments = rest[-1]
    constants = [constant for _, used, _ in environments for constant in used]
    if None in kinds or any(not isinstance(one, np.dtype) for one in constants):
        return None
    return Form(
        tuple(one for one in kinds if one is not None), description.llvm_cpython_wrapper_name, environment.env_name,
        tuple((name, tuple(constant.str for constant in used)) for _, used, name in environments), library[2][0],
    )  # fmt: skip


def _kind_of(argument: Any) -> ArrayKind | ScalarKind | None:
    """None for types that only the compiler recognises."""
    array = type(argument) is types.Array
    number = argument.dtype if array else argument
    if not isinstance(number, (types.Integer, types.Float, types.Boolean)) or isinstance(number, types.Literal):
        return None
    dtype = str(as_dtype(number))
    if not array:
        return ScalarKind(dtype)
    layout = {"C": (CONTIGUOUS, CONTIGUOUS), "F": (CONTIGUOUS | FORTRAN, FORTRAN), "A": (CONTIGUOUS | FORTRAN, 0)}
    mask, flags = layout[argument.layout]
    own = ALIGNED * argument.aligned | WRITEABLE * argument.mutable
    return ArrayKind(dtype, argument.ndim, mask | ALIGNED | WRITEABLE, flags | own)


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
