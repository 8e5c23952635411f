"""Machine code that was kept, run without the compiler.

A kernel that was compiled once needs nothing of the compiler to run: its code is an object file, and LLVM links one
into a process in half a millisecond. Importing the compiler takes a quarter of a second, and what it does to load a
kernel itself eight times as long as LLVM: it reads the types, and the intermediate code that it would inline elsewhere.
So `llmprism.kernel_cache` leaves a second file beside its own for every function that it compiles:

    <base>/kernels/<module>/<digest of all sources>/<function>-<line>.<python>.code

with one form of the function for each combination of argument types: what the arguments must be, the object file, and
the constants that its code looks up. Here the forms are linked, and called where the arguments are of their types, just
as the compiler would choose; other arguments are left to the compiler.

Object files call the compiler's runtime, three extension modules that are loaded from where it is installed, without
the package around them. The code is good for one installation of the compiler and of LLVM and for one processor, all of
which the file names; and no setting of the compiler may be given in the environment. How code and runtime meet is the
compiler's own business and may change with its next version: with one that is not known here (`KNOWN_COMPILERS`) the
compiler does everything itself.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib.machinery
import importlib.util
import marshal
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from llmprism.kernel_sources import code_directory_of

__all__ = ["ArrayKind", "Form", "ScalarKind", "add_form", "kept_code"]

Compiled = Callable[..., Any]

CONTIGUOUS, FORTRAN, ALIGNED, WRITEABLE = 0x1, 0x2, 0x100, 0x400
"""Flags of an array as NumPy numbers them."""

KNOWN_COMPILERS: Final = ("0.68",)
"""Versions of numba whose runtime has been tried here. LLVM ends the process where a symbol is missing, so a new one is
added when the tests of this module have passed with it."""

_PYTHON_SCALARS: Final = {"int64": "int", "float64": "float", "bool": "bool"}
"""What the compiler takes for the same as a scalar of NumPy."""


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """Arrays of one type: of their flags, those in `mask` are `flags`."""

    dtype: str
    ndim: int
    mask: int
    flags: int

    def test(self, name: str) -> str:
        dtype = f"dtypes[{self.dtype!r}]"
        same = f"({name}.dtype is {dtype} or {name}.dtype == {dtype})"
        shape = f"{name}.ndim == {self.ndim} and {name}.flags.num & {self.mask} == {self.flags}"
        return f"{name}.__class__ is ndarray and {same} and {shape}"


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """Numbers of one type of NumPy, or of Python where the compiler takes them for the same."""

    dtype: str

    def test(self, name: str) -> str:
        own = f"{name}.__class__ is scalars[{self.dtype!r}]"
        if self.dtype not in _PYTHON_SCALARS:
            return own
        small = f" and {-(2**63)} <= {name} < {2**63}" if self.dtype == "int64" else ""
        return f"({name}.__class__ is {_PYTHON_SCALARS[self.dtype]}{small} or {own})"


@dataclass(frozen=True, slots=True)
class Form:
    """A function compiled for one combination of argument types. `entry` is the symbol to call, `environments` are the
    constants that its code looks up, by symbol: types of NumPy, by name; `own` is the symbol of those of the function
    itself."""

    arguments: tuple[ArrayKind | ScalarKind, ...]
    entry: str
    own: str
    environments: tuple[tuple[str, tuple[str, ...]], ...]
    object_file: bytes


def add_form(function: FunctionType, form: Form) -> None:
    """Keeps a form besides those of the same function that are kept; the caller sees to it that nobody else does so
    at the same time."""
    file = _file_of(function)
    forms = _forms_in(file) if file is not None else []
    if file is None or form in forms:
        return
    forms = [one for one in forms if one.arguments != form.arguments]
    written = file.with_suffix(f".{os.getpid()}")
    written.write_bytes(marshal.dumps((_installation(), [_as_tuple(one) for one in (*forms, form)])))
    written.replace(file)


def kept_code(function: FunctionType, otherwise: Compiled) -> Compiled | None:
    """The function as machine code that was kept, None where there is none; `otherwise` is called with arguments of
    other types."""
    file = _file_of(function) if _usable(function) else None
    try:
        forms = _forms_in(file) if file is not None else []
        if not forms or not _runtime():
            return None
    except (AttributeError, ImportError, LookupError):  # a compiler whose runtime is another one
        return None
    code = function.__code__
    return _chosen_by_arguments(code.co_varnames[: code.co_argcount], forms, otherwise, function.__name__)


def _usable(function: FunctionType) -> bool:
    """Settings of the compiler may mean other code; defaults of arguments are for it to fill in."""
    settings = {name for name in os.environ if name.startswith("NUMBA_")} - {"NUMBA_CACHE_DIR"}
    return _known_compiler() and not (settings or function.__defaults__ or function.__kwdefaults__)


@cache
def _known_compiler() -> bool:
    """As the installed files say: asking the package would import it."""
    try:
        stated = re.search(r'"version": "(\d+\.\d+)', (_package("numba") / "_version.py").read_text(encoding="utf-8"))
    except (OSError, ModuleNotFoundError):
        return False
    return stated is not None and stated[1] in KNOWN_COMPILERS


def _file_of(function: FunctionType) -> Path | None:
    directory = code_directory_of(function)
    if directory is None:
        return None
    line, tag = function.__code__.co_firstlineno, sys.implementation.cache_tag
    return directory / f"{function.__qualname__}-{line}.{tag}.code"


def _as_tuple(form: Form) -> tuple[Any, ...]:
    kinds = tuple(
        (one.dtype, one.ndim, one.mask, one.flags) if isinstance(one, ArrayKind) else (one.dtype,)
        for one in form.arguments
    )
    return kinds, form.entry, form.own, form.environments, form.object_file


def _forms_in(file: Path) -> list[Form]:
    """Empty where there is no such file, or it is of another installation or processor."""
    try:
        installation, forms = marshal.loads(file.read_bytes())  # noqa: S302 - as code of Python is kept
    except (OSError, ValueError, EOFError, TypeError):
        return []
    if installation != _installation():
        return []
    return [
        Form(tuple(ArrayKind(*kind) if len(kind) > 1 else ScalarKind(*kind) for kind in kinds), *rest)
        for kinds, *rest in forms
    ]


def _chosen_by_arguments(names: Sequence[str], forms: Sequence[Form], otherwise: Compiled, name: str) -> Compiled:
    """A function that calls the first form whose types the arguments have. It is written out, as that of a dataclass
    is: the tests are made at every call, and a loop over them would take five times as long."""
    functions: list[Compiled] = []
    functions += [_linked_at_first_call(functions, number, form, name) for number, form in enumerate(forms)]
    given = ", ".join(names)
    lines = [f"def chosen({given}):"]
    for number, form in enumerate(forms):
        tests = " and ".join(kind.test(one) for kind, one in zip(form.arguments, names, strict=True))
        lines.append(f"    if {tests or 'True'}:\n        return functions[{number}]({given})")
    lines.append(f"    return otherwise({given})")
    kinds = {kind.dtype for form in forms for kind in form.arguments}
    place: dict[str, Any] = {
        "functions": functions,
        "otherwise": otherwise,
        "ndarray": np.ndarray,
        "dtypes": {kind: np.dtype(kind) for kind in kinds},
        "scalars": {kind: np.dtype(kind).type for kind in kinds},
    }
    exec("\n".join(lines), place)  # noqa: S102 - of our own names and numbers
    chosen: Compiled = place["chosen"]
    return chosen


def _linked_at_first_call(functions: list[Compiled], number: int, form: Form, name: str) -> Compiled:
    def first_call(*arguments: Any) -> Any:
        functions[number] = _runtime().link(form, name)
        return functions[number](*arguments)

    return first_call


@cache
def _installation() -> tuple[Any, ...]:
    """The compiler, LLVM and the processor: what code is good for. Changes with every version of them."""
    places = [_package(name) for name in ("numba", "llvmlite")]
    files = [places[0] / "_version.py", *sorted((places[1] / "binding").glob("*llvmlite*"))]
    binding = _llvm()
    stats = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return (*stats, np.__version__, binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(name)
    return Path(found.origin).resolve().parent


def _llvm() -> Any:
    import llvmlite.binding as binding

    return binding


_starting: Final = threading.RLock()


def _runtime() -> _Runtime:
    with _starting:
        return _started()


@cache
def _started() -> _Runtime:
    return _Runtime()


class _Runtime:
    """LLVM with the functions that compiled code calls, and what it has linked."""

    def __init__(self) -> None:
        self._llvm = _llvm()
        self._environments: dict[str, Any] = {}
        self._linked: dict[str, Compiled] = {}
        helpers, self._functions, memory = (
            _extension(name) for name in ("numba._helperlib", "numba._dynfunc", "numba.core.runtime._nrt_python")
        )
        memory.memsys_use_cpython_allocator()
        for name, address in _symbols(helpers, self._functions, memory):
            self._llvm.add_symbol(name, address)
        self._llvm.initialize_native_target()
        self._llvm.initialize_native_asmprinter()
        triple = self._llvm.get_process_triple()
        machine = self._llvm.Target.from_triple(triple).create_target_machine(
            cpu=self._llvm.get_host_cpu_name(), features=self._llvm.get_host_cpu_features().flatten(),
            reloc="static" if triple.startswith(("x86", "i386", "i686")) else "default", codemodel="jitdefault",
            jit=True,
        )  # fmt: skip
        empty = self._llvm.parse_assembly(f'target triple = "{triple}"')
        self._engine = self._llvm.create_mcjit_compiler(empty, machine)

    def link(self, form: Form, name: str) -> Compiled:
        """The function that a form is, ready to be called."""
        with _starting:
            if form.entry in self._linked:
                return self._linked[form.entry]
            self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(form.object_file))
            self._engine.finalize_object()
            for symbol, constants in form.environments:
                self._set_environment(symbol, constants)
            entry = self._engine.get_function_address(form.entry)
            own = self._environments[form.own]
            self._linked[form.entry] = self._functions.make_function(
                sys.modules[__name__], name, "", entry, own, (self,)
            )
            return self._linked[form.entry]

    def _set_environment(self, symbol: str, constants: tuple[str, ...]) -> None:
        known = self._environments.get(symbol)
        if known is None:
            known = self._functions.Environment({"__name__": __name__})
            known.consts[:] = [np.dtype(one) for one in constants]
            self._environments[symbol] = known
        address = self._engine.get_global_value_address(symbol)
        if not address:
            raise LookupError(symbol)
        ctypes.c_void_p.from_address(address).value = id(known)


def _symbols(helpers: ModuleType, functions: ModuleType, memory: ModuleType) -> Iterator[tuple[str, int]]:
    """The names by which compiled code calls the runtime, functions of the C library and of Python."""
    yield "_Py_NoneStruct", id(None)
    for name, address in (*helpers.c_helpers.items(), *functions.c_helpers.items()):
        yield f"numba_{name}", address
    yield "numba_unpickle", ctypes.cast(_UNPICKLED, ctypes.c_void_p).value or 0
    for name in _MATHEMATICS & helpers.c_helpers.keys():
        yield name, helpers.c_helpers[name]
    for error in vars(builtins).values():
        if isinstance(error, type) and issubclass(error, BaseException):
            yield f"PyExc_{error.__name__}", id(error)
    for name, address in memory.c_helpers.items():
        yield name if name.startswith("_") else f"NRT_{name}", address


_MATHEMATICS: Final = frozenset(
    (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "erf", "erfc",
        "exp", "exp2", "expm1", "fabs", "floor", "fmod", "frexp", "hypot", "ldexp", "lgamma", "log", "log10", "log1p",
        "log2", "nextafter", "pow", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
    )
)  # fmt: skip
"""Functions of the C library that the compiler takes from its runtime."""


def _extension(name: str) -> ModuleType:
    """An extension module of the compiler, loaded without the package around it; the package finds it there later."""
    if name in sys.modules:
        return sys.modules[name]
    base = _package("numba").joinpath(*name.split(".")[1:])
    files = [Path(f"{base}{ending}") for ending in importlib.machinery.EXTENSION_SUFFIXES]
    file = next(one for one in files if one.exists())
    loader = importlib.machinery.ExtensionFileLoader(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    if spec is None:
        raise ModuleNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


_constants: Final[dict[int, Any]] = {}


def _unpickled(address: int, size: int, _digest: int) -> Any:
    """A constant of linked code, read once. The runtime has a function for that, which imports the compiler."""
    if address not in _constants:
        _constants[address] = pickle.loads(ctypes.string_at(address, size))  # noqa: S301 - of our own code
    return _constants[address]


_UNPICKLED: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(_unpickled)
