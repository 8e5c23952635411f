"""Transfers in this process; large inputs are shared with copies of it.

Threads take turns wherever they run Python, so that more than two are no faster; copies of the process (`forked.py`) do
not. How many there are is decided for every set of items: no more than the caller allows, no more than items, and no
more than the memory has room for, because each copy needs room for what it works on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

import numpy as np

from llmprism.arrays import Float64, Int32, Int64
from llmprism.diagnose import job_state
from llmprism.diagnose.evidence import JobEvidence, gather_evidence
from llmprism.diagnose.find_faults import JobFaults, Shared, find_job_faults
from llmprism.diagnose.slow_cells import SlowCells, judge_transfers
from llmprism.diagnose.slow_storage import find_slow_storage
from llmprism.diagnose.switch_loads import named_loads, numbered_loads
from llmprism.forked import forked_map
from llmprism.machine import room_bytes
from llmprism.model.clock import ClockCandidate
from llmprism.model.finding import Finding
from llmprism.model.flows import AssembledFlows, TransferTable, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout
from llmprism.model.timeline import Timeline
from llmprism.parallelism import identify_layout
from llmprism.pipeline.cluster import AnalysedJob, JobHead, PairGraph
from llmprism.pipeline.late_rows import LateRows
from llmprism.recognize.cluster_clock import cluster_clocks
from llmprism.recognize.recognise_jobs import Draft, JobDraft, RailQuestion, question_bits
from llmprism.recognize.segments import segments_of
from llmprism.timeline import reconstruct_timeline

__all__ = ["FORK_TRANSFERS", "FindLayout", "LocalCluster", "Processes", "analyse_job"]

FindLayout = Callable[[Job], JobLayout]
"""How the layout of a job is found: from its transfers alone, or with what is known from before."""

T = TypeVar("T")
R = TypeVar("R")

THREADS: Final = 2
"""Jobs looked at at a time in one process: kernels and array operations leave the interpreter alone half the time. That
is paid for with processor time: two threads take up to 1.6 times that of one."""

THREADED_TRANSFERS: Final = 500_000
"""Transfers from which the second thread pays. With fewer, jobs are looked at in Python that takes turns: two threads
take as long as one and up to 0.2 s more of processor time (captures of 80,000 to 560,000 records)."""

FORK_TRANSFERS: Final = 4_000_000
"""Transfers from which copies of the process pay: about four seconds of work, against half a second for the copies."""

WORK_BYTES: Final = 140
"""Memory for each transfer of a job while that is looked at: 40 bytes for a copy of it, and two to four times a column
of 8 bytes for each of the three to four stages (docs/performance.md)."""


_NONE: Final = np.zeros(0, dtype=np.int64)

_NO_TRANSFERS: Final = TransferTable(
    (), (), _NONE.astype(np.int32), _NONE.astype(np.int32), np.zeros(1, dtype=np.int64), _NONE,
    _NONE, _NONE, _NONE, _NONE, _NONE.astype(np.int32), _NONE.astype(np.int32),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Processes:
    """How many processes may work at a time (1 in a process with threads of its own, which must not fork), and how much
    memory they may take together in bytes (None: what the machine has)."""

    most: int = 1
    memory_bytes: int | None = None

    def for_work(self, transfers: Sequence[int]) -> int:
        """Processes for items with so many transfers: the largest ones may all be worked on at the same time."""
        count = min(self.most, len(transfers))
        if count <= 1:
            return max(count, 1)
        room = room_bytes(self.memory_bytes)
        largest = sorted(transfers, reverse=True)
        while count > 1 and WORK_BYTES * sum(largest[:count]) > room:
            count -= 1
        return count


class LocalCluster:
    """All transfers, in this process."""

    def __init__(
        self,
        flows: AssembledFlows,
        window: Window,
        *,
        with_events: bool,
        with_facts: bool = True,
        processes: Processes | None = None,
        threads: int = THREADS,
        find_layout: FindLayout = identify_layout,
    ) -> None:
        transfers = flows.transfers
        self.graph = PairGraph(
            transfers.addresses, transfers.pair_src, transfers.pair_dst, segments_of(transfers), flows.counts, window,
            flows.congestion,
        )  # fmt: skip
        self._transfers, self._with_events, self._with_facts = transfers, with_events, with_facts
        self._find_layout = find_layout
        self._threads = threads if transfers.start_ns.size >= THREADED_TRANSFERS else 1
        forks = processes is not None and transfers.start_ns.size >= FORK_TRANSFERS
        self._processes = processes if forks and processes is not None else Processes()
        self._cut: tuple[Draft, TransferTable] | None = None
        self._evidence: list[JobEvidence] = []
        self._rows: list[int] = []
        self._job: Callable[[int], Job] = [].__getitem__

    def pieces(self, draft: Draft) -> TransferTable:
        """The transfers with every piece of the draft as a pair of its own."""
        if self._cut is None or self._cut[0] is not draft:
            self._cut = draft, draft.pieces.cut(self._transfers)
        return self._cut[1]

    def jobs(self, draft: Draft, jobs: Sequence[JobDraft]) -> list[Job]:
        """The jobs with their transfers."""
        pieces = self.pieces(draft)
        return _in_threads(lambda one: one.job(pieces.select_pairs(one.pairs)), jobs, self._threads)

    def clocks(self, draft: Draft) -> list[tuple[ClockCandidate, ...]]:
        pieces, traffic = self.pieces(draft), draft.pieces.traffic
        rows = pieces.pair_offsets[1:] - pieces.pair_offsets[:-1]
        processes = self._processes.for_work([int(rows[pairs].sum()) for pairs in draft.clusters])
        return forked_map(partial(cluster_clocks, pieces, traffic), draft.clusters, len, processes=processes)

    def rails(self, draft: Draft, questions: Sequence[RailQuestion]) -> list[float]:
        pieces, clusters = self.pieces(draft), draft.clusters
        rows = np.diff(pieces.pair_offsets)
        transfers = [int(rows[pairs].sum()) for pairs in clusters]

        def answer(one: RailQuestion) -> float:
            return question_bits(pieces, one, clusters[one.left], clusters[one.right])

        def size(one: RailQuestion) -> int:
            return transfers[one.left] + transfers[one.right]

        processes = self._processes.for_work([size(one) for one in questions])
        return forked_map(answer, questions, size, processes=processes)

    def analyse(
        self, draft: Draft, jobs: Sequence[JobDraft], report_share: Callable[[float], None]
    ) -> list[AnalysedJob]:
        late = self._processes.most > 1
        pieces = self.pieces(draft)
        found = [_with_late_rows(one, pieces) for one in jobs] if late else self.jobs(draft, jobs)
        self._job = partial(_selected, pieces, jobs) if late else found.__getitem__
        analyse = partial(
            analyse_job,
            window=self.graph.window,
            with_events=self._with_events,
            with_facts=self._with_facts,
            find_layout=self._find_layout,
        )

        def part_of(number: int) -> _JobResult:
            job = self._job(number)
            layout, timeline, state = analyse(job)
            evidence = gather_evidence(job, layout, timeline, state)
            return _part_of(evidence, timeline, self.graph.window if late else None)

        self._rows = [int(job.transfers.pair_offsets[-1]) for job in found]
        parts = self._shared(part_of, range(len(found)), self._rows.__getitem__, report_share)
        self._evidence = [part.evidence for part in parts]
        return [
            AnalysedJob(job, part.evidence.layout, part.timeline, part.evidence.state,
                        named_loads(pieces.paths, *part.loads), part.cells, part.faults)
            for job, part in zip(found, parts, strict=True)
        ]  # fmt: skip

    def storage(self, draft: Draft, jobs: Sequence[JobDraft], crossing: Int32) -> list[Finding]:
        members = frozenset(member for job in jobs for member in job.members)
        return find_slow_storage(self.pieces(draft).select_pairs(crossing), members)

    def faults(self, _draft: Draft, jobs: Sequence[tuple[int, JobHead]]) -> list[JobFaults]:
        def find(numbered: tuple[int, JobHead]) -> JobFaults:
            number, head = numbered
            evidence = replace(self._evidence[number], job=self._job(number))
            return find_job_faults(evidence, head.shared, self.graph.window)

        return self._shared(find, jobs, lambda numbered: self._rows[numbered[0]])

    def _shared(
        self,
        function: Callable[[T], R],
        items: Sequence[T],
        transfers: Callable[[T], int],
        report_share: Callable[[float], None] = lambda _share: None,
    ) -> list[R]:
        """The results in the order of the items, of copies of this process or of its threads."""
        processes = self._processes.for_work([transfers(item) for item in items])
        if processes > 1:
            return forked_map(function, items, transfers, report_share, processes=processes)
        return _in_threads(function, items, self._threads, report_share)


def analyse_job(
    job: Job,
    window: Window,
    *,
    with_events: bool,
    with_facts: bool = True,
    find_layout: FindLayout = identify_layout,
) -> tuple[JobLayout, Timeline, JobState]:
    """What one job's own transfers say about it; needs nothing of the other jobs."""
    layout = find_layout(job)
    timeline = reconstruct_timeline(job, layout, with_events=with_events, with_facts=with_facts)
    return layout, timeline, job_state(job, timeline, window)


