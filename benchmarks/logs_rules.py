"""How much the constants of the log diagnosis matter: each is changed and every job is diagnosed again.

    python benchmarks/logs_rules.py [--seeds N] [--first-change] [FOLDER ...]

Jobs are read once: planted faults, public reports, the zoo, captures of frameworks, and the `logs.tar.gz` of other
folders. Printed for each value of a rule: how many keep outcome, symptom, stage, class and first suspect, and which do
not. With --first-change nothing of the document may change, whatever the user says that happened, with and without good
runs to compare with. `logs/rules.py` has the constants.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from llmprism.logs.diagnose import Expected, diagnose_log
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import Library, load_library
from llmprism.logs.reader import read_job
from llmprism.logs.reference import Reference, learn_runs
from llmprism.logs.report_json import render_json
from llmprism.logs.rules import RULES, LogRules
from logs_planted import cases
from logs_real import DATA
from logs_reports import reports
from logs_simulator import simulate_logs, write_logs
from rule_changes import EXTREMES, first_changes, rules_in, values_of

FACTORS: Final = (0.5, 0.8, 1.25, 2.0)


def read_all(seeds: int, library: Library, folders: list[Path]) -> dict[str, JobLog]:
    read = {}
    for number, scenario in enumerate(cases(seeds)):
        with tempfile.TemporaryDirectory() as folder:
            write_logs(simulate_logs(scenario), Path(folder))
            fault = scenario.fault.name if scenario.fault else "none"
            read[f"{fault}-{number}"] = read_job([Path(folder)], library)
    for report in reports():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "job.log"
            path.write_text(report["log"].strip("\n") + "\n", encoding="utf-8")
            read[report["id"]] = read_job([path], library)
    if DATA.is_dir():
        found = [path for path in sorted((DATA / "zoo").iterdir()) if path.is_dir()]
        found += sorted((DATA / "frameworks").glob("*/logs.tar.gz")) + sorted((DATA / "captures").glob("*/logs.tar.gz"))
        read |= {f"{path.parent.name}/{path.name}": read_job([path], library) for path in found}
    more = [path for folder in folders for path in sorted(folder.glob("**/logs.tar.gz"))]
    return read | {f"{path.parents[1].name}/{path.parent.name}": read_job([path], library) for path in more}


def verdict(log: JobLog, rules: LogRules) -> tuple[Any, ...]:
    found = diagnose_log(log, rules=rules)
    first = found.suspects[0].rank if found.suspects else None
    return found.outcome, found.symptom, found.stage, found.cause.cause_class, first


def documents(log: JobLog, good: Reference) -> list[str | bytes]:
    """All that is written of a job."""
    return [
        render_json(diagnose_log(log, normal=normal, expected=expected))
        for expected in (None, *Expected)
        for normal in (None, good)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="captures with logs")
    parser.add_argument("--seeds", type=int, default=1, help="cases per planted fault")
    parser.add_argument("--first-change", action="store_true", help="which rules change nothing, even at the extremes")
    parser.add_argument("--together", type=int, default=8, help="with --first-change: rules that are changed at a time")
    options = parser.parse_args()
    library = load_library()
    logs = read_all(options.seeds, library, options.folders)
    if options.first_change:
        good = learn_runs(sorted((DATA / "zoo").glob("ok_*")), library)
        first_changes(logs.items(), lambda log: documents(log, good), list(rules_in(RULES)), EXTREMES, options.together)
        return 0
    usual = {name: verdict(log, RULES) for name, log in logs.items()}
    for rule in rules_in(RULES):
        for value in values_of(rule.value, FACTORS):
            with rule.changed_to(value):
                changed = [name for name, log in logs.items() if verdict(log, RULES) != usual[name]]
            print(f"{rule.name} = {value:,}: {len(logs) - len(changed)} of {len(logs)} the same", *changed, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
