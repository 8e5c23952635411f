"""Claim: a part of a capture says what the whole of it says. Windows cut out of captures while nothing was wrong.

    python benchmarks/windows.py                        all shared sources, three windows of each capture
    python benchmarks/windows.py gloo dataset --each    some of them, with a line for every window that is worse

An operator's minute begins and ends in the middle of a job: no set-up, no first step, no end shows where a step begins.
Cut is the time between the third step of every job and its first fault or its last but one step: all of it, its first
and its last three fifths, each with eight steps at least. Prints what is right of jobs, groups, pipelines and
micro-batches, the mean F1 of steps and false alarms, of the windows and, as the reference, of the whole captures.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import duckdb

from llmprism.cli.diagnose import diagnose_files
from llmprism.report.json_report import document
from llmprism.score import Score, Truth, read_truth, score_report
from llmprism.score.document import ScoredJob
from perturbed import SOURCES, cases_of, folders_of

LEFT_OUT: Final = 3
"""Steps at the begin of every job: the first is longer than the others, and some collectives appear in the second."""

LEAST_STEPS: Final = 8
"""Steps of a window: with fewer not much can be said of any job."""

SHARES: Final = {"all": (0.0, 1.0), "first": (0.0, 0.6), "last": (0.4, 1.0)}

Span = tuple[int, int]


@dataclass(frozen=True)
class Found:
    """What was right of one window or capture."""

    name: str
    jobs: tuple[int, int]
    structure: tuple[int, int]
    steps: float
    alarms: int

    @staticmethod
    def of(name: str, score: Score) -> Found:
        parts = (score.structure.groups, score.structure.pipelines)
        batches, f1 = score.structure.micro_batches, score.steps.boundaries.f1
        return Found(
            name,
            (score.jobs.exact.right, score.jobs.exact.expected),
            (sum(p.right for p in parts) + batches.right, sum(p.expected for p in parts) + batches.total),
            1.0 if f1 is None else f1,
            score.faults.false_alarms,
        )

    @property
    def wrong(self) -> bool:
        return self.jobs[0] < self.jobs[1] or self.structure[0] < self.structure[1] or self.steps < 0.95


def quiet_span(truth: Truth) -> Span | None:
    """From the third step of every job to the first fault or the last but one step of one; None where that is empty."""
    if not truth.jobs or any(len(job.step_end_ns) <= LEFT_OUT + 1 for job in truth.jobs):
        return None
    begin = max(sorted(job.step_end_ns)[LEFT_OUT - 1] for job in truth.jobs)
    until = min(sorted(job.step_end_ns)[-2] for job in truth.jobs)
    until = min([until, *(fault.start_ns for fault in (*truth.faults, *truth.faint))])
    return (begin, until) if begin < until else None


def windows_of(truth: Truth) -> dict[str, Span]:
    """The windows in which every job has enough whole steps, by name."""
    span = quiet_span(truth)
    if span is None:
        return {}
    length = span[1] - span[0]
    cut = {name: (span[0] + int(low * length), span[0] + int(high * length)) for name, (low, high) in SHARES.items()}
    return {
        name: window
        for name, window in cut.items()
        if all(sum(window[0] <= end <= window[1] for end in job.step_end_ns) >= LEAST_STEPS for job in truth.jobs)
    }


def within(truth: Truth, window: Span) -> Truth:
    """What is true of the window; ends of steps that began before it count neither way."""

    def job(whole: ScoredJob) -> ScoredJob:
        steps = zip(whole.step_start_ns, whole.step_end_ns, strict=True)
        seen = [(start, end) for start, end in steps if window[0] < end <= window[1]]
        return replace(
            whole,
            step_start_ns=tuple(start for start, _ in seen),
            step_end_ns=tuple(end for _, end in seen),
            partial_end_ns=frozenset(end for start, end in seen if start < window[0]),
        )

    return replace(truth, jobs=tuple(job(one) for one in truth.jobs), faults=(), faint=())


def look(task: tuple[Path, str, Span | None]) -> Found:
    """One window of a capture, or all of it."""
    folder, name, window = task
    truth, flows = read_truth(folder / "truth.json.gz"), folder / "flows.parquet"
    name = f"{folder.parent.name}/{folder.name}: {name}"
    with tempfile.TemporaryDirectory() as made:
        until = None
        if window is not None:
            truth, until = within(truth, window), window[1]
            rows = f"SELECT * FROM '{flows}' WHERE start_ns >= {window[0]} AND end_ns <= {window[1]}"
            flows = Path(made) / "flows.parquet"
            duckdb.sql(f"COPY ({rows}) TO '{flows}' (FORMAT parquet)")
        topology = str(folder / "topology.json")
        report = diagnose_files([str(flows)], topology, with_events=False, watched_until_ns=until)
    return Found.of(name, score_report(document(report), truth))


def line(name: str, found: Sequence[Found]) -> str:
    jobs, structure = (
        f"{sum(part[0] for part in parts)} of {sum(part[1] for part in parts)}"
        for parts in ([one.jobs for one in found], [one.structure for one in found])
    )
    steps = sum(one.steps for one in found) / max(len(found), 1)
    return f"{name:<28}{len(found):>8}{jobs:>14}{structure:>16}{steps:>10.3f}{sum(one.alarms for one in found):>8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=list(SOURCES), help="folders of ../shared/data, or any others")
    parser.add_argument("--each", action="store_true", help="say which windows are not right")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    print(f"{'':<28}{'cases':>8}{'jobs':>14}{'structure':>16}{'step F1':>10}{'alarms':>8}")
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for root in folders_of(arguments.sources):
            cut = [(case, windows_of(read_truth(case / "truth.json.gz"))) for case in cases_of(root)]
            whole = list(pool.map(look, [(case, "whole", None) for case, windows in cut if windows]))
            parts = list(pool.map(look, [(case, name, w) for case, windows in cut for name, w in windows.items()]))
            print(line(f"{root.name}, whole captures", whole))
            print(line(f"{root.name}, windows", parts), flush=True)
            for one in parts if arguments.each else ():
                if one.wrong or one.alarms:
                    print(f"  {one.name}: jobs {one.jobs}, structure {one.structure}, F1 {one.steps:.3f}, {one.alarms}")


if __name__ == "__main__":
    main()
