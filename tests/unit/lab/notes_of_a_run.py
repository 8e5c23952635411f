"""A recorded run as the lab leaves it behind, made by hand: four ranks, two stages, two replicas."""

from __future__ import annotations

from typing import Any

from lab.notes import JobNotes

SECOND = 1_000_000_000
ADDRESSES = ("10.10.0.1", "10.11.0.1", "10.10.1.1", "10.11.1.1")
LAYOUT = {
    "tp": 1, "pp": 2, "dp": 2, "cp": 1, "ep": 1, "virtual": 1, "sharding": "none", "schedule": "1f1b",
    "micro_batches": 4, "framework": "test  1.0",
}  # fmt: skip
GROUPS = [{"pp": [r % 2, r % 2 + 2], "dp": [r // 2 * 2, r // 2 * 2 + 1]} for r in range(4)]


def fault(kind: str, rank: int = 0, **values: Any) -> dict[str, Any]:
    """A fault as the driver writes it down: from the middle of the run to its end unless said otherwise."""
    base = {"kind": kind, "job": "train", "rank": rank, "for_s": 0.0, "leaf": "", "where": ADDRESSES[rank]}
    return {**base, "start": 25 * SECOND, "end": None, **values}


def run(*faults: dict[str, Any], **job: Any) -> dict[str, Any]:
    servers = [
        {
            "name": f"server0{s}",
            "nics": [{"address": f"10.{10 + g}.{s}.1", "gpu": g, "switch": "leaf00"} for g in (0, 1)],
        }
        for s in (0, 1)
    ]
    spec = {"name": "train", "restart_s": 0.0, **job}
    scenario = {"name": "case", "about": "", "split": "dev", "jobs": [spec], "faults": [{}] * len(faults)}
    return {
        "scenario": scenario,
        "fabric": {"topology": {"servers": servers, "switches": []}},
        "faults": list(faults),
        "failed": [],
        "start": 0,
        "end": 60 * SECOND,
        "dropped_packets": 0,
        "machine": {},
    }


def notes_of_rank(rank: int, steps: int, first: int, extra: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Steps of one second; rank r is r milliseconds behind, gradients are there 100 ms before the end."""
    late = rank * 1_000_000
    said: list[dict[str, Any]] = [
        {
            "kind": "rank",
            "rank": rank,
            "address": ADDRESSES[rank],
            "groups": GROUPS[rank],
            "layout": LAYOUT,
            "parameters": 10,
            "versions": {},
        }
    ]
    for step in range(steps):
        begin = (first + step) * SECOND + late
        gradients, end = begin + SECOND * 9 // 10, begin + SECOND - 5_000_000
        said.append({"kind": "step", "step": step, "start": begin, "gradients": gradients, "end": end})
    return (*said, *extra)


def job(steps: int = 20, first: int = 20, ended: bool = True, extra: dict[int, Any] | None = None) -> JobNotes:
    tail = ({"kind": "end_of_rank", "time": 0},) if ended else ()
    ranks = tuple(notes_of_rank(rank, steps, first, ((extra or {}).get(rank, ()) + tail)) for rank in range(4))
    return JobNotes("train", ADDRESSES, tuple(rank[0] for rank in ranks), (ranks,))


def bytes_of_steps() -> dict[tuple[str, str], int]:
    """Both ways between stages, both ways between the two replicas, and a little between strangers."""
    a, b, c, d = ADDRESSES
    pairs = [(a, c), (c, a), (b, d), (d, b), (a, b), (b, a), (c, d), (d, c)]
    return {**dict.fromkeys(pairs, 1_000_000), (a, d): 500}
