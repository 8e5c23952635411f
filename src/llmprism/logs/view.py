"""A job as its logs show it, for other packages: who is in it, what each wrote when, how far it got, the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.logs.diagnose import Expected, diagnose_log
from llmprism.logs.incidents import Normality
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import Library, load_library
from llmprism.logs.members import LogMembers, identify_members
from llmprism.logs.metrics import Metric
from llmprism.logs.notable import NotableLine, notable_lines
from llmprism.logs.progress import Progress, measure_progress
from llmprism.logs.reader import read_job
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.shapes import COLLECTIVE_FRAME, POINT_TO_POINT_FRAME
from llmprism.model.log import LogDiagnosis

__all__ = ["POINT_TO_POINT", "JobView", "RankView", "view_job", "view_log"]

MAX_SECONDS: Final = 1e7
"""No iteration takes months: what is longer is another number."""

POINT_TO_POINT: Final = "sending or receiving"
"""What a rank waits in whose stack shows no collective but a message to or from one other rank."""

MIN_TIMED: Final = 4
"""Iteration lines that cannot all be of one moment."""


@dataclass(frozen=True, slots=True)
class RankView:
    """One rank, or one node or file where ranks are not known. Times are 0 where its lines carry none.

    `iterations` ascend in the order of its lines and may be thinned in very long logs; `iteration_ns` are the times of
    those lines, `iteration_seconds` the durations that they print (NaN: none). `local_rank` is the number of the
    process on its node, `named` are addresses of others that its lines about trouble name. `collective` is the one in
    which its last stack waits (`all_reduce`, `gradients` in the backward pass), or `POINT_TO_POINT`.
    """

    rank: int | None
    node: str | None
    addresses: tuple[str, ...]
    lines: int
    last_ns: int
    last_iteration: int | None
    iterations: Int64
    iteration_ns: Int64
    iteration_seconds: Float64
    local_rank: int | None = None
    named: tuple[str, ...] = ()
    collective: str | None = None

    @property
    def first_ns(self) -> int:
        known = self.iteration_ns[self.iteration_ns > 0]
        return int(known[0]) if known.size else 0


@dataclass(frozen=True, slots=True)
class JobView:
    """`step_ns`: the median time of an iteration by the times of the lines; None where they carry none.

    `world` is the number of ranks that the job has, where the logs say so. `lines` are the lines about trouble, the
    first of each kind and rank, with `NotableLine.actor` as index into `ranks`.
    """

    ranks: tuple[RankView, ...]
    step_ns: int | None
    last_ns: int
    diagnosis: LogDiagnosis
    world: int | None = None
    lines: tuple[NotableLine, ...] = ()

    def by_address(self) -> dict[str, RankView]:
        """Ranks by the addresses that they printed as their own; an address that several printed is left out."""
        seen: dict[str, list[RankView]] = {}
        for rank in self.ranks:
            for address in rank.addresses:
                seen.setdefault(address, []).append(rank)
        return {address: ranks[0] for address, ranks in seen.items() if len(ranks) == 1}


def view_job(
    paths: list[Path],
    *,
    library: Library | None = None,
    normal: Normality | None = None,
    expected: Expected | None = None,
    rules: LogRules = RULES,
    only: Callable[[str], bool] | None = None,
) -> JobView:
    """Read the logs of one job; see the package's docstring for what the view holds.

    `only` chooses among the files by their names, where the paths hold the logs of several jobs.
    """
    log = read_job(paths, library or load_library(), only=only)
    return view_log(log, normal=normal, expected=expected, rules=rules)


def view_log(
    log: JobLog,
    *,
    normal: Normality | None = None,
    expected: Expected | None = None,
    rules: LogRules = RULES,
) -> JobView:
    members, progress = identify_members(log), measure_progress(log, rules)
    lines = notable_lines(log, members, progress)
    seconds, waits = _printed_seconds(log), _collectives(log, members)
    ranks = tuple(
        replace(_rank(log, members, progress, actor, seconds), collective=waits.get(actor))
        for actor in range(len(members.actors))
    )
    last = int(log.file_last_ns.max()) if log.file_last_ns.size else 0
    found = diagnose_log(log, normal=normal, expected=expected, rules=rules)
    return JobView(ranks, progress.step_ns, last, found, members.world, lines)


def _collectives(log: JobLog, members: LogMembers) -> dict[int, str]:
    """Actor → the collective in which its last stack waits."""
    found: dict[int, str] = {}
    for row, text in log.texts.items():
        actor = int(members.actor_of_writer[log.rows.writer[row]])
        if match := COLLECTIVE_FRAME.search(text):
            found[actor] = match[1] or "gradients"
        elif POINT_TO_POINT_FRAME.search(text):
            found[actor] = POINT_TO_POINT
    return found


def _printed_seconds(log: JobLog) -> dict[tuple[int, int], float]:
    """The duration of the iteration that each line prints, by (file, line)."""
    rows = np.flatnonzero(log.metrics.metric == Metric.STEP_SECONDS)
    values = log.metrics.value[rows]
    rows, values = rows[values > 0], values[values > 0]
    scale = np.array([next((s for m, _, s in shape.metrics if m is Metric.STEP_SECONDS), 1.0) for shape in log.shapes])
    factor = scale[log.metrics.shape[rows]] if rows.size else values
    seconds = np.where(factor > 0, values * np.abs(factor), 1.0 / np.maximum(values, 1e-12))
    columns = (log.metrics.file[rows].tolist(), log.metrics.line[rows].tolist(), seconds.tolist())
    return {(file, line): value for file, line, value in zip(*columns, strict=True) if value < MAX_SECONDS}


def _rank(
    log: JobLog, members: LogMembers, progress: Progress, actor: int, seconds: dict[tuple[int, int], float]
) -> RankView:
    who = members.actors[actor]
    writers = np.flatnonzero(members.actor_of_writer == actor)
    series = log.iterations
    own = np.flatnonzero(np.isin(series.writer, writers) & np.isin(series.shape, list(progress.shapes)))
    values = series.value[own]
    places = zip(series.file[own].tolist(), series.line[own].tolist(), strict=True)
    return RankView(
        who.rank,
        who.node,
        tuple(sorted(members.addresses.get(actor, ()))),
        int(log.writer_lines[writers].sum()),
        int(log.writer_last_ns[writers].max()) if writers.size else 0,
        int(values.max()) if values.size else None,
        values,
        _own_times(series.time_ns[own]),
        np.array([seconds.get(place, np.nan) for place in places], dtype=np.float64),
        _local_rank(log, writers),
        tuple(sorted(members.named.get(actor, ()))),
    )


def _own_times(times: Int64) -> Int64:
    """Times of iteration lines; none where all have the one of some line before them."""
    return np.zeros_like(times) if times.size >= MIN_TIMED and np.unique(times).size == 1 else times


def _local_rank(log: JobLog, writers: Int64) -> int | None:
    """The number of the process on its node, as its tags or its file's name say; None where they do not agree."""
    found = set()
    for writer in writers.tolist():
        identity = log.writers[writer].identity.over(log.file_identity[log.writers[writer].file])
        if identity.local_rank is not None:
            found.add(identity.local_rank)
    return found.pop() if len(found) == 1 else None
