# ruff: noqa: E501 (log lines as they are)
"""Planted faults: ours and the published L4 rules on the same simulated cases. `make bench-logs`.

Prints, for both: F1 of the failure-indicating lines, the guilty rank on first place, stage right, iteration within 1;
and for ours also outcome, class, and how often nobody was blamed where nobody is to blame.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.incidents import find_end_marks, find_incidents
from llmprism.logs.joblog import JobLog
from llmprism.logs.l4 import l4_verdict
from llmprism.logs.library import FaultRole, Library, load_library
from llmprism.logs.members import identify_members
from llmprism.logs.progress import measure_progress
from llmprism.logs.reader import read_job, read_job_lines
from llmprism.logs.reference import Reference
from llmprism.model.log import LogDiagnosis
from logs_faults import FAULTS
from logs_simulator import LogScenario, LogTruth, SimulatedLogs, plant, simulate_logs, write_logs

FRAMEWORKS = ("megatron", "deepspeed", "torchtitan", "trainer")
LAYOUTS = ("rank", "node", "srun")


@dataclass
class Score:
    true_lines: int = 0
    found_lines: int = 0
    right_lines: int = 0
    counts: dict[str, list[int]] = field(default_factory=dict)

    def add(self, what: str, right: bool) -> None:
        pair = self.counts.setdefault(what, [0, 0])
        pair[0] += right
        pair[1] += 1

    def lines(self, found: set[tuple[str, int]], truth: LogTruth) -> None:
        """Frames and code of a traceback belong to its event and count neither way."""
        counted = found - truth.context_lines
        self.found_lines += len(counted)
        self.true_lines += len(truth.fault_lines)
        self.right_lines += len(counted & truth.fault_lines)

    def show(self, name: str) -> str:
        precision = self.right_lines / max(self.found_lines, 1)
        recall = self.right_lines / max(self.true_lines, 1)
        f1 = 2 * precision * recall / max(precision + recall, 1e-9)
        parts = [f"P {precision:.3f} R {recall:.3f} F1 {f1:.3f}"]
        parts += [f"{what} {good}/{total} = {good / total:.1%}" for what, (good, total) in self.counts.items()]
        return f"{name}: " + ", ".join(parts)

    @property
    def f1(self) -> float:
        return 2 * self.right_lines / max(self.found_lines + self.true_lines, 1)

    def share(self, what: str) -> float:
        good, total = self.counts.get(what, [0, 0])
        return good / total if total else 0.0


def cases(seeds: int) -> list[LogScenario]:
    made: list[LogScenario] = []
    turn = itertools.cycle(itertools.product(FRAMEWORKS, LAYOUTS, ((2, 4), (4, 1), (4, 8))))
    for seed in range(seeds):
        for fault in FAULTS:
            framework, layout, (nodes, per_node) = next(turn)
            made.append(LogScenario(framework, layout, nodes, per_node, 60, fault, seed * 1000 + len(made)))
    return made


def judge_ours(score: Score, simulated: SimulatedLogs, result: LogDiagnosis) -> None:
    truth = simulated.truth
    score.add("outcome", result.outcome.value == truth.outcome)
    score.add("class", result.cause.cause_class.value == truth.cause)
    first = [result.suspects[0].rank] if result.suspects else [None]
    ranked = [*first, *(s.rank for s in result.ranking[1:])]
    judge(score, simulated, ranked, result.stage.value, result.iteration)
    if truth.rank is None:
        score.add("nobody blamed", not result.suspects)


def judge(
    score: Score, simulated: SimulatedLogs, ranked: list[int | None], stage: str | None, iteration: int | None
) -> None:
    truth = simulated.truth
    if truth.rank is not None:
        score.add("top-1", ranked[:1] == [truth.rank])
        score.add("top-3", truth.rank in ranked[:3])
    if truth.stage is not None:
        score.add("stage", stage == truth.stage)
    if truth.iteration is not None:
        score.add("iteration", iteration is not None and abs(iteration - truth.iteration) <= 1)


def run(scenarios: list[LogScenario], library: Library, *, verbose: bool, baseline: bool = True) -> tuple[Score, Score]:
    ours, l4 = Score(), Score()
    seen: dict[str, int] = {}
    for scenario in scenarios:
        with tempfile.TemporaryDirectory() as folder:
            simulated = simulate_logs(scenario)
            write_logs(simulated, Path(folder) / "job")
            healthy = simulate_logs(
                LogScenario(
                    scenario.framework,
                    scenario.layout,
                    scenario.nodes,
                    scenario.ranks_per_node,
                    scenario.iterations,
                    None,
                    scenario.seed + 500_000,
                )
            )
            write_logs(healthy, Path(folder) / "good")
            log, table = read_job_lines([Path(folder) / "job"], library)
            reference = Reference()
            reference.learn(read_job([Path(folder) / "good"], library))
        result = diagnose_log(log, normal=reference)
        before = {what: pair[0] for what, pair in ours.counts.items()}
        judge_ours(ours, simulated, result)
        totals = {what: pair[1] for what, pair in ours.counts.items()}
        wrong = [w for w, pair in ours.counts.items() if pair[0] == before.get(w, 0) and totals[w] > seen.get(w, 0)]
        seen = totals
        found = reported_lines(log, reference)
        ours.lines(found, simulated.truth)
        if verbose and wrong:
            t = simulated.truth
            print(
                f"  {scenario.fault.name if scenario.fault else 'ok'} {scenario.framework} {scenario.layout} {scenario.nodes}x{scenario.ranks_per_node}: {wrong} "
                f"got {result.outcome.value} {result.cause.cause_class.value}/{result.cause.signature} {result.stage.value} it={result.iteration} {[s.rank for s in result.suspects[:3]]} "
                f"want {t.cause} {t.stage} it={t.iteration} rank {t.rank}; "
            )
        if baseline:
            members = identify_members(log)
            verdict = l4_verdict(log, table, members, measure_progress(log), reference)
            ranked = [members.actors[actor].rank for actor in verdict.actors]
            judge(l4, simulated, ranked, verdict.stage.value, verdict.iteration)
            kept = np.isin(table.shape, list(verdict.shapes))
            l4.lines(
                {(log.files[int(f)].name, int(n)) for f, n in zip(table.file[kept], table.line[kept], strict=True)},
                simulated.truth,
            )
    return ours, l4


def reported_lines(log: JobLog, reference: Reference) -> set[tuple[str, int]]:
    """Every terminal line of an incident's shape, not only its first."""
    members, progress = identify_members(log), measure_progress(log)
    ends = find_end_marks(log, progress)
    kept = {
        (i.shape, i.actor, i.file): i.line
        for i in find_incidents(log, members, progress, ends, reference)
        if i.terminal and (i.proves_failure or i.fault is None or i.role is FaultRole.CASCADE)
    }
    found = set()
    actor = members.actor_of_writer[log.rows.writer]
    for row in range(log.rows.shape.size):
        key = (int(log.rows.shape[row]), int(actor[row]), int(log.rows.file[row]))
        if key in kept and int(log.rows.line[row]) >= kept[key]:
            found.add((log.files[key[2]].name, int(log.rows.line[row])))
    return found


