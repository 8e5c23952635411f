"""What faults cost, as the report says it, against a twin of the same run without the fault.

    python benchmarks/fault_cost.py                       the scenarios with faults that slow steps
    python benchmarks/fault_cost.py --scenario slow-nic   one of them (may be given several times)
    python benchmarks/fault_cost.py --seeds 3001-3010     random ones with a planted fault each

The simulator draws every computation from its seed, its step and its place, so that a twin differs by the fault alone.
What a job lost is how much later it ends its last step than its twin ends the same one, times its GPUs.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from llmprism.cli.diagnose import diagnose_files
from llmprism.report.json_report import document
from llmprism.score import read_truth
from llmprism.sim import Scenario, read_scenario, simulate
from robust_draw import draw_scenario

SCENARIOS = (
    "slow-gpu",
    "slow-nic",
    "slow-leaf",
    "slow-spine",
    "degraded-link",
    "slow-group",
    "slow-storage",
    "imbalance",
)
ENDINGS = ("stall", "hang", "crash", "crash_restart")
LEAST = 0.01
"""Share of a job's GPU-seconds below which its loss is not asked for: steps jitter by more."""


@dataclass(frozen=True)
class Cost:
    """GPU-seconds that a job lost, and what the report says; `share` is the loss in all of its GPU-seconds."""

    scenario: str
    kind: str
    job: str
    true: float
    reported: float
    share: float

    @property
    def error(self) -> float:
        return self.reported / self.true - 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", action="append", help="a scenario by name or file (may be given several times)")
    parser.add_argument("--seeds", help="first and last seed of random scenarios, as in 3001-3010")
    arguments = parser.parse_args()
    if arguments.seeds:
        first, last = (int(seed) for seed in arguments.seeds.split("-"))
        drawn = (draw_scenario(seed, True) for seed in range(first, last + 1))
        scenarios = [one for one in drawn if not any(fault.kind in ENDINGS for fault in one.faults)]
    else:
        scenarios = [read_scenario(name) for name in arguments.scenario or SCENARIOS]
    print("| scenario | fault | job | lost, GPU-s | share of its time | reported | error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    costs = []
    for scenario in scenarios:
        for cost in twin_costs(scenario):
            costs.append(cost)
            print(f"| {cost.scenario} | {cost.kind} | {cost.job} | {cost.true:.1f} | {100 * cost.share:.1f} % | "
                  f"{cost.reported:.1f} | {100 * cost.error:+.1f} % |", flush=True)  # fmt: skip
    if costs:
        near = sum(abs(cost.error) <= 0.1 for cost in costs)
        print(f"\n{near} of {len(costs)} within 10 %, median error {100 * median(abs(c.error) for c in costs):.1f} %")
    return 0


def twin_costs(scenario: Scenario) -> list[Cost]:
    """The jobs of a scenario that lost something, one each."""
    with tempfile.TemporaryDirectory(prefix="cost-") as work:
        sick, well = Path(work, "sick"), Path(work, "well")
        for folder, faults in ((sick, scenario.faults), (well, ())):
            folder.mkdir()
            simulate(replace(scenario, faults=faults), folder)
        truth, twin = read_truth(sick / "truth.json.gz"), read_truth(well / "truth.json.gz")
        report = document(diagnose_files([str(sick / "flows.parquet")], str(sick / "topology.json"), with_events=False))
    healthy = {job.id: job for job in twin.jobs}
    stated = {frozenset(job["members"]): job["lost_gpu_seconds"] or 0.0 for job in report["jobs"]}
    found = []
    for job in truth.jobs:
        ends, usual = job.step_end_ns, healthy[job.id].step_end_ns
        steps = min(len(ends), len(usual))
        if not steps:
            continue
        gpus = len(job.members)
        lost = (ends[steps - 1] - usual[steps - 1]) / 1e9 * gpus
        share = lost / ((ends[steps - 1] - job.step_start_ns[0]) / 1e9 * gpus)
        if share >= LEAST:
            kinds = "/".join(fault.kind for fault in scenario.faults)
            found.append(Cost(scenario.name, kinds, job.id, lost, stated.get(frozenset(job.members), 0.0), share))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
