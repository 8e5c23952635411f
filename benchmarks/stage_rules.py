"""How much the constants of the stages matter: each is changed and the stage is run again on the same input.

    python benchmarks/stage_rules.py layouts FOLDER...
    python benchmarks/stage_rules.py faults --match places. --factors 0.5,2 FOLDER...
    python benchmarks/stage_rules.py jobs --first-change --factors 0.000001,1000000 FOLDER...

A FOLDER holds `flows.parquet` and maybe `topology.json`, or folders that do. What lies before the stage is done once.
Printed for each value of a rule: how many cases keep what the stage says, and which do not. With --first-change the
search ends at the first case that a value changes, and the rules that change nothing at any of the factors are listed:
these may be deleted. A case whose run does not read a rule is not run with another value of it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

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
from llmprism.pipeline import diagnose
from llmprism.pipeline.local import LocalCluster
from llmprism.pipeline.notes import usable_topology
from llmprism.pipeline.order import find_findings, recognise_jobs
from llmprism.recognize.rules import RULES as RECOGNITION_RULES
from llmprism.timeline import reconstruct_timeline
from llmprism.timeline.rules import RULES as TIMELINE_RULES

FACTORS: Final = (0.5, 0.8, 1.25, 2.0)
NOT_TRIED: Final = {
    "burst_gap_ns": "packets only",
    "carrying": "the live service only",
    "confidence": "how sure, not what",
    "fitness": "`inspect` only",
}
"""Rules of these stages that these outcomes cannot show."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One field of one of the shipped rules."""

    name: str
    group: Any
    field: str

    @property
    def value(self) -> Any:
        return getattr(self.group, self.field)

    @contextmanager
    def changed_to(self, value: Any) -> Iterator[None]:
        """The shipped rules with another value: they are what every function uses that is given none."""
        usual = self.value
        object.__setattr__(self.group, self.field, value)
        try:
            yield
        finally:
            object.__setattr__(self.group, self.field, usual)


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
    """Degrees, members, kinds and step ends, these to a hundredth of a step."""
    found = identify_layout(one.job)
    clock = found.clock
    ends: list[float] = []
    if clock is not None and clock.steps:
        ends = np.round(clock.boundary_ns / max(clock.period_ns / 100, 1.0)).tolist()
    pairs = (found.pairs.src.tolist(), found.pairs.dst.tolist(), found.pairs.kind.tolist())
    groups = sorted((group.kind, group.members) for group in found.groups)
    return found.layout, groups, found.pipelines, pairs, ends


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
    found = {one.job.id: one for one in cluster.analyse(draft, drafts, lambda _share: None)}
    return [(name, (cluster, draft, drafts, {name: one.layout for name, one in found.items()}))]


def said_of_faults(case: Any) -> Any:
    """Kinds, places and times of the findings, these to a second, and the states of the jobs."""
    cluster, draft, drafts, layouts = case
    cluster._find_layout = lambda job: layouts[job.id]
    jobs = cluster.analyse(draft, drafts, lambda _share: None)
    findings, _ = find_findings(cluster, draft, drafts, jobs)
    where = sorted(
        (
            one.kind,
            str(one.job),
            str(one.where.id),
            one.start_ns // 10**9,
            None if one.end_ns is None else one.end_ns // 10**9,
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


def rules_in(group: Any, prefix: str = "") -> Iterator[Rule]:
    """Every rule, those of groups inside with the name of the group."""
    for field in fields(group):
        value = getattr(group, field.name)
        if field.name in NOT_TRIED:
            continue
        if is_dataclass(value):
            yield from rules_in(value, f"{field.name}.")
        else:
            yield Rule(prefix + field.name, group, field.name)


def values_of(value: Any, factors: tuple[float, ...]) -> list[Any]:
    """The value times each factor; whole numbers move by one at least and stay above 0, of a tuple each part moves."""
    return [one for one in dict.fromkeys(_scaled(value, factor) for factor in factors) if one != value]


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        step = max(1, round(abs(value) * abs(factor - 1)))
        return max(1, min(value + step if factor > 1 else value - step, 2**31 - 1 if value < 2**31 else 2**62))
    if isinstance(value, tuple):
        return tuple(_scaled(one, factor) for one in value)
    return value * factor


@contextmanager
def reads_noted(rules: list[Rule]) -> Iterator[set[str]]:
    """The names of the rules that are read inside."""
    names = {(id(rule.group), rule.field): rule.name for rule in rules}
    read: set[str] = set()
    usual = {id(rule.group): (rule.group, type(rule.group)) for rule in rules}

    def noted(group: Any, field: str) -> Any:
        read.add(names.get((id(group), field), ""))
        return object.__getattribute__(group, field)

    for group, kind in usual.values():
        watched = type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": noted})
        object.__setattr__(group, "__class__", watched)
    try:
        yield read
    finally:
        for group, kind in usual.values():
            object.__setattr__(group, "__class__", kind)


def outcome_of(stage: Stage, case: Any) -> Any:
    try:
        return stage.outcome(case)
    except (ValueError, IndexError, ZeroDivisionError, FloatingPointError, OverflowError, MemoryError) as error:
        return type(error).__name__


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--match", default="", help="only rules whose name holds one of these, separated by commas")
    parser.add_argument("--most", type=int, help="try no more cases than this for a value: the cheapest")
    parser.add_argument("--factors", default=",".join(map(str, FACTORS)))
    parser.add_argument("--first-change", action="store_true", help="no more cases after the first that changes")
    options = parser.parse_args()
    factors = tuple(float(factor) for factor in options.factors.split(","))
    stage = STAGES[options.stage]
    folders = [file.parent for one in options.folders for file in sorted(one.glob("**/flows.parquet"))]
    cases = dict(case for folder in folders for case in stage.cases(folder))
    rules = [rule for rule in rules_in(stage.rules) if any(word in rule.name for word in options.match.split(","))]
    usual, read, seconds = {}, {}, {}
    for name, case in cases.items():
        begin = time.process_time()
        with reads_noted(rules) as seen:
            usual[name] = outcome_of(stage, case)
        read[name], seconds[name] = seen, time.process_time() - begin
    cheapest = sorted(cases, key=seconds.__getitem__)
    print(f"{len(cases)} cases ({sum(seconds.values()):.0f} s of processor time), {len(rules)} rules", flush=True)
    idle = []
    for rule in rules:
        readers = [name for name in cheapest if rule.name in read[name]][: options.most]
        changed_any = False
        for value in values_of(rule.value, factors):
            changed = []
            with rule.changed_to(value):
                for name in readers:
                    if outcome_of(stage, cases[name]) != usual[name]:
                        changed.append(name)
                        if options.first_change:
                            break
            print(f"{rule.name} = {value}: {len(changed)} of {len(readers)} change", *changed, flush=True)
            changed_any = changed_any or bool(changed)
            if changed_any and options.first_change:
                break
        if not changed_any:
            idle.append(f"{rule.name} ({len(readers)} cases read it)")
    print(f"{len(idle)} of {len(rules)} rules change nothing:", *idle, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
