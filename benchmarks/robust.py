"""Finds inference failures before users do: random scenarios, simulated, diagnosed, scored; each failure made small.

    make bench-robust                                     50 scenarios, seeds 1 to 50
    python benchmarks/robust.py --count 500 --jobs 8      more of them
    python benchmarks/robust.py --faults 300              one planted fault in each of 300 scenarios
    python benchmarks/robust.py --ends 100                100 scenarios whose jobs end normally: nothing is to be said
    python benchmarks/robust.py --first 17 --count 1      one seed again
    python benchmarks/robust.py --scenario FILE.toml      a scenario of a file, such as a failure made small
    python benchmarks/robust.py --no-shrink               only the table
    python benchmarks/robust.py --sensitivity             every constant moved by a fifth, with what it changes

What is expected of a report about a fault follows from the run without it (`robust_expected`), never from the report.

A scenario is right in its layout when jobs, pairs (99 %), groups, pipelines and micro-batches are. Failures go to
out/robust/seed-N.toml with what went wrong and what it takes to make it happen; `llmprism simulate` reads them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from calibration import calibration_table
from llmprism.sim import Scenario, read_scenario
from robust_case import CHECKS, Outcome, run_case
from robust_draw import as_toml, draw_scenario, with_normal_ends
from robust_sensitivity import sensitivity
from robust_shrink import Shrunk, shrink, unusual
from robust_sources import RECORD, read_record, table

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "robust"

Task = tuple[int, Path | None, str, int]
"""Seed, scenario file instead of a seed, what is drawn ("", "faults" or "ends"), runs that making it small may take."""


@dataclass(frozen=True)
class Case:
    seed: int
    scenario: Scenario
    outcome: Outcome
    shrunk: Shrunk | None = None


def main() -> int:
    arguments = _arguments()
    begin = time.perf_counter()
    if arguments.sources:
        print("\n".join(table(read_record(RECORD.read_text(encoding="utf-8")))))
        return 0
    if arguments.sensitivity:
        seeds = range(arguments.first, arguments.first + min(arguments.count, 8))
        print("\n".join(sensitivity(arguments.match, seeds, arguments.jobs, arguments.kernels)))
        return 0
    if arguments.scenario:
        tasks: list[Task] = [(0, Path(name), "", 0) for name in arguments.scenario]
    else:
        count = arguments.faults or arguments.ends or arguments.count
        drawn = "faults" if arguments.faults else "ends" if arguments.ends else ""
        tries = 0 if arguments.no_shrink else arguments.tries
        seeds = range(arguments.first, arguments.first + count)
        tasks = [(seed, None, drawn, tries) for seed in seeds]
    arguments.out.mkdir(parents=True, exist_ok=True)
    cases = _run(tasks, arguments.jobs, arguments.out)
    print("\n".join(summary(cases)))
    seeds_text = f"seeds {cases[0].seed} to {cases[-1].seed}" if cases else "no scenario"
    seconds = time.perf_counter() - begin
    print(f"\n{seeds_text}, {seconds:.0f} s with {arguments.jobs} processes; failures: {arguments.out}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="random scenarios (default 50)")
    parser.add_argument("--first", type=int, default=1, help="first seed (default 1)")
    parser.add_argument("--faults", type=int, default=0, metavar="N", help="N scenarios with a planted fault each")
    parser.add_argument("--ends", type=int, default=0, metavar="N", help="N scenarios whose jobs end normally")
    parser.add_argument("--scenario", action="append", help="a scenario file or name (may be given several times)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument("--tries", type=int, default=30, help="runs that making one failure small may take")
    parser.add_argument("--no-shrink", action="store_true", help="do not make failures small")
    parser.add_argument("--sources", action="store_true", help="which change looked at which source (robust_sources)")
    parser.add_argument("--sensitivity", action="store_true", help="every constant moved by a fifth either way")
    parser.add_argument("--match", default="", help="with --sensitivity: only constants whose place holds this")
    parser.add_argument("--kernels", action="store_true", help="with --sensitivity: also those that kernels read")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for the failures")
    return parser.parse_args()


def _run(tasks: list[Task], jobs: int, out: Path) -> list[Case]:
    """All of them, in order; a line and a file for each as soon as it is done."""
    done: list[Case] = []
    with ProcessPoolExecutor(max(1, jobs)) as pool:
        for case in pool.map(_case, tasks):
            done.append(case)
            _write(case, out)
            print(_line(case), flush=True)
    return done


def _case(task: Task) -> Case:
    """One seed (or file), in a process of the pool."""
    seed, path, drawn, tries = task
    scenario = read_scenario(str(path)) if path is not None else draw_scenario(seed, drawn == "faults")
    scenario = with_normal_ends(scenario) if drawn == "ends" else scenario
    outcome = run_case(scenario)
    small = None
    if outcome.failures and tries and not outcome.error.startswith("simulate"):
        small = shrink(scenario, outcome, tries)
    return Case(seed, scenario, outcome, small)


def _line(case: Case) -> str:
    outcome = case.outcome
    head = f"{case.scenario.name}: {outcome.records:,} records, {outcome.diagnose_s:.1f} s"
    if not outcome.failures:
        return f"{head}: right"
    text = f"{head}: WRONG {', '.join(outcome.failures)}: {outcome.error or outcome.symptom}"
    return text + (f"\n    small: {case.shrunk.cause}: {case.shrunk.outcome.symptom}" if case.shrunk else "")


def _write(case: Case, folder: Path) -> None:
    """The failure as a scenario file: the small form where there is one, the seed's own beside it."""
    if not case.outcome.failures or not case.seed:
        return
    scenario, outcome, cause = case.scenario, case.outcome, unusual(case.scenario)
    if case.shrunk is not None:
        scenario, outcome, cause = case.shrunk.scenario, case.shrunk.outcome, case.shrunk.cause
        (folder / f"seed-{case.seed}-whole.toml").write_text(as_toml(case.scenario), encoding="utf-8")
    notes = [f"# seed {case.seed}: {', '.join(outcome.failures)} wrong", f"# {outcome.error or outcome.symptom}"]
    notes.append(f"# likely cause: {cause}")
    text = "\n".join(line.replace("\r", " ") for line in notes) + "\n" + as_toml(scenario)
    (folder / f"seed-{case.seed}.toml").write_text(text, encoding="utf-8")