def _selected(pieces: TransferTable, jobs: Sequence[JobDraft], number: int) -> Job:
    """A job with a copy of its rows."""
    return jobs[number].job(pieces.select_pairs(jobs[number].pairs))


def _with_late_rows(one: JobDraft, pieces: TransferTable) -> Job:
    """The job, its rows copied when they are looked at."""
    job = one.job(pieces.select_pairs(one.pairs, with_rows=False))
    return replace(job, transfers=LateRows.of(job.transfers, pieces, one.pairs))


@dataclass(frozen=True, slots=True)
class _JobResult:
    """What was found out about a job, without its transfers, so that it may travel between processes: they have them
    already. `timeline` has the steps that the clock shows, that of the evidence those besides that it left out. `loads`
    are those of its paths, by number; `faults` are those of the job alone, where they were looked for."""

    timeline: Timeline
    evidence: JobEvidence
    cells: SlowCells | None
    loads: tuple[Int64, Int64, Int64, Float64]
    faults: JobFaults | None


def _part_of(evidence: JobEvidence, timeline: Timeline, window: Window | None) -> _JobResult:
    """With a window faults are looked for too: whoever has the rows now need not copy them again."""
    cells = judge_transfers(evidence) if evidence.steps else None
    kept = None if cells is None else cells.worth_keeping()
    alone = replace(evidence.job, transfers=_NO_TRANSFERS, bulk=None)
    return _JobResult(
        timeline, replace(evidence, job=alone), kept, numbered_loads(evidence.job.transfers),
        None if window is None else find_job_faults(evidence, Shared(), window),
    )  # fmt: skip


def _in_threads(
    function: Callable[[T], R],
    items: Sequence[T],
    count: int,
    report_share: Callable[[float], None] = lambda _share: None,
) -> list[R]:
    """The results in the order of the items. One thread is this one, so that an error in `report_share` ends the
    work at once."""
    results: list[R] = []
    with ThreadPoolExecutor(count, "llmprism-job") if count > 1 else nullcontext() as threads:
        for result in map(function, items) if threads is None else threads.map(function, items):
            report_share(len(results) / len(items))
            results.append(result)
    return results
