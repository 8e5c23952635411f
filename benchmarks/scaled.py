"""Claim: a job that is larger and slower in proportion is the same job. Captures stretched in time and in bytes.

    python benchmarks/scaled.py                          all shared captures, 3, 10 and 100 times as long and as large
    python benchmarks/scaled.py gloo dataset --by 5      some of them
    python benchmarks/scaled.py --each                   a line for every capture that is worse

Rates stay, so nothing but a constant with a unit can change the answer. Some have one for a reason: control messages do
not grow with a model (records below 16 KB keep their size), a collector ends a record at the same pause whatever the
job, network cards cut messages into bursts of 64 KB, and nobody calls a silence of a second a hang. Prints what is
right of jobs, of groups, pipelines and micro-batches, the mean F1 of steps, faults located and false alarms.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import duckdb

from llmprism.cli.diagnose import diagnose_files
from llmprism.model.flows import CONTROL_BYTES
from llmprism.report.json_report import document
from llmprism.score import Truth, read_truth, score_report
from llmprism.score.document import IssueFact, ScoredJob
from perturbed import Right, cases_of, folders_of

SOURCES = ("captures", "captures_more", "frameworks", "gloo", "production")


def stretched(truth: Truth, first_ns: int, by: float) -> Truth:
    """The truth with every time so many times as far from the first one."""

    def at(time_ns: int) -> int:
        return first_ns + int((time_ns - first_ns) * by)

    def job(one: ScoredJob) -> ScoredJob:
        return replace(
            one,
            step_start_ns=tuple(map(at, one.step_start_ns)),
            step_end_ns=tuple(map(at, one.step_end_ns)),
            partial_end_ns=frozenset(map(at, one.partial_end_ns)),
        )

    def issue(one: IssueFact) -> IssueFact:
        return replace(one, start_ns=at(one.start_ns), end_ns=None if one.end_ns is None else at(one.end_ns))

    return Truth(tuple(map(job, truth.jobs)), tuple(map(issue, truth.faults)), tuple(map(issue, truth.faint)))


def look(task: tuple[Path, float]) -> Right:
    """One capture, stretched."""
    folder, by = task
    flows = folder / "flows.parquet"
    with duckdb.connect() as connection:
        first_ns = int(connection.execute(f"SELECT min(start_ns) FROM '{flows}'").fetchall()[0][0])
    times = ", ".join(
        f"{first_ns} + (({name} - {first_ns}) * {by})::BIGINT AS {name}" for name in ("start_ns", "end_ns")
    )
    size = f"CASE WHEN bytes < {CONTROL_BYTES} THEN bytes ELSE (bytes * {by})::BIGINT END AS bytes"
    with tempfile.TemporaryDirectory() as made:
        out = Path(made) / "flows.parquet"
        duckdb.sql(f"COPY (SELECT * REPLACE ({times}, {size}) FROM '{flows}') TO '{out}' (FORMAT parquet)")
        report = document(diagnose_files([str(out)], str(folder / "topology.json"), with_events=False))
    return Right.of(score_report(report, stretched(read_truth(folder / "truth.json.gz"), first_ns, by)))


def structure(one: Right) -> int:
    return one.groups + one.pipelines + one.batches


def worse(one: Right, before: Right) -> bool:
    return (
        one.jobs < before.jobs
        or structure(one) < structure(before)
        or one.steps < before.steps - 0.05
        or one.faults < before.faults
        or one.alarms > before.alarms
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=list(SOURCES), help="folders of ../shared/data, or any others")
    parser.add_argument("--by", type=float, action="append", help="factor (default: 3, 10 and 100)")
    parser.add_argument("--each", action="store_true", help="say which captures are worse")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    cases = sorted(case for root in folders_of(arguments.sources) for case in cases_of(root))
    print(f"{len(cases)} captures\n{'times':<8}{'jobs':>8}{'structure':>12}{'step F1':>10}{'located':>9}{'alarms':>8}")
    with ProcessPoolExecutor(arguments.jobs) as pool:
        before = list(pool.map(look, [(case, 1.0) for case in cases]))
        for by in (1.0, *(arguments.by or (3.0, 10.0, 100.0))):
            found = before if by == 1.0 else list(pool.map(look, [(case, by) for case in cases]))
            jobs, faults, alarms = (sum(getattr(one, name) for one in found) for name in ("jobs", "faults", "alarms"))
            steps = sum(one.steps for one in found) / max(len(found), 1)
            print(f"{by:<8g}{jobs:>8}{sum(map(structure, found)):>12}{steps:>10.3f}{faults:>9}{alarms:>8}", flush=True)
            for case, one, reference in zip(cases, found, before, strict=True):
                if arguments.each and worse(one, reference):
                    print(f"  {case.parent.name}/{case.name}: {one}, before {reference}")


if __name__ == "__main__":
    main()
