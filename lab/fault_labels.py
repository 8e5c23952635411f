"""What was done, in the report's words: kind and place of each fault, its time, and what it did to the steps.

A fault that a rank brings on itself begins with the rank's own note. Delay and loss are a sick link of one NIC:
`slow_nic`; an uplink is `slow_link` between leaf and spine; a link that is down for a while is a `stall`, one that
stays down a `hang` of the rank behind it. A collective that one rank makes alone is a `hang` over NCCL, and in a
pipeline, where nobody else makes one of the whole job; else gloo compares sizes and ends the process: a `crash`. A
slowdown that did not lengthen the steps by `VISIBLE` is no finding that anybody could make: the truth lists it under
`faint`, not under `faults`.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import Any

from lab.notes import JobNotes
from lab.scenario import DEATHS, RANK_FAULTS

__all__ = ["deadly", "fault_labels", "step_effect", "visible"]

VISIBLE = 1.04
"""Steps with the fault are at least so many times as long as steps without it."""

KINDS = {
    "slow_gpu": ("slow_gpu", "gpu"),
    "slow_nic": ("slow_nic", "nic"),
    "delay": ("slow_nic", "nic"),
    "loss": ("slow_nic", "nic"),
    "slow_uplink": ("slow_link", "link"),
    "slow_leaf": ("slow_switch", "switch"),
    "slow_storage": ("slow_storage", "storage"),
    "stall": ("stall", "job"),
    "hang": ("hang", "gpu"),
    "crash": ("crash", "gpu"),
    "out_of_memory": ("crash", "gpu"),
    "bad_sample": ("crash", "gpu"),
    "killed": ("crash", "gpu"),
    "mismatched_collective": ("hang", "gpu"),
    "link_down": ("hang", "gpu"),
}

Label = dict[str, Any]


def fault_labels(
    run: dict[str, Any], jobs: dict[str, JobNotes], steps: dict[str, list[dict[str, Any]]], window: tuple[int, int]
) -> list[Label]:
    """All planted faults inside the window."""
    labels = []
    for fault in run["faults"]:
        job = jobs[fault["job"]]
        kind, place = _kind_and_place(fault, job)
        start, end = _interval(fault, job, window)
        if end is not None and end <= window[0]:
            continue
        where: Any = fault["where"]
        if place == "job":
            where = job.name
        elif place == "link":
            where = [fault["leaf"], "spine0"]
        labels.append(
            {
                "kind": kind,
                "job": job.name if place not in ("switch", "link", "storage") else None,
                "where": {"type": place, "id": where},
                "equivalents": _equivalents(fault, job),
                "start_ns": max(start, window[0]),
                "end_ns": end,
                "planted": {
                    key: fault[key] for key in ("kind", "rank", "factor", "rate", "direction", "how") if key in fault
                },
                "address": fault["where"],
                "effect": step_effect(steps[job.name], start, end),
            }
        )
    return labels


def _kind_and_place(fault: dict[str, Any], job: JobNotes) -> tuple[str, str]:
    if fault["kind"] == "link_down" and fault["for_s"]:
        return "stall", "job"
    kind, place = KINDS[fault["kind"]]
    return ("crash" if deadly(fault, job) else kind), place


def deadly(fault: dict[str, Any], job: JobNotes) -> bool:
    """Whether the fault ends the process of its rank."""
    compared = job.ranks[0]["versions"].get("backend") == "gloo" and not job.groups("pp")
    return fault["kind"] in DEATHS or (fault["kind"] == "mismatched_collective" and compared)


def step_effect(steps: list[dict[str, Any]], start: int, end: int | None) -> float | None:
    """Mean time from step to step inside the fault over that outside it; None where one side has none.

    The mean, not the median: slow storage lengthens one step in ten. The set-up steps count on neither side.
    """
    stop = end if end is not None else 1 << 62
    inside, outside = [], []
    for before, step in pairwise(steps):
        period = step["end_ns"] - before["end_ns"]
        if step["setup"] or before["setup"]:
            continue
        if before["end_ns"] >= start and step["end_ns"] <= stop:
            inside.append(period)
        elif step["end_ns"] <= start or before["end_ns"] >= stop:
            outside.append(period)
    return round(fmean(inside) / fmean(outside), 3) if inside and outside else None


def visible(label: Label) -> bool:
    """Whether anybody could find it: a slowdown must lengthen the steps; the other kinds always show."""
    slow = label["kind"].startswith("slow")
    return not slow or label["effect"] is None or label["effect"] >= VISIBLE


def _interval(fault: dict[str, Any], job: JobNotes, window: tuple[int, int]) -> tuple[int, int | None]:
    """When it began and ended by the best clock there is; an end of None is beyond the window."""
    start, end = int(fault["start"]), fault["end"]
    mine = [(note, note["time"]) for address, note in job.of_kind(_note_of(fault)) if address == fault["where"]]
    if mine and fault["kind"] in ("slow_gpu", "hang", "mismatched_collective"):
        start = mine[0][1]
    if fault["kind"] == "slow_gpu" and end is not None:
        stops = [note["time"] for address, note in job.of_kind("slow_end") if address == fault["where"]]
        end = stops[-1] if stops else end
    if fault["kind"] in DEATHS and len(job.attempts) > 1:
        back = [note["start"] for notes in job.attempts[-1] for note in notes if note["kind"] == "step"]
        end = min(back) if back else end
    return start, None if end is None or end >= window[1] else int(end)


def _note_of(fault: dict[str, Any]) -> str:
    return "slow" if fault["kind"] == "slow_gpu" else "fault"


def _equivalents(fault: dict[str, Any], job: JobNotes) -> list[str]:
    """The GPUs of one tensor-parallel group move in lockstep: no flow record can tell them apart."""
    if fault["kind"] not in RANK_FAULTS or fault["kind"] == "stall":
        return []
    groups = [group for group in job.groups("tp") if fault["where"] in group]
    return sorted({address for group in groups for address in group} - {fault["where"]})
