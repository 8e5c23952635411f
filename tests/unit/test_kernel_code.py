"""Kept machine code runs without the compiler, and gives what the compiler's own code gives."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llmprism.kernel_sources import PACKAGE

KERNELS = """
import math
import numpy as np
from llmprism.kernel import compiled_kernel, kernel

@compiled_kernel
def several(values, factor, half, flag):
    if values.size == 0:
        raise ValueError("nothing there")
    found = np.zeros(values.size, dtype=np.float64)
    for i in range(values.size):
        found[i] = values[i] * factor * half + math.lgamma(3.0 + flag)
    return found, values.size, flag, half

@compiled_kernel
def first(values):
    return values[0] + 1

@kernel
def summed(values):
    total = 0
    for value in values:
        total += value
    return total

@kernel
def rare(values):
    total = 0
    for value in values:
        total += value
    return total

SEEN = []

def by_arrays(values):
    SEEN.append(values.size)
    return values.sum()

@kernel(by_arrays=by_arrays)
def quick(values):
    total = 0
    for value in values:
        total += value
    return total
"""
HEAD = "import sys\nimport numpy as np\nfrom llmprism.stats.some_kernels import *\n"
SEVERAL = """
found, size, flag, half = several(np.arange(3), 2, 0.5, True)
print(found.dtype, found.tolist(), size, flag, half, 'numba' in sys.modules)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with a few kernels more."""
    copied = tmp_path_factory.mktemp("kernels") / "llmprism"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "stats" / "some_kernels.py").write_text(KERNELS)
    return copied


def _printed(package: Path, code: str, **environment: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    run = subprocess.run(
        [sys.executable, "-c", HEAD + code], capture_output=True, text=True, check=True, cwd=package.parent,
        env={**kept, "PYTHONPATH": str(package.parent), **environment},
    )  # fmt: skip
    return run.stdout.splitlines()


@pytest.fixture(scope="module")
def compiled(package: Path) -> list[str]:
    """What was printed while everything was compiled."""
    code = (
        SEVERAL
        + "first(np.arange(3)); first(np.arange(3.0)); summed.compiled(np.arange(3)); quick.compiled(np.arange(3))"
    )
    return _printed(package, code)


def test_kept_code_gives_the_same_without_the_compiler(package, compiled):
    assert compiled[0].endswith("True")
    assert _printed(package, SEVERAL) == [compiled[0].removesuffix("True") + "False"]


def test_the_form_is_that_of_the_types_of_the_arguments(package, compiled):
    code = "print(repr(first(np.arange(3))), repr(first(np.arange(3.0))), 'numba' in sys.modules)"
    assert _printed(package, code) == ["1 1.0 False"]


@pytest.mark.parametrize(
    "values", ["np.arange(6)[::2]", "np.arange(3, dtype=np.int32)", "np.arange(3).astype('>i8')", "frozen"]
)
def test_arguments_of_other_types_are_left_to_the_compiler(package, compiled, values, tmp_path):
    """Not contiguous, of another size, in another order of bytes, not to be written to."""
    code = f"frozen = np.arange(3); frozen.flags.writeable = False\nassert 'numba' not in sys.modules\nkept = {values}"
    code += "\ntry:\n    print(first(kept), 'numba' in sys.modules)\nexcept Exception:\n    print('refused')"
    expected = "refused" if ">" in values else "1 True"
    assert _printed(_copy_of(package, tmp_path), code) == [expected]


def test_numbers_beyond_the_type_are_left_to_the_compiler(package, compiled, tmp_path):
    code = "found = several(np.arange(3), 2**63, 0.5, True)[0]\nprint(found.size, 'numba' in sys.modules)"
    assert _printed(_copy_of(package, tmp_path), code) == ["3 True"]


def test_of_numbers_those_of_python_and_of_numpy_are_one_type(package, compiled):
    code = "print(several(np.arange(3), np.int64(2), np.float64(0.5), np.True_)[0][2], 'numba' in sys.modules)"
    python = "print(several(np.arange(3), 2, 0.5, True)[0][2], 'numba' in sys.modules)"
    assert _printed(package, code) == _printed(package, python)
    assert _printed(package, code)[0].endswith("False")


def test_small_inputs_of_other_types_are_interpreted(package, compiled):
    code = "from llmprism import kernel\nkernel._Tier.spent = kernel.KEPT_TOTAL\n"
    code += "print(summed(np.arange(600)), summed(np.arange(600.0)), 'numba' in sys.modules)"
    assert _printed(package, code) == ["179700 179700.0 False"]


def test_a_form_by_arrays_is_left_for_kept_code_after_few_calls(package, compiled):
    code = "from llmprism import kernel\nkernel._Tier.spent = kernel.KEPT_TOTAL\n"
    code += "print([int(quick(np.arange(4))) for _ in range(9)] == [6] * 9, len(SEEN), 'numba' in sys.modules)"
    assert _printed(package, code) == ["True 3 False"]


def test_a_kernel_without_kept_code_is_compiled_sooner_where_others_have_some(package, compiled, tmp_path):
    code = "from llmprism import kernel\nprint(rare(np.arange(30_000)), 'numba' in sys.modules)\nfirst(np.arange(3))\n"
    code += "print(rare(np.arange(4)), 'numba' in sys.modules)\nrare(np.arange(30_000)); print('numba' in sys.modules)"
    assert _printed(_copy_of(package, tmp_path), code) == ["449985000 False", "6 True", "True"]


def test_errors_of_kept_code_are_raised(package, compiled):
    code = "try:\n    several(np.arange(0), 2, 0.5, True)\nexcept ValueError as error:\n    print(error)"
    assert _printed(package, code) == ["nothing there"]


def test_the_compiler_can_be_loaded_afterwards(package, compiled, tmp_path):
    code = "first(np.arange(3)); print('numba' in sys.modules); print(first(np.arange(3, dtype=np.int16)))\n"
    code += "print(first(np.arange(3)), summed.compiled(np.arange(3)))"
    assert _printed(_copy_of(package, tmp_path), code) == ["False", "1", "1 3"]


def test_with_a_compiler_that_is_not_known_it_loads_its_code_itself(package, compiled):
    unknown = "from llmprism import kernel_code\nkernel_code.KNOWN_COMPILERS = ('0.1',)\n"
    assert _printed(package, unknown + SEVERAL) == compiled[:1]


def test_settings_of_the_compiler_make_it_load(package, compiled):
    assert _printed(package, "first(np.arange(3)); print('numba' in sys.modules)", NUMBA_BOUNDSCHECK="0") == ["True"]


def test_code_of_another_installation_is_not_run(package, compiled, tmp_path):
    copied = _copy_of(package, tmp_path)
    code = "from llmprism import kernel_code\n"
    code += "there = kernel_code._installation()\nkernel_code._installation = lambda: (*there, 'another')\n"
    assert _printed(copied, code + "first(np.arange(3)); print('numba' in sys.modules)") == ["True"]


def _copy_of(package: Path, place: Path) -> Path:
    """With the code that was kept; what is compiled besides is kept in the copy."""
    return Path(shutil.copytree(package, place / "llmprism"))
