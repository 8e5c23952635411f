"""How much the constants of the search for a layout matter: each is changed and every layout is found again.

    python benchmarks/layout_rules.py FOLDER...
    python benchmarks/layout_rules.py --match ends. --factors 0.5,2 FOLDER...

A FOLDER holds `flows.parquet` and maybe `topology.json`, or folders that do. Jobs are found once; printed for each
value of a rule: how many jobs keep their layout, groups, pipelines, kinds of pairs and steps (to a hundredth of a
step). The confidence of a layout is left out: every log odds moves it. `parallelism/rules/` has the results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from llmprism.ingest import read_flows, read_topology
from llmprism.model.job import Job
from llmprism.parallelism import identify_layout
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.pipeline import diagnose

FACTORS: Final = (0.5, 0.8, 1.25, 2.0)


def jobs_of(folder: Path) -> list[Job]:
    places = folder / "topology.json"
    topology = read_topology(places) if places.exists() else None
    return [one.job for one in diagnose(read_flows([folder / "flows.parquet"]), topology, with_events=False).jobs]


def outcome(job: Job, rules: LayoutRules) -> Any:
    """What must not change: degrees, members, kinds and step ends, these rounded to what matters."""
    try:
        found = identify_layout(job, rules)
    except (ValueError, IndexError, ZeroDivisionError, FloatingPointError) as error:
        return type(error).__name__
    clock = found.clock
    ends: list[float] = []
    if clock is not None and clock.steps:
        ends = np.round(clock.boundary_ns / max(clock.period_ns / 100, 1.0)).tolist()
    pairs = (found.pairs.src.tolist(), found.pairs.dst.tolist(), found.pairs.kind.tolist())
    groups = sorted((group.kind, group.members) for group in found.groups)
    return found.layout, groups, found.pipelines, pairs, ends


def values_of(value: Any, factors: tuple[float, ...]) -> Iterator[Any]:
    """The value times each factor; whole numbers move by one at least and stay above 0, of a tuple each part moves."""
    for factor in factors:
        if isinstance(value, bool):
            yield not value
        elif isinstance(value, int):
            step = max(1, round(abs(value) * abs(factor - 1)))
            yield max(1, value + (step if factor > 1 else -step))
        elif isinstance(value, float):
            yield value * factor
        else:
            yield _scaled(value, factor)


def _scaled(value: Any, factor: float) -> Any:
    return tuple(_scaled(one, factor) for one in value) if isinstance(value, tuple) else value * factor


def variants(factors: tuple[float, ...], match: str) -> Iterator[tuple[str, Any, LayoutRules]]:
    """Every rule with every other value: its name, the value, and the rules with it."""
    for group in fields(RULES):
        own = getattr(RULES, group.name)
        assert is_dataclass(own)
        for field in fields(own):
            name = f"{group.name}.{field.name}"
            if match not in name:
                continue
            for value in values_of(getattr(own, field.name), factors):
                if value != getattr(own, field.name):
                    changed: Any = replace(own, **{field.name: value})  # type: ignore[type-var]
                    yield name, value, replace(RULES, **{group.name: changed})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--match", default="", help="only rules whose name holds this")
    parser.add_argument("--factors", default=",".join(map(str, FACTORS)))
    options = parser.parse_args()
    factors = tuple(float(factor) for factor in options.factors.split(","))
    folders = [file.parent for one in options.folders for file in sorted(one.glob("**/flows.parquet"))]
    jobs = {f"{folder.parent.name}/{folder.name}:{job.id}": job for folder in folders for job in jobs_of(folder)}
    usual = {name: outcome(job, RULES) for name, job in jobs.items()}
    for name, value, rules in variants(factors, options.match):
        changed = [one for one, job in jobs.items() if outcome(job, rules) != usual[one]]
        print(f"{name} = {value}: {len(jobs) - len(changed)} of {len(jobs)} the same", *changed, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
