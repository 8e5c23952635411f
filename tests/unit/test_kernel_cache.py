"""Compiled code follows the sources: its own file, and every file that one imports."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llmprism import kernel_sources
from llmprism.kernel_sources import PACKAGE

CALLEE = """
from llmprism.kernel_cache import compiled

LIMIT = 3

@compiled
def callee(value: int) -> int:
    return value + LIMIT
"""
MIDDLE = "from llmprism.stats import (\n    a_callee,\n)\nLIMIT, callee = a_callee.LIMIT, a_callee.callee\n"
CALLER = """
import numpy as np
from llmprism.kernel import compiled_kernel
from llmprism.stats.a_middle import LIMIT, callee

@compiled_kernel
def caller(values):
    return callee(values[0]) * LIMIT
"""
RUN = """
import numpy as np
from llmprism.stats.a_caller import caller
result = caller(np.array([1]))
print(result, int(caller._compiled is None or sum(caller._compiled.stats.cache_hits.values())))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with a kernel whose callee and constant are two files away."""
    copied = tmp_path / "llmprism"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in (("a_callee", CALLEE), ("a_middle", MIDDLE), ("a_caller", CALLER)):
        (copied / "stats" / f"{name}.py").write_text(text)
    return copied


def _result(package: Path, **environment: str) -> tuple[int, int]:
    """What the kernel returns in a new process, and whether its code was kept."""
    result, hits = _printed(package, RUN, **environment).split()
    return int(result), int(hits)


def _printed(package: Path, code: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=package.parent,
        env={**kept, "PYTHONPATH": str(package.parent), **environment},
    )  # fmt: skip
    return run.stdout


def _directories(package: Path) -> list[Path]:
    return list((package / "__pycache__/kernels/stats.a_caller").iterdir())


def test_an_edit_of_a_callee_recompiles_its_callers(package):
    assert _result(package) == (12, 0)
    assert _result(package) == (12, 1)
    callee = package / "stats" / "a_callee.py"
    callee.write_text(CALLEE.replace("LIMIT = 3", "LIMIT = 5"))
    assert _result(package) == (30, 0)


def test_an_edit_of_a_file_that_nobody_calls_recompiles_nothing(package):
    _result(package)
    other = package / "report" / "text.py"
    other.write_text(other.read_text() + "\n# a remark\n")
    assert _result(package) == (12, 1)


def test_sources_edited_after_the_start_are_not_taken_for_those_that_run(package):
    callee = package / "stats" / "a_callee.py"
    later = callee.stat().st_mtime + 3600
    os.utime(callee, (later, later))
    assert _result(package) == (12, 0)
    assert _result(package) == (12, 0)


def test_code_of_old_sources_is_removed(package):
    _result(package)
    module = _directories(package)[0].parent
    for number in range(2 * kernel_sources.KEPT_STAMPS):
        (module / f"{number:024d}").mkdir()
        os.utime(module / f"{number:024d}", (number, number))
    (package / "stats" / "a_callee.py").write_text(CALLEE.replace("LIMIT = 3", "LIMIT = 5"))
    assert _result(package) == (30, 0)
    assert len(_directories(package)) == kernel_sources.KEPT_STAMPS
    assert _result(package) == (30, 1)


def test_the_cache_lies_where_the_environment_says(package, tmp_path):
    _result(package, NUMBA_CACHE_DIR=str(tmp_path / "elsewhere"))
    assert list((tmp_path / "elsewhere/llmprism/kernels/stats.a_caller").glob("*/*.nbc"))
    assert not (package / "__pycache__/kernels").exists()


def test_without_a_place_for_it_code_is_compiled_and_not_kept(package, tmp_path):
    blocked = tmp_path / "a file"
    blocked.touch()
    assert _result(package, NUMBA_CACHE_DIR=str(blocked), HOME=str(blocked)) == (12, 0)


def test_neither_compiling_nor_loading_imports_scipy(package):
    """It takes a quarter of a second; a process that imports it later finds it."""
    code = f"import sys\n{RUN}\nprint('scipy' in sys.modules, 'numba.np.arraymath' in sys.modules)\nimport scipy"
    assert _printed(package, code) == "12 0\nFalse True\n"
    assert _printed(package, code) == "12 1\nFalse False\n"


def test_a_kernel_that_is_the_first_to_need_the_compiler_does_not_import_scipy(package):
    """The compiler imports it at once, to look at its version, where nobody hides it."""
    _write_lone(package, "values[0]")
    code = "import sys\nimport numpy as np\nfrom llmprism.stats.a_lone import lone\n"
    code += "print('numba' in sys.modules, lone(np.array([7])), 'numba' in sys.modules, 'scipy' in sys.modules)"
    assert _printed(package, code) == "False 7 True False\n"


def test_kept_code_is_loaded_without_the_modules_of_the_compiler_that_it_was_made_with(package):
    _write_lone(package, "np.cumsum(np.sort(values))[-1]")
    code = "import sys\nimport numpy as np\nfrom llmprism.stats.a_lone import lone\n"
    code += "print(lone(np.array([7, 3])), 'numba.np.arraymath' in sys.modules)"
    assert _printed(package, code) == "10 True\n"
    assert _printed(package, code) == "10 False\n"
    after = "\nfrom llmprism.stats.a_caller import caller\nprint(caller(np.array([1])))"
    assert _printed(package, code + after) == "10 False\n12\n"


def _write_lone(package: Path, result: str) -> None:
    """A kernel whose file imports nothing of the package but the decorator."""
    head = "import numpy as np\nfrom llmprism.kernel import compiled_kernel\n\n@compiled_kernel\ndef lone(values):"
    (package / "stats" / "a_lone.py").write_text(f"{head}\n    return {result}\n")


def test_nothing_else_in_the_package_compiles():
    files = [file for file in PACKAGE.rglob("*.py") if file.name != "kernel_cache.py"]
    assert not [file for file in files if "njit" in file.read_text()]


def test_of_processes_that_need_the_same_code_one_compiles_and_the_others_wait(package):
    _result(package)
    (directory,) = _directories(package)
    kept = {file: file.read_bytes() for file in directory.iterdir() if file.suffix != ".lock"}
    for file in kept:
        file.unlink()
    (lock,) = directory.glob("*.lock")
    with lock.open("wb") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(_result, package)
            time.sleep(4)
            assert not other.done()
            for file, content in kept.items():
                if file.suffix != ".code":
                    file.write_bytes(content)
            held.close()
            assert other.result() == (12, 1)
