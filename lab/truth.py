"""The truth of a recorded run in the project's own form, `llmprism.truth/1` (docs/reference/truth.md).

Groups and pipelines are those that the framework named; times are the ranks' own stamps. A step ends when the last
rank has ended it, its optimizer's work included. What a pair carries follows from the groups that hold both ends and
from the bytes that were seen: a pair counts for a kind when it carried at least `SHARE` of the busiest pair of that
kind while steps ran. A pair that is in groups of two kinds carries the collective's kind only where it is next in the
ring, since rings are all that tells them apart. A pair that carried a kind only while the job was set up (a broadcast
of the parameters) is marked `setup`: a report may list it or not.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from lab.fault_labels import deadly, fault_labels, visible
from lab.notes import JobNotes
from lab.scenario import LASTING

__all__ = ["Window", "pair_kinds", "steady_times", "truth_document", "window_of"]

TRUTH_SCHEMA = "llmprism.truth/1"

SHARE = 0.01
"""Of the busiest pair of the kind: control messages and the store stay far below it."""

SETUP_SHARE = 0.001
"""The same for pairs that were busy while the job was set up: one broadcast against some fifty steps."""

ENDED_NS = 3_000_000_000
"""A job that stops this long before the end of the window has visibly ended (as the simulator says it)."""

TAIL_NS = 50_000_000
"""The window of a capture in which all jobs go on ends so long after the last step."""

SCHEDULES = ("1f1b", "gpipe", "interleaved")
GROUP_KINDS = {"dp": "dp", "shard": "dp", "replicate": "dp", "expert_dp": "dp", "ep": "ep", "cp": "cp", "tp": "tp"}
"""Names of communicators in the frameworks -> what their pairs carry; all others carry `other`."""

LISTED = ("dp", "ep", "cp")

SILENCE_NS = 18_000_000_000
"""The window of a capture with a crash or a hang ends so long after it, or with the capture."""

LEAD_NS = 6_000_000_000
"""The window begins so long before the first step: it shows how the job sets up, not how Python starts."""

Window = tuple[int, int]
PairBytes = dict[tuple[str, str], int]
Steps = list[dict[str, Any]]


def truth_document(
    run: dict[str, Any], jobs: list[JobNotes], window: Window, steady: dict[str, PairBytes], all_bytes: PairBytes
) -> dict[str, Any]:
    """The truth as far as the window shows it.

    `steady` are, per job, the bytes recorded in its `steady_times`; `all_bytes` those of the whole window.
    """
    scenario = run["scenario"]
    described = [_job(run, job, window, steady[job.name], all_bytes) for job in jobs]
    steps = {job["id"]: job["steps"] for job in described}
    labels = fault_labels(run, {job.name: job for job in jobs}, steps, window)
    return {
        "schema": TRUTH_SCHEMA,
        "scenario": {"name": scenario["name"], "about": scenario["about"]},
        "window": {"start_ns": window[0], "end_ns": window[1]},
        "jobs": described,
        "faults": [label for label in labels if visible(label)],
        "faint": [label for label in labels if not visible(label)],
        "healthy": [{"job": job.name, "what": what} for job in jobs for what in _variations(job, window)],
        "machine": run["machine"],
        "dropped_packets": run["dropped_packets"],
    }


def window_of(run: dict[str, Any], jobs: list[JobNotes]) -> Window:
    """Up to the last step, so that jobs run to the end of it; where a job crashed or hung, some silence follows."""
    ends = [note["end"] for job in jobs for _, note in job.of_kind("step")]
    restarts = {job["name"] for job in run["scenario"]["jobs"] if job["restart_s"]}
    deadly = [f["start"] for f in run["faults"] if f["kind"] in LASTING and not f["for_s"] and f["job"] not in restarts]
    end = min(run["end"], max(ends, default=run["end"]) + TAIL_NS)
    if deadly:
        end = min(run["end"], max(deadly) + SILENCE_NS)
    starts = [note["start"] for job in jobs for _, note in job.of_kind("step")]
    start: int = max(run["start"], min(starts) - LEAD_NS) if starts else run["start"]
    skip = run["scenario"].get("window_from_s", 0)
    if skip:
        firsts = [note["end"] for job in jobs for _, note in job.of_kind("step") if note["step"] == 0]
        start = min(firsts) + int(skip * 1e9)
    return start, end


def steady_times(job: JobNotes, window: Window) -> list[Window]:
    """From the end of each attempt's first step to the end of its last: set-up traffic is no exchange of the steps."""
    result = []
    for attempt in job.attempts:
        steps = [note for notes in attempt for note in notes if note["kind"] == "step"]
        if steps:
            start = max(note["end"] for note in steps if note["step"] == 0)
            result.append((max(start, window[0]), min(max(note["end"] for note in steps), window[1])))
    return [(start, end) for start, end in result if start < end]


