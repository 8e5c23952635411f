"""A job as its logs show it, for other packages: who is in it, what each wrote when, how far it got, the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llmprism.logs.diagnose import Expected, diagnose_log
from llmprism.logs.incidents import Normality
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import Library, load_library
from llmprism.logs.members import Members, identify_members
from llmprism.logs.progress import Progress, measure_progress
from llmprism.logs.reader import read_job
from llmprism.model.log import LogDiagnosis

__all__ = ["JobView", "RankView", "view_job", "view_log"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankView:
    """One rank, or one node or file where ranks are not known. Times are 0 where its lines carry none.

    `iterations` ascend in the order of its lines and may be thinned in very long logs; `iteration_ns` are the times of
    those lines.
    """

    rank: int | None
    node: str | None
    addresses: tuple[str, ...]
    lines: int
    last_ns: int
    last_iteration: int | None
    iterations: Int64
    iteration_ns: Int64

    @property
    def first_ns(self) -> int:
        known = self.iteration_ns[self.iteration_ns > 0]
        return int(known[0]) if known.size else 0


@dataclass(frozen=True, slots=True)
class JobView:
    """`step_ns`: the median time of an iteration by the times of the lines; None where they carry none."""

    ranks: tuple[RankView, ...]
    step_ns: int | None
    last_ns: int
    diagnosis: LogDiagnosis

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
) -> JobView:
    """Read the logs of one job; see the package's docstring for what the view holds."""
    return view_log(read_job(paths, library or load_library()), normal=normal, expected=expected)


def view_log(log: JobLog, *, normal: Normality | None = None, expected: Expected | None = None) -> JobView:
    members, progress = identify_members(log), measure_progress(log)
    ranks = tuple(_rank(log, members, progress, actor) for actor in range(len(members.actors)))
    last = int(log.file_last_ns.max()) if log.file_last_ns.size else 0
    return JobView(ranks, progress.step_ns, last, diagnose_log(log, normal=normal, expected=expected))


def _rank(log: JobLog, members: Members, progress: Progress, actor: int) -> RankView:
    who = members.actors[actor]
    writers = np.flatnonzero(members.actor_of_writer == actor)
    series = log.iterations
    own = np.flatnonzero(np.isin(series.writer, writers) & np.isin(series.shape, list(progress.shapes)))
    values = series.value[own]
    return RankView(
        who.rank,
        who.node,
        tuple(sorted(members.addresses.get(actor, ()))),
        int(log.writer_lines[writers].sum()),
        int(log.writer_last_ns[writers].max()) if writers.size else 0,
        int(values.max()) if values.size else None,
        values,
        series.time_ns[own],
    )
