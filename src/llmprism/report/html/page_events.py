"""Per-GPU events as columns of little-endian numbers in base64, with a cap on how many a page holds.

Times are counted in ticks from the start of the window; a tick is a microsecond, or longer where the window would not
fit 32 bits. A page of more events than `MAX_EVENTS` would be slow to open, so whole GPUs are left out, never parts of
a row: first come the GPUs that findings name, then the GPUs that work with them (same pipeline, same group), then the
rest in turn from every job. The page says how many are shown.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.report import JobReport, Report
from llmprism.model.timeline import Events
from llmprism.report.facts import sick_addresses

__all__ = ["MAX_EVENTS", "choose_rows", "pack_events", "tick_ns"]

MAX_EVENTS: Final = 100_000
"""Events in one page: about 3 MB, drawn in a few milliseconds by a laptop."""

_TICKS: Final = 2**32 - 1
_SHORTEST_TICK_NS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _EventSpan:
    job: int
    address: int
    first: int
    last: int


def tick_ns(window_ns: int) -> int:
    """Length of a tick for a window of this length."""
    return max(_SHORTEST_TICK_NS, -(-window_ns // _TICKS))


def choose_rows(report: Report, cap: int = MAX_EVENTS) -> list[dict[int, tuple[int, int]]]:
    """Per job: address id → (first, past-the-last) event of every GPU that the page shows."""
    ranked = _ranked([_candidates(index, job) for index, job in enumerate(report.jobs)], report)
    chosen: list[dict[int, tuple[int, int]]] = [{} for _ in report.jobs]
    left = cap
    for row in ranked:
        if row.last - row.first <= left:
            chosen[row.job][row.address] = (row.first, row.last)
            left -= row.last - row.first
    return chosen


def _candidates(index: int, job: JobReport) -> list[_EventSpan]:
    events = job.timeline.events
    addresses, first = np.unique(events.address, return_index=True)
    last = np.append(first[1:], events.count)
    return [
        _EventSpan(index, address, low, high)
        for address, low, high in zip(addresses.tolist(), first.tolist(), last.tolist(), strict=True)
    ]


def _ranked(candidates: list[list[_EventSpan]], report: Report) -> list[_EventSpan]:
    named = sick_addresses(report)
    sick = {index for index, address in enumerate(report.addresses) if address in named}
    circles = [
        circle
        for job in report.jobs
        for circle in (*(group.members for group in job.layout.groups), *job.layout.pipelines)
    ]
    near = {member for circle in circles if sick.intersection(circle) for member in circle}
    in_turn = [row for turn in zip_longest(*candidates) for row in turn if row is not None]
    return sorted(in_turn, key=lambda row: (row.address not in sick, row.address not in near))


def pack_events(
    events: Events, rows: dict[int, tuple[int, int]], order: list[int], origin_ns: int, tick: int
) -> dict[str, Any]:
    """The chosen rows, in this order of address ids, as the page's columns."""
    shown = [address for address in order if address in rows]
    bounds = [rows[address] for address in shown]
    index = np.concatenate([np.arange(low, high) for low, high in bounds] or [np.zeros(0, np.int64)]).astype(np.int64)
    start = np.clip((events.start_ns[index] - origin_ns) // tick, 0, _TICKS)
    end = np.clip((events.end_ns[index] - origin_ns) // tick, start, _TICKS)
    return {
        "rows": shown,
        "offsets": np.cumsum([0, *(high - low for low, high in bounds)]).tolist(),
        "kind": _base64(events.kind[index], "u1"),
        "start": _base64(start, "<u4"),
        "length": _base64(end - start, "<u4"),
        "step": _base64(events.step[index], "<i4"),
        "peer": _base64(events.peer[index], "<i4"),
        "bytes": _base64(events.bytes[index], "<f4"),
    }


def _base64(column: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(column.astype(dtype).tobytes()).decode("ascii")