def summary(cases: list[Case]) -> list[str]:
    """The tables: what was right, confidence against truth, what failures have in common."""
    outcomes = [case.outcome for case in cases]
    total = max(len(outcomes), 1)
    lines = ["", "| check | right | of | share | mean |", "| --- | --- | --- | --- | --- |"]
    for check in CHECKS:
        marks = [outcome.verdicts[check] for outcome in outcomes if check in outcome.verdicts]
        values = [v for outcome in outcomes if (v := outcome.values.get(check)) is not None]
        mean = f"{sum(values) / len(values):.3f}" if values else "-"
        share = f"{100 * sum(marks) / len(marks):.1f} %" if marks else "-"
        lines.append(f"| {check} | {sum(marks)} | {len(marks)} | {share} | {mean} |")
    right = sum(outcome.layout_right for outcome in outcomes)
    lines.append(f"| **whole layout** | {right} | {len(outcomes)} | {100 * right / total:.1f} % | - |")
    alarms = sum(outcome.values.get("quiet") or 0 for outcome in outcomes)
    alone = sum(outcome.values.get("unprompted") or 0 for outcome in outcomes)
    lines += ["", f"{alarms:.0f} false alarms, {alone:.0f} of them while nothing was wrong with the job. Of the means, "
              "`quiet` is false alarms per scenario."]  # fmt: skip
    dear = [outcome for outcome in outcomes if outcome.dear]
    if dear:
        worst = max(dear, key=lambda outcome: outcome.diagnose_s)
        lines.append(f"{len(dear)} took longer than promised, most {worst.name}: {worst.diagnose_s:.1f} CPU s, "
                     f"{worst.records:,} records (the first run of a process compiles)")  # fmt: skip
    lines += ["", *calibration_table(claim for outcome in outcomes for claim in outcome.claims)]
    causes = Counter(case.shrunk.cause for case in cases if case.shrunk)
    if causes:
        lines += ["", "Failures made small:"]
        lines += [f"- {count} x {cause}" for cause, count in causes.most_common()]
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
