"""Interpreted and compiled forms of a kernel, and when which of them runs."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from llmprism import kernel as module
from llmprism.kernel import Kernel, always_compiled, always_interpreted, compiled_kernel, kernel


@kernel
def _double(value: int) -> int:
    return 2 * value


@kernel
def _total(values: np.ndarray) -> int:
    total = 0
    for i in range(values.size):
        total += _double(values[i])
    return total


def _fresh(loop: Kernel) -> Kernel:
    """The same kernel as at the start of a process."""
    return Kernel(loop.python)


@pytest.fixture
def nothing_spent(monkeypatch):
    """As at the start of a process without kept code."""
    monkeypatch.setattr(module._Tier, "spent", 0)
    monkeypatch.setattr(module._Tier, "some_kept", False)


def test_both_forms_give_the_same():
    values = np.arange(100)
    with always_interpreted():
        interpreted = _total(values)
    with always_compiled():
        assert _total(values) == interpreted == 9900


def test_small_inputs_are_interpreted_and_large_ones_compiled(nothing_spent):
    loop = _fresh(_total)
    assert loop.interprets(1_000)
    assert not loop.interprets(module.INTERPRETED_ROWS + 1)


def test_many_small_inputs_are_compiled_in_the_end(nothing_spent):
    loop = _fresh(_total)
    values = np.zeros(module.LOADING_ROWS, dtype=np.int64)
    module._Tier.spent = module.INTERPRETED_TOTAL - values.size - 1
    loop(values)
    assert not loop.interprets(values.size)


def test_few_rows_are_interpreted_rather_than_code_loaded_for_them(nothing_spent):
    module._Tier.spent = module.INTERPRETED_TOTAL
    loop = _fresh(_total)
    assert loop.interprets(module.LOADING_ROWS)
    loop(np.arange(3))
    assert loop.interprets(module.LOADING_ROWS - 3)
    assert not loop.interprets(module.LOADING_ROWS)


def test_a_compiled_kernel_stays_compiled(nothing_spent):
    loop = _fresh(_total)
    assert loop.compiled(np.arange(3)) == 6
    assert not loop.interprets(3)


def test_what_an_interpreted_kernel_calls_counts_once(nothing_spent):
    _fresh(_total)(np.arange(50))
    assert module._Tier.spent == 50


def test_the_substitute_runs_on_small_inputs_only(nothing_spent):
    substituted = kernel(small=lambda values: -1)(_total.python)
    assert substituted(np.arange(3)) == -1
    with always_compiled():
        assert substituted(np.arange(3)) == 6


def test_rows_of_a_form_without_loops_count_little(nothing_spent):
    by_arrays = kernel(by_arrays=lambda values: int(values.sum()))(_total.python)
    assert by_arrays(np.arange(3 * module.ARRAY_ROWS)) == np.arange(3 * module.ARRAY_ROWS).sum()
    assert module._Tier.spent == 3


def test_a_form_without_loops_is_left_after_some_calls_where_the_compiler_is_loaded(nothing_spent):
    by_arrays = kernel(by_arrays=lambda values: -1)(_total.python)
    calls = module.LOADING_ROWS // module.ARRAY_CALL + 1
    for _ in range(2 * calls):
        assert by_arrays(np.arange(3)) == -1
    module._Tier.spent = module.INTERPRETED_TOTAL
    assert by_arrays(np.arange(3)) == 6


def test_a_form_without_loops_is_not_left_for_a_few_calls(nothing_spent):
    module._Tier.spent = module.INTERPRETED_TOTAL
    by_arrays = kernel(by_arrays=lambda values: -1)(_total.python)
    for _ in range(module.LOADING_ROWS // module.ARRAY_CALL):
        assert by_arrays(np.arange(3)) == -1


def test_of_a_search_every_call_of_another_kernel_counts(nothing_spent):
    part = _fresh(_total)

    def search(values: np.ndarray) -> int:
        return part(values) + part(values)

    assert kernel(looks=0)(search)(np.arange(50)) == 4 * np.arange(50).sum()
    assert module._Tier.spent == 100


def test_a_search_that_looks_at_many_rows_is_compiled(nothing_spent):
    part = _fresh(_total)
    search = kernel(looks=0)(lambda values: part(values))
    values = np.zeros(module.INTERPRETED_ROWS, dtype=np.int64)
    for _ in range(int(module.SEARCHED_SHARE * module.INTERPRETED_TOTAL / values.size) + 1):
        assert search.interprets(values.size)
        search(values)
    assert not search.interprets(values.size)
    assert part.interprets(values.size)


def test_a_search_is_compiled_when_enough_was_interpreted(nothing_spent):
    module._Tier.spent = module.INTERPRETED_TOTAL
    assert not kernel(looks=0)(_total.python).interprets(1)


def test_some_kernels_are_never_interpreted(nothing_spent):
    assert not compiled_kernel(_total.python).interprets(1)


def test_a_small_diagnosis_imports_no_compiler(run_python):
    """From a cold cache the compiler would cost ten times the work."""
    code = (
        "import sys; from llmprism.cli.diagnose import diagnose_files;"
        "diagnose_files(['examples/crash/flows.parquet'], None, with_events=False);"
        "print('numba' in sys.modules)"
    )
    assert run_python(code).strip() == "False"


@pytest.fixture
def run_python(request, tmp_path):
    """With a cache of its own: what other tests have kept there by now changes what is compiled."""

    def run(code: str) -> str:
        root, cold = request.config.rootpath, os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=root, env=cold, capture_output=True, text=True, check=True)
        return done.stdout

    return run
