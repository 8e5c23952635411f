"""How much the constants of reading matter: each is changed and everything is diagnosed again.

    python benchmarks/ingest_rules.py FOLDER...

A FOLDER holds `flows.parquet` and maybe `topology.json`, or folders that do. Printed for each value of a rule: how many
cases keep their jobs, layouts, steps, states, and kinds and places of findings. `ingest/rules.py` has the ranges.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from llmprism.ingest import read_topology, read_transfers
from llmprism.ingest.rules import RULES, IngestRules
from llmprism.pipeline import diagnose

FACTORS: Final = (0.25, 0.5, 2.0, 4.0)


def outcome(folder: Path, rules: IngestRules) -> object:
    """What must not change: members, layouts and states of the jobs, kinds and places of the findings."""
    places = folder / "topology.json"
    topology = read_topology(places) if places.exists() else None
    report = diagnose(read_transfers([folder / "flows.parquet"], rules=rules), topology, with_events=False)
    jobs = [(one.job.id, one.state, one.layout.layout, one.timeline.steps.count) for one in report.jobs]
    return jobs, sorted((one.kind, str(one.where.id)) for one in report.findings)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    folders = [file.parent for one in parser.parse_args().folders for file in sorted(one.glob("**/flows.parquet"))]
    usual = {folder: outcome(folder, RULES) for folder in folders}
    names = [
        field.name for field in fields(IngestRules) if field.name not in ("burst_gap_ns", "fitness")
    ]  # for packets and `inspect`
    for name in names:
        for factor in FACTORS:
            value = int(getattr(RULES, name) * factor)
            rules = replace(RULES, **{name: value})  # type: ignore[arg-type]
            changed = [folder.name for folder in folders if outcome(folder, rules) != usual[folder]]
            print(f"{name} = {value:,}: {len(folders) - len(changed)} of {len(folders)} the same", *changed, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