def _job(run: dict[str, Any], job: JobNotes, window: Window, steady: PairBytes, all_bytes: PairBytes) -> dict[str, Any]:
    layout = job.ranks[0]["layout"]
    pairs = pair_kinds(job, steady)
    setup = {pair for pair in pair_kinds(job, all_bytes, SETUP_SHARE) - pairs if pair[2] != "other"}
    members = sorted({end for src, dst, kind in pairs if kind != "other" for end in (src, dst)})
    servers = {
        nic["address"]: server["name"] for server in run["fabric"]["topology"]["servers"] for nic in server["nics"]
    }
    steps = _steps(job, window)
    return {
        "id": job.name,
        "members": members,
        "servers": sorted({servers[address] for address in members}),
        "state": _state(run, job, steps, window),
        "layout": {
            "tp": layout["tp"],
            "pp": layout["pp"],
            "dp": layout["dp"],
            "ep": layout["ep"] if layout["ep"] > 1 else None,
            "cp": layout["cp"] if layout["cp"] > 1 else None,
            "sharding": layout["sharding"],
            "micro_batches": layout["micro_batches"],
            "schedule": layout["schedule"] if layout["schedule"] in SCHEDULES else "unknown",
        },
        "groups": _groups(job, pairs),
        "pipelines": _pipelines(job, pairs),
        "pairs": [
            {"src": src, "dst": dst, "kind": kind} | ({"setup": True} if (src, dst, kind) in setup else {})
            for src, dst, kind in sorted(pairs | setup)
        ],
        "steps": steps,
        "framework": " ".join(layout["framework"].split()),
        "schedule_name": layout["schedule"],
        "virtual_stages": layout["virtual"],
        "parameters_per_rank": job.ranks[0]["parameters"],
        "versions": job.ranks[0]["versions"],
        "communicators": {name: [list(group) for group in job.groups(name)] for name in job.group_names()},
        "rank_steps": _rank_steps(job, window),
        "pauses": [
            {"what": note["what"], "start_ns": note["start"], "end_ns": note["end"]}
            for address, note in job.of_kind("pause")
            if address == job.addresses[0]
        ],
    }


def pair_kinds(job: JobNotes, pair_bytes: PairBytes, share: float = SHARE) -> set[tuple[str, str, str]]:
    """Directed pairs of the job with the kinds that they carried."""
    own = set(job.addresses)
    seen = {pair: count for pair, count in pair_bytes.items() if pair[0] in own and pair[1] in own}
    possible = _possible_kinds(job)
    top: dict[str, int] = {}
    for pair, kinds in possible.items():
        for kind in kinds:
            top[kind] = max(top.get(kind, 0), seen.get(pair, 0))
    busiest = max(seen.values(), default=0)
    found = set()
    for pair, count in seen.items():
        kinds = possible.get(pair, {})
        carried = {kind for kind in kinds if count >= share * top[kind] and count >= share * share * busiest}
        if len(carried - {"other"}) > 1:
            carried = {kind for kind in carried if kinds[kind]} or carried
        found |= {(*pair, kind) for kind in carried}
        if not kinds and count >= share * busiest:
            found.add((*pair, "other"))
    return found


