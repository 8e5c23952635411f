"""How much the constants of timelines and facts matter: each is changed and every timeline is made again.

    python benchmarks/timeline_rules.py FOLDER...

A FOLDER holds `flows.parquet` and maybe `topology.json`, or folders that do. Jobs and layouts are found once; printed
for each value of a rule: how many cases keep their steps (to a hundredth of a step), set-up marks and facts (to a
percent). `timeline/rules.py` has the results.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from llmprism.ingest import read_flows, read_topology
from llmprism.model.facts import JobFacts
from llmprism.model.report import JobReport
from llmprism.pipeline import diagnose
from llmprism.timeline import reconstruct_timeline
from llmprism.timeline.rules import RULES, TimelineRules

FACTORS: Final = (0.5, 0.8, 1.25, 2.0)


def jobs_of(folder: Path) -> list[JobReport]:
    places = folder / "topology.json"
    topology = read_topology(places) if places.exists() else None
    return list(diagnose(read_flows([folder / "flows.parquet"]), topology, with_events=False).jobs)


def outcome(jobs: list[JobReport], rules: TimelineRules) -> list[Any]:
    """Steps, set-up marks and facts, rounded to what matters."""
    made = []
    for one in jobs:
        timeline = reconstruct_timeline(one.job, one.layout, rules)
        steps = timeline.steps
        unit = max(float(np.median(steps.duration_ns)) / 100, 1.0) if steps.count else 1.0
        ends = np.round(steps.end_ns / unit).tolist()
        made.append((ends, steps.setup.tolist(), timeline.events.count, _facts(timeline.facts)))
    return made


def _facts(facts: JobFacts | None) -> tuple[Any, ...]:
    if facts is None:
        return ()
    shares = (facts.exposed_communication, facts.pipeline_bubble)
    sizes = tuple((one.synchronisation, one.parameters) for one in facts.sizes)
    return (*(None if share is None else round(share, 2) for share in shares), sizes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    folders = [file.parent for one in parser.parse_args().folders for file in sorted(one.glob("**/flows.parquet"))]
    cases = {folder.name: jobs_of(folder) for folder in folders}
    usual = {name: outcome(jobs, RULES) for name, jobs in cases.items()}
    for field in fields(TimelineRules):
        for factor in FACTORS:
            value = type(getattr(RULES, field.name))(getattr(RULES, field.name) * factor)
            rules = replace(RULES, **{field.name: value})
            changed = [name for name, jobs in cases.items() if outcome(jobs, rules) != usual[name]]
            print(
                f"{field.name} = {value:,}: {len(cases) - len(changed)} of {len(cases)} the same", *changed, flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