def run_real(library: Library) -> Score:
    """Faults planted into the first part of real healthy 64-rank logs, where the shared data is there."""
    score = Score()
    folder = Path(__file__).parents[1] / "../shared/data/trainlogs/azure_bert_8n64r"
    if not folder.is_dir():
        return score
    lines = gzip.decompress((folder / "ok_0.txt.gz").read_bytes()).decode("utf-8", "replace").splitlines()
    reference = Reference()
    reference.learn(read_job([folder / "ok_1.txt.gz"], library))
    usable = [fault for fault in FAULTS if fault.stage == "train"]
    for seed, fault in enumerate(usable):
        simulated = plant(lines, 64, fault, seed, keep=0.975)
        with tempfile.TemporaryDirectory() as place:
            write_logs(simulated, Path(place))
            log = read_job([Path(place)], library)
        judge_ours(score, simulated, diagnose_log(log, normal=reference))
        score.lines(reported_lines(log, reference), simulated.truth)
    return score


def healthy_alarms(library: Library, count: int) -> int:
    """Healthy simulated runs on which a cause is reported, without any reference."""
    alarms = 0
    turn = itertools.cycle(itertools.product(FRAMEWORKS, LAYOUTS))
    for seed in range(count):
        framework, layout = next(turn)
        with tempfile.TemporaryDirectory() as folder:
            write_logs(simulate_logs(LogScenario(framework, layout, 2, 4, 40, None, seed)), Path(folder))
            result = diagnose_log(read_job([Path(folder)], library))
        alarms += result.cause.cause_class.value != "none" or result.outcome.value != "success"
    return alarms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6, help="cases per fault")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    library = load_library()
    scenarios = cases(options.seeds)
    ours, l4 = run(scenarios, library, verbose=options.verbose)
    print(
        f"{len(scenarios)} planted faults ({len(FAULTS)} kinds, {len(FRAMEWORKS)} frameworks, {len(LAYOUTS)} layouts)"
    )
    print(ours.show("ours"))
    print(l4.show("L4  "))
    blind = Library([fault for fault in library.faults if fault.role is not FaultRole.ROOT], library.markers)
    unknown, _ = run(scenarios[: 2 * len(FAULTS)], blind, verbose=False, baseline=False)
    print(unknown.show("ours, the library without a single root entry"))
    real = run_real(library)
    if real.counts:
        print(real.show("ours, planted into a real 64-rank log"))
    print(f"healthy runs with an alarm: {healthy_alarms(library, 24)} of 24")


if __name__ == "__main__":
    main()