def _possible_kinds(job: JobNotes) -> dict[tuple[str, str], dict[str, bool]]:
    """Kinds of the groups that hold both ends of a pair, and whether the pair is next in that group's ring. The last
    stage hands on to the first only where stages are interleaved."""
    closed = job.ranks[0]["layout"]["virtual"] > 1
    possible: dict[tuple[str, str], dict[str, bool]] = {}

    def add(src: str, dst: str, kind: str, next_in_ring: bool) -> None:
        kinds = possible.setdefault((src, dst), {})
        kinds[kind] = kinds.get(kind, False) or next_in_ring

    for name in job.group_names():
        for group in job.groups(name):
            if name == "pp":
                for a, b in pairwise([*group, group[0]] if closed and len(group) > 2 else group):
                    add(a, b, "pp", True)
                    add(b, a, "pp", True)
                continue
            kind = GROUP_KINDS.get(name, "other")
            for i, src in enumerate(group):
                for dst in group:
                    if src != dst:
                        add(src, dst, kind, dst == group[(i + 1) % len(group)] or kind == "ep")
    return possible


def _groups(job: JobNotes, pairs: set[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Communicators of the kinds that a report lists, with those of their members that use the network for it.

    Hybrid sharding moves its parameters in shard groups and its gradients over replicas; the communicator of all ranks
    carries a loss at most.
    """
    result = []
    hybrid = {"shard", "replicate"} <= set(job.group_names())
    for kind in LISTED:
        busy = {end for src, dst, carried in pairs if carried == kind for end in (src, dst)}
        for name in ("shard", "replicate") if kind == "dp" and hybrid else (kind,):
            for group in job.groups(name):
                shown = [address for address in group if address in busy]
                if len(shown) > 1:
                    result.append({"kind": kind, "members": shown})
    return result


def _pipelines(job: JobNotes, pairs: set[tuple[str, str, str]]) -> list[list[str]]:
    """Runs of stages whose hops show on the network."""
    hops = {(src, dst) for src, dst, kind in pairs if kind == "pp"}
    result = []
    for pipeline in job.groups("pp"):
        run = [pipeline[0]]
        for before, after in pairwise(pipeline):
            if (before, after) not in hops:
                result.append(run)
                run = []
            run.append(after)
        result.append(run)
    return [run for run in result if len(run) > 1]


def _steps(job: JobNotes, window: Window) -> Steps:
    """Steps that ended inside the window, over all attempts; a step counts when every rank has finished it."""
    steps: Steps = []
    previous = window[0]
    for attempt in job.attempts:
        by_rank = [[note for note in notes if note["kind"] == "step"] for notes in attempt]
        for ranks in zip(*by_rank, strict=False):
            start, end = min(note["start"] for note in ranks), max(note["end"] for note in ranks)
            if window[0] < end <= window[1]:
                steps.append(
                    {
                        "index": len(steps),
                        "start_ns": max(start, previous),
                        "end_ns": end,
                        "setup": ranks[0]["step"] == 0,
                        "partial": start < window[0],
                    }
                )
                previous = end
    return steps


def _rank_steps(job: JobNotes, window: Window) -> dict[str, list[list[int]]]:
    """Start, gradients and end of each step of each rank."""
    result: dict[str, list[list[int]]] = {}
    for address, note in job.of_kind("step"):
        if window[0] < note["end"] <= window[1]:
            result.setdefault(address, []).append([note["start"], note["gradients"], note["end"]])
    return result


def _state(run: dict[str, Any], job: JobNotes, steps: Steps, window: Window) -> str:
    mine = [fault for fault in run["faults"] if fault["job"] == job.name and not fault["for_s"]]
    spec = next(item for item in run["scenario"]["jobs"] if item["name"] == job.name)
    if not spec["restart_s"] and any(deadly(fault, job) for fault in mine):
        return "crashed"
    if any(fault["kind"] in LASTING and not deadly(fault, job) for fault in mine):
        return "hung"
    if not steps:
        return "starting"
    return "ended" if steps[-1]["end_ns"] + ENDED_NS < window[1] else "running"


def _variations(job: JobNotes, window: Window) -> list[str]:
    """The hard negatives that a job contains: nothing of this is a finding."""
    steps = [note for _, note in job.of_kind("step")]
    names = ["start"] if any(note["step"] == 0 and note["end"] > window[0] for note in steps) else []
    ended = all(any(note["kind"] == "end_of_rank" for note in notes) for notes in job.attempts[-1])
    if ended and steps and max(note["end"] for note in steps) + ENDED_NS < window[1]:
        names.append("end")
    names += sorted({note["what"] for _, note in job.of_kind("pause") if window[0] < note["end"] <= window[1]})
    return names
