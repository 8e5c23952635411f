"""How much the constants of the log diagnosis matter: each is changed and every job is diagnosed again.

    python benchmarks/logs_rules.py [--seeds N] [--first-change]

Jobs are read once: planted faults, the zoo, captures of frameworks. Printed for each value of a rule: how many keep
outcome, symptom, stage, class and first suspect, and which do not. `logs/rules.py` has the constants.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import Library, load_library
from llmprism.logs.reader import read_job
from llmprism.logs.rules import RULES, LogRules
from logs_planted import cases
from logs_real import DATA
from logs_simulator import simulate_logs, write_logs
from rule_changes import EXTREMES, first_changes, rules_in, values_of

FACTORS: Final = (0.5, 0.8, 1.25, 2.0)


def read_all(seeds: int, library: Library) -> dict[str, JobLog]:
    read = {}
    for number, scenario in enumerate(cases(seeds)):
        with tempfile.TemporaryDirectory() as folder:
            write_logs(simulate_logs(scenario), Path(folder))
            fault = scenario.fault.name if scenario.fault else "none"
            read[f"{fault}-{number}"] = read_job([Path(folder)], library)
    if DATA.is_dir():
        found = [path for path in sorted((DATA / "zoo").iterdir()) if path.is_dir()]
        found += sorted((DATA / "frameworks").glob("*/logs.tar.gz")) + sorted((DATA / "captures").glob("*/logs.tar.gz"))
        read |= {f"{path.parent.name}/{path.name}": read_job([path], library) for path in found}
    return read


def verdict(log: JobLog, rules: LogRules) -> tuple[Any, ...]:
    found = diagnose_log(log, rules=rules)
    first = found.suspects[0].rank if found.suspects else None
    return found.outcome, found.symptom, found.stage, found.cause.cause_class, first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="cases per planted fault")
    parser.add_argument("--first-change", action="store_true", help="which rules change nothing, even at the extremes")
    options = parser.parse_args()
    logs = read_all(options.seeds, load_library())
    if options.first_change:
        first_changes(logs.items(), lambda log: verdict(log, RULES), list(rules_in(RULES)), EXTREMES)
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
