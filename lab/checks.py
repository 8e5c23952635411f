"""Whether a capture is what its truth says: steps agree over the ranks, traffic stays inside the groups, nobody died.

A capture that fails a check is not packed into the dataset: its truth would not hold.
"""

from __future__ import annotations

import statistics
from typing import Any

from lab.notes import JobNotes
from lab.scenario import LASTING

__all__ = ["check_capture"]

STRAY = 0.02
"""Share of a job's bytes that may travel between ranks that share no group (store, gradient norm over all ranks)."""

MIN_STEPS = 8

STEADY = 1.25
"""The 90th percentile of the steps that no fault touches, in medians. The captures of the dataset reach 1.06 over gloo
and 1.23 over NCCL; a busy machine gives 1.3 to 2.4: a slow GPU that nobody planted."""

SETTLING_STEPS = 2
AROUND_FAULT_NS = 2_000_000_000
"""Steps this near to a fault may still be touched by it."""

GOES_ON_NS = 5_000_000_000
"""A job that finishes a step so long after a fault that ends it was not ended."""


def check_capture(run: dict[str, Any], jobs: list[JobNotes], truth: dict[str, Any], pair_bytes: Any) -> list[str]:
    """What is wrong, one line each; empty: the capture holds."""
    problems = [f"job {name} did not run to its end" for name in run["failed"]]
    for job, described in zip(jobs, truth["jobs"], strict=True):
        problems += [f"job {job.name}: {text}" for text in _check_job(run, job, described, truth, pair_bytes[job.name])]
    problems += [
        f"fault {fault['kind']} at {fault['where']}: the rank had to be killed"
        for fault in run["faults"]
        if "forced" in fault
    ]
    if len(run["faults"]) < len(run["scenario"]["faults"]):
        problems.append("not every fault was planted")
    if run["dropped_packets"]:
        problems.append(f"{run['dropped_packets']} packets were dropped")
    return problems


def _check_job(
    run: dict[str, Any], job: JobNotes, described: dict[str, Any], truth: dict[str, Any], pair_bytes: Any
) -> list[str]:
    problems = []
    if not job.complete:
        problems.append("not every rank named itself from its own address")
    if len(described["steps"]) < MIN_STEPS:
        problems.append(f"only {len(described['steps'])} steps")
    for name in job.group_names():
        members = [address for group in job.groups(name) for address in group]
        if len(set(members)) != len(members):
            problems.append(f"a rank is in two groups of the kind {name}")
    problems += _steps_agree(job)
    problems += _steady(described, truth["faults"], truth["window"]["end_ns"])
    problems += _deaths(run, job)
    problems += _went_on(run, job)
    problems += _strays(job, described, pair_bytes)
    return problems


def _steps_agree(job: JobNotes) -> list[str]:
    """All ranks number the same steps, and the same step overlaps in time on all of them."""
    problems = []
    for attempt in job.attempts:
        by_rank = [[note for note in notes if note["kind"] == "step"] for notes in attempt]
        counts = [len(steps) for steps in by_rank]
        if counts and max(counts) - min(counts) > 1:
            problems.append(f"ranks did between {min(counts)} and {max(counts)} steps")
        for ranks in zip(*by_rank, strict=False):
            if max(note["start"] for note in ranks) > min(note["end"] for note in ranks):
                problems.append(f"step {ranks[0]['step']} does not overlap over the ranks")
                break
    return problems


def _steady(described: dict[str, Any], faults: list[dict[str, Any]], window_end: int) -> list[str]:
    """Steps that no fault touches take about the same time; else something slowed the job that the truth leaves out."""
    held = [(fault["start_ns"], fault.get("end_ns") or window_end) for fault in faults]
    long = [
        step["end_ns"] - step["start_ns"]
        for step in described["steps"][SETTLING_STEPS:]
        if not any(
            step["start_ns"] < end + AROUND_FAULT_NS and step["end_ns"] > start - AROUND_FAULT_NS for start, end in held
        )
    ]
    if len(long) < MIN_STEPS:
        return []
    ratio = statistics.quantiles(long, n=10)[-1] / statistics.median(long)
    return [f"steps that no fault touches vary by {ratio:.2f}: the machine was busy"] if ratio > STEADY else []


def _deaths(run: dict[str, Any], job: JobNotes) -> list[str]:
    """A rank that wrote no end needs a fault of its job that explains it."""
    explained = any(fault["job"] == job.name and fault["kind"] in LASTING for fault in run["faults"])
    ended = [any(note["kind"] == "end_of_rank" for note in notes) for notes in job.attempts[-1]]
    return [] if all(ended) or explained else [f"{ended.count(False)} ranks died without a fault"]


def _went_on(run: dict[str, Any], job: JobNotes) -> list[str]:
    """After a fault that lasts, no further step ends: NCCL, for one, lets a stray all-reduce pass unnoticed."""
    restarts = any(item["name"] == job.name and item["restart_s"] for item in run["scenario"]["jobs"])
    ends = [note["end"] for _, note in job.of_kind("step")]
    return [
        f"the job went on after the fault {fault['kind']}"
        for fault in run["faults"]
        if fault["job"] == job.name and fault["kind"] in LASTING and not fault["for_s"] and not restarts
        if ends and max(ends) > fault["start"] + GOES_ON_NS
    ]


def _strays(job: JobNotes, described: dict[str, Any], pair_bytes: Any) -> list[str]:
    """Bytes between ranks that share no group, and bytes to ranks of other jobs."""
    own = set(job.addresses)
    known = {
        frozenset((a, b))
        for name in job.group_names()
        for group in job.groups(name)
        for a in group
        for b in group
        if a != b
    }
    inside = {pair: count for pair, count in pair_bytes.items() if pair[0] in own and pair[1] in own}
    total = sum(inside.values())
    stray = sum(count for pair, count in inside.items() if frozenset(pair) not in known)
    if not total:
        return ["no traffic"]
    problems = [f"{stray / total:.1%} of the bytes are outside of all groups"] if stray > STRAY * total else []
    quiet = own - set(described["members"])
    if quiet and not described["layout"]["tp"] > 1:
        problems.append(f"no training traffic of {sorted(quiet)}")
    return problems
