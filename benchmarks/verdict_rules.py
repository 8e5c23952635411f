"""How much the constants of the verdict matter: each is changed and every run is judged again.

    python benchmarks/verdict_rules.py [--first-change] [--more FOLDER] [PART ...]

Flows and logs of the runs that may be looked at (`verdict.py`, split `dev`, and folders of others) are read once.
Printed for each value of a rule that changes something: how many runs keep kind, place and class of all that is said,
and which do not. With --first-change nothing of the report may change.
`verdict/rules` has the constants; PART names groups of them (clock, match, seats, place, ending, slowness).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from llmprism.logs.library import load_library
from llmprism.model.report import Report
from llmprism.report.json_report import render
from llmprism.verdict import LoggedJob, read_together
from llmprism.verdict.rules import RULES, VerdictRules
from rule_changes import EXTREMES, first_changes, rules_in
from verdict import Run, Said, flow_report, logged, runs, said_by_both

FACTORS: Final = (0.5, 2.0)


def changed_rules(parts: list[str]) -> Iterator[tuple[str, VerdictRules]]:
    for part in fields(VerdictRules):
        if parts and part.name not in parts:
            continue
        group = getattr(RULES, part.name)
        for rule in fields(group):
            for factor in FACTORS:
                value = type(getattr(group, rule.name))(getattr(group, rule.name) * factor)
                yield (
                    f"{part.name}.{rule.name} = {value:g}",
                    replace(RULES, **{part.name: replace(group, **{rule.name: value})}),
                )


def judged(read: dict[str, tuple[Report, list[LoggedJob]]], rules: VerdictRules) -> dict[str, list[Said]]:
    return {name: said_by_both(read_together(report, views, rules=rules)) for name, (report, views) in read.items()}


def all_runs(folders: list[Path]) -> Iterator[Run]:
    yield from runs("dev")
    for folder in folders:
        for logs in sorted(folder.glob("**/logs.tar.gz")):
            yield Run(f"{folder.name}/{logs.parent.name}", logs.parent, "dev")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="groups of rules; all by default")
    parser.add_argument("--more", nargs="*", type=Path, default=[], help="folders of other runs")
    parser.add_argument("--first-change", action="store_true", help="which rules change nothing, even at the extremes")
    parser.add_argument("--together", type=int, default=8, help="with --first-change: rules that are changed at a time")
    options = parser.parse_args()
    library = load_library()
    read = {}
    for run in all_runs(options.more):
        read[run.name] = flow_report(run, run.truth), logged(run.folder / "logs.tar.gz", library)
    if options.first_change:
        chosen = [rule for rule in rules_in(RULES) if not options.parts or rule.name.split(".")[0] in options.parts]
        first_changes(read.items(), lambda run: render(read_together(*run)), chosen, EXTREMES, options.together)
        return 0
    usual = judged(read, RULES)
    tried = 0
    for name, rules in changed_rules(options.parts):
        tried += 1
        now = judged(read, rules)
        different = [run for run, said in now.items() if said != usual[run]]
        if different:
            print(f"{name}: {len(read) - len(different)} of {len(read)} the same", *different, flush=True)
    print(f"{tried} changed values tried on {len(read)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
