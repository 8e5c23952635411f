"""Every constant of the stages moved by a fifth either way, one at a time, with what it changes.

    python benchmarks/robust.py --sensitivity                        all of them
    python benchmarks/robust.py --sensitivity --match parallelism    those whose place holds a word

Cases are simulated once. Each variant runs in a copy of this process that imports the stages with one number changed; a
constant that compiled kernels read makes that process compile all of them, which takes about a minute and is done
only with --kernels. A constant on which nothing depends over a fifth either way is not listed.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb  # noqa: F401  (loaded once, before the copies of this process are made)
import numba

from robust_constants import Constant, constants, install, moved

ROOT = Path(__file__).parents[1]
DATA = ROOT / "../shared/data"
FACTORS: Final = (0.8, 1.2)
REAL_SOURCES: Final = ("gloo",)
"""Sources with small cases: every variant runs them too."""

Scores = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Variant:
    """A constant with another value; None: as it is."""

    constant: Constant | None
    value: float


def sensitivity(match: str, seeds: range, jobs: int, kernels: bool) -> list[str]:
    """The table: constants that change something, what they change, and how many change nothing."""
    listed = [item for item in constants(ROOT / "src" / "llmprism") if match in item.place]
    chosen = [item for item in listed if kernels or not item.compiled]
    with tempfile.TemporaryDirectory(prefix="robust-") as work:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(max(1, jobs), mp_context=context, max_tasks_per_child=None) as pool:
            folders = list(pool.map(_prepared, [(seed, Path(work) / str(seed)) for seed in seeds]))
        folders += [str(f.parent) for source in REAL_SOURCES for f in sorted((DATA / source).glob("*/flows.parquet"))]
        variants = [Variant(None, 0.0)]
        variants += [Variant(item, moved(item, factor)) for item in chosen for factor in FACTORS]
        results = _run(variants, folders, jobs)
    return _table(variants, results, len(listed) - len(chosen), len(folders))


def _prepared(task: tuple[int, Path]) -> str:
    from llmprism.sim import simulate
    from robust_draw import draw_scenario

    seed, folder = task
    simulate(draw_scenario(seed), folder)
    return str(folder)


def _run(variants: list[Variant], folders: list[str], jobs: int) -> list[Scores | str]:
    """Each variant in a process of its own: modules are imported with the change and never again without it."""
    context = multiprocessing.get_context("fork")
    results: list[Scores | str] = []
    with context.Pool(max(1, jobs), maxtasksperchild=1) as pool:
        for i, result in enumerate(pool.imap(_scores, [(variant, folders) for variant in variants], chunksize=1)):
            results.append(result)
            if i % 10 == 0:
                print(f"{i + 1} of {len(variants)} variants", flush=True)
    return results


def _scores(task: tuple[Variant, list[str]]) -> Scores | str:
    variant, folders = task
    warnings.simplefilter("ignore")
    cache = None
    try:
        if variant.constant is not None:
            install(variant.constant, variant.value)
            if variant.constant.compiled:
                cache = tempfile.mkdtemp(prefix="robust-kernels-")
                numba.config.CACHE_DIR = cache  # type: ignore[attr-defined]
        from robust_case import diagnose_folder

        scores: Scores = {}
        for folder in folders:
            outcome = diagnose_folder(Path(folder).name, Path(folder))
            if outcome.error:
                return outcome.error
            row = {name: float(mark) for name, mark in outcome.verdicts.items()}
            row |= {f"{name} value": value for name, value in outcome.values.items() if value is not None}
            scores[folder] = row | {"layout": float(outcome.layout_right)}
        return scores
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if cache is not None:
            shutil.rmtree(cache, ignore_errors=True)


def _total(scores: Scores, name: str) -> float:
    return sum(row.get(name, 0.0) for row in scores.values())


SHOWN: Final = (
    ("layouts", "layout"),
    ("pairs", "pairs value"),
    ("groups", "groups value"),
    ("pipelines", "pipelines value"),
    ("micro-batches", "micro-batches value"),
    ("step F1", "steps value"),
    ("faults", "faults value"),
    ("false alarms", "quiet value"),
)


def _differ(one: dict[str, float], other: dict[str, float]) -> bool:
    return any(abs(one.get(name, 0.0) - other.get(name, 0.0)) > 1e-9 for _, name in SHOWN)


def _table(variants: list[Variant], results: list[Scores | str], left_out: int, cases: int) -> list[str]:
    base = results[0]
    if isinstance(base, str):
        raise RuntimeError(base)
    head = ", ".join(f"{title} {_total(base, name):.2f}" for title, name in SHOWN)
    lines = [f"{cases} cases; as it is: {head}", ""]
    lines += [
        "| constant | from | to | change in the sum over cases | cases changed |",
        "| --- | --- | --- | --- | --- |",
    ]
    calm = 0
    for variant, result in zip(variants[1:], results[1:], strict=True):
        constant = variant.constant
        if constant is None:
            continue
        if isinstance(result, str):
            lines.append(f"| {constant.place} | {constant.value:g} | {variant.value:g} | fails: {result[:60]} | all |")
            continue
        differ = [
            Path(f).name for f in base if any(abs(base[f].get(n, 0) - result[f].get(n, 0)) > 1e-9 for _, n in SHOWN)
        ]
        if not differ:
            calm += 1
            continue
        changes = [(title, _total(result, name) - _total(base, name)) for title, name in SHOWN]
        text = ", ".join(f"{title} {change:+.2f}" for title, change in changes if abs(change) > 1e-9)
        named = ", ".join(differ[:4]) + (f" and {len(differ) - 4} more" if len(differ) > 4 else "")
        lines.append(
            f"| {constant.place} | {constant.value:g} | {variant.value:g} | {text or 'moves only'} | {named} |"
        )
    lines += ["", f"{calm} of {len(variants) - 1} variants change nothing; {left_out} constants of kernels left out."]
    return lines
