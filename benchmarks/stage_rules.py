"""How much the constants of the stages matter: each is changed and the stage is run again on the same input.

    python benchmarks/stage_rules.py layouts FOLDER...
    python benchmarks/stage_rules.py faults --match places. --factors 0.5,2 FOLDER...
    python benchmarks/stage_rules.py jobs --first-change --factors 0.000001,1000000 FOLDER...

A FOLDER holds `flows.parquet` and maybe `topology.json`, or folders that do. What lies before the stage is done once.
Printed for each value of a rule: how many cases keep what the stage says, and which do not. With --first-change a rule
is done with at the first case that one of the factors changes, and the rules that change nothing are listed at the end:
these may be deleted. A case whose run does not read a rule is not run with another value of it. --together 8 changes
eight rules at a time and is as much faster; one may hide another, so what is left is to be tried again one by one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from llmprism.diagnose.rules import RULES as FAULT_RULES
from llmprism.ingest import read_topology, read_transfers
from llmprism.ingest.rules import RULES as READING_RULES
from llmprism.model.facts import JobFacts
from llmprism.model.flows import AssembledFlows
from llmprism.model.report import JobReport
from llmprism.model.topology import Topology
from llmprism.parallelism import identify_layout
from llmprism.parallelism.rules import RULES as LAYOUT_RULES
from llmprism.pipeline import diagnose, local
from llmprism.pipeline.local import LocalCluster
from llmprism.pipeline.notes import usable_topology
from llmprism.pipeline.order import find_findings, recognise_jobs
from llmprism.recognize.rules import RULES as RECOGNITION_RULES
from llmprism.timeline import reconstruct_timeline
from llmprism.timeline.rules import RULES as TIMELINE_RULES
from rule_changes import Rule, first_changes, outcome_of, reads_noted, rules_in, values_of

FACTORS: Final = (0.5, 0.8, 1.25, 2.0)


@dataclass(frozen=True, slots=True)
class Stage:
    """`cases` gives the inputs that a folder holds, `outcome` what must not change."""

    rules: Any
    cases: Callable[[Path], list[tuple[str, Any]]]
    outcome: Callable[[Any], Any]


def _topology(folder: Path) -> Topology | None:
    places = folder / "topology.json"
    return read_topology(places) if places.exists() else None


def _flows(folder: Path) -> AssembledFlows:
    return read_transfers([folder / "flows.parquet"])


def _jobs(folder: Path) -> list[tuple[str, Any]]:
    found = diagnose(_flows(folder), _topology(folder), with_events=False).jobs
    return [(f"{_name(folder)}:{one.job.id}", one) for one in found]


def _name(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def said_of_layout(one: JobReport) -> Any:
    """Degrees, members, kinds and step ends, these to a hundredth of a step, with how sure each is."""
    found = identify_layout(one.job)
    clock = found.clock
    ends: list[float] = []
    if clock is not None and clock.steps:
        ends = np.round(clock.boundary_ns / max(clock.period_ns / 100, 1.0)).tolist()
    pairs = (found.pairs.src.tolist(), found.pairs.dst.tolist(), found.pairs.kind.tolist())
    groups = sorted((group.kind, group.members) for group in found.groups)
    others = [(other.layout, round(other.confidence, 2)) for other in found.alternatives]
    grouping = None if found.grouping is None else round(found.grouping, 2)
    sure = (round(found.confidence, 2), grouping, np.round(found.pairs.confidence, 2).tolist(), others)
    return found.layout, groups, found.pipelines, pairs, ends, sure


def said_of_timeline(one: JobReport) -> Any:
    """Steps to a hundredth of one, set-up marks, the number of events, and facts to a percent."""
    timeline = reconstruct_timeline(one.job, one.layout)
    steps = timeline.steps
    unit = max(float(np.median(steps.duration_ns)) / 100, 1.0) if steps.count else 1.0
    return np.round(steps.end_ns / unit).tolist(), steps.setup.tolist(), timeline.events.count, _facts(timeline.facts)


def _facts(facts: JobFacts | None) -> tuple[Any, ...]:
    if facts is None:
        return ()
    shares = (facts.exposed_communication, facts.pipeline_bubble)
    sizes = tuple((one.synchronisation, one.parameters) for one in facts.sizes)
    return (*(None if share is None else round(share, 2) for share in shares), sizes)


def said_of_input(folder: Path) -> Any:
    """Members, layouts and states of the jobs, kinds and places of the findings."""
    report = diagnose(_flows(folder), _topology(folder), with_events=False)
    jobs = [(one.job.id, one.state, one.layout.layout, one.timeline.steps.count) for one in report.jobs]
    return jobs, sorted((one.kind, str(one.where.id)) for one in report.findings)


def _cluster(folder: Path) -> list[tuple[str, Any]]:
    flows, topology = _flows(folder), _topology(folder)
    cluster = LocalCluster(flows, flows.window, with_events=False)
    return [(_name(folder), (cluster, usable_topology(cluster.graph.addresses, topology)[0]))]


def said_of_jobs(case: tuple[LocalCluster, Topology | None]) -> Any:
    """Members, servers and pairs of the jobs, and their periods to a percent."""
    _, drafts = recognise_jobs(*case)
    return [
        (one.members, one.servers, one.pairs.tolist(), one.clock and round(float(np.log(one.clock.period_ns)), 2))
        for one in drafts
    ]


def _analysed(folder: Path) -> list[tuple[str, Any]]:
    ((name, (cluster, topology)),) = _cluster(folder)
    draft, drafts = recognise_jobs(cluster, topology)
    found = cluster.analyse(draft, drafts, lambda _share: None)
    return [(name, (cluster, draft, drafts, {one.job.id: one for one in found}))]


def said_of_faults(case: Any) -> Any:
    """Kinds, places, times and confidence of the findings, to a second and a hundredth, and the states of the jobs."""
    cluster, draft, drafts, found = case
    cluster.jobs = lambda _draft, _drafts: [one.job for one in found.values()]
    cluster._find_layout = lambda job: found[job.id].layout
    with patch.object(local, "reconstruct_timeline", lambda job, _layout, **_more: found[job.id].timeline):
        jobs = cluster.analyse(draft, drafts, lambda _share: None)
    findings, _ = find_findings(cluster, draft, drafts, jobs)
    where = sorted(
        (
            one.kind,
            str(one.job),
            str(one.where.id),
            one.start_ns // 10**9,
            None if one.end_ns is None else one.end_ns // 10**9,
            round(one.confidence, 2),
        )
        for one in findings
    )
    return [one.state for one in jobs], str(where)


STAGES: Final = {
    "reading": Stage(READING_RULES, lambda folder: [(_name(folder), folder)], said_of_input),
    "jobs": Stage(RECOGNITION_RULES, _cluster, said_of_jobs),
    "layouts": Stage(LAYOUT_RULES, _jobs, said_of_layout),
    "timelines": Stage(TIMELINE_RULES, _jobs, said_of_timeline),
    "faults": Stage(FAULT_RULES, _analysed, said_of_faults),
}


def table(stage: Stage, rules: list[Rule], cases: dict[str, Any], factors: tuple[float, ...], most: int | None) -> None:
    """Every value of every rule with the cases that it changes."""
    usual, read, seconds = {}, {}, {}
    for name, case in cases.items():
        begin = time.process_time()
        with reads_noted(rules) as seen:
            usual[name] = outcome_of(stage.outcome, case)
        read[name], seconds[name] = seen, time.process_time() - begin
    cheapest = sorted(cases, key=seconds.__getitem__)
    print(f"{len(cases)} cases ({sum(seconds.values()):.0f} s of processor time), {len(rules)} rules", flush=True)
    for rule in rules:
        readers = [name for name in cheapest if rule.name in read[name]][:most]
        for value in values_of(rule.value, factors):
            with rule.changed_to(value):
                changed = [name for name in readers if outcome_of(stage.outcome, cases[name]) != usual[name]]
            print(f"{rule.name} = {value}: {len(changed)} of {len(readers)} change", *changed, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--match", default="", help="only rules whose name holds one of these, separated by commas")
    parser.add_argument("--most", type=int, help="try no more cases than this for a value: the cheapest")
    parser.add_argument("--factors", default=",".join(map(str, FACTORS)))
    parser.add_argument("--first-change", action="store_true", help="a rule is done with once a case changes")
    parser.add_argument("--together", type=int, default=1, help="with --first-change: rules that are changed at a time")
    options = parser.parse_args()
    factors = tuple(float(factor) for factor in options.factors.split(","))
    stage = STAGES[options.stage]
    folders = [file.parent for one in options.folders for file in sorted(one.glob("**/flows.parquet"))]
    rules = [rule for rule in rules_in(stage.rules) if any(word in rule.name for word in options.match.split(","))]
    if options.first_change:
        folders.sort(key=lambda one: (one / "flows.parquet").stat().st_size)
        cases = (case for folder in folders for case in stage.cases(folder))
        first_changes(cases, stage.outcome, rules, factors, options.together)
        return 0
    table(stage, rules, dict(case for folder in folders for case in stage.cases(folder)), factors, options.most)
    return 0


if __name__ == "__main__":
    sys.exit(main())
