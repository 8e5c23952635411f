"""Logs of small jobs as text files, written by the clock of the flows, and what reading them with flows gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np

from llmprism.logs.library import Library, load_library
from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.report import Report
from llmprism.verdict.folders import find_log_folders
from llmprism.verdict.read_together import read_logs, read_together

SECOND = 1_000_000_000


@cache
def library() -> Library:
    return load_library()


def stamp(time_ns: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(time_ns) // 1000)
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def write_job(
    folder: Path,
    ends: np.ndarray,
    *,
    addresses: Sequence[str],
    after: Mapping[int, Sequence[tuple[float, str]]] | None = None,
    until: Mapping[int, int] | None = None,
    loss: str = "2.0",
    nan_from: int | None = None,
) -> Path:
    """One file per rank; `after` gives (seconds after the last step, text) per rank, `until` the last iteration."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, address in enumerate(addresses):
        lines = [
            f"node{rank}:7{rank}:7{rank} [0] NCCL INFO Bootstrap: Using eth0:{address}<0>",
            f"node{rank}:7{rank}:7{rank} [0] NCCL INFO comm 0x1 rank {rank} nranks {len(addresses)} - Init COMPLETE",
        ]
        for number, end in enumerate(ends.tolist(), 1):
            if number <= (until or {}).get(rank, ends.size):
                value = "nan" if nan_from is not None and number >= nan_from else loss
                took = (end - ends[number - 2]) / 1e6 if number > 1 else 900.0
                lines.append(
                    f"[{stamp(end)}] iteration {number}/90000 | elapsed time per iteration (ms): {took:.1f} | "
                    f"loss: {value} |"
                )
        for seconds, text in (after or {}).get(rank, ()):
            lines.append(f"[{stamp(int(ends[-1]) + int(seconds * SECOND))}] {text}")
        (folder / f"rank{rank}.log").write_text("\n".join(lines) + "\n")
    return folder


def together(report: Report, folder: Path) -> Report:
    return read_together(report, read_logs(find_log_folders(str(folder)), library()))


def stop_finding(kind: FindingKind, place: str, start_ns: int, confidence: float = 0.7) -> Finding:
    where = Where(WhereType.JOB, place) if place.startswith("job") else Where(WhereType.GPU, place)
    return Finding(kind, "job-a", where, start_ns, None, 1.0, confidence, 30.0, f"{place} stopped", ())
