"""Where the transfers are, and what is done there: the interface between the order of the stages and its places.

The stages are called in one order (`order.py`), whatever holds the transfers: this process, copies of it, the executors
of a Spark cluster. A `Cluster` does the work that needs transfers and hands back what is small: clocks, layouts,
timelines, findings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from llmprism.arrays import Int32
from llmprism.diagnose import PathLoads
from llmprism.diagnose.find_faults import JobFaults, Shared
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.model.clock import ClockCandidate
from llmprism.model.congestion import CongestionTable
from llmprism.model.finding import Finding
from llmprism.model.flows import InputCounts, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout
from llmprism.model.timeline import Timeline
from llmprism.recognize.recognise_jobs import Draft, JobDraft, RailQuestion
from llmprism.recognize.segments import PairSegments

__all__ = ["AnalysedJob", "Cluster", "JobHead", "PairGraph"]


@dataclass(frozen=True, slots=True)
class PairGraph:
    """Every distinct pair with its totals, sorted by (src, dst); `window` is the time that was watched."""

    addresses: tuple[str, ...]
    pair_src: Int32
    pair_dst: Int32
    segments: PairSegments
    counts: InputCounts
    window: Window
    congestion: CongestionTable | None = None


@dataclass(frozen=True, slots=True)
class JobHead:
    """What is said of a job to whoever holds its transfers: the job as drafted, and what bears on it from outside."""

    draft: JobDraft
    shared: Shared


@dataclass(frozen=True, slots=True)
class AnalysedJob:
    """What the transfers of a job say about it.

    The transfers of `job` may be summed up by pair and path and the kind of each transfer in `layout` may be missing;
    `cells` may be missing where none of them is slow, or hold no more than what such a job says as a bystander.
    `faults` are those of the job alone, or None where they have not been looked for.
    """

    job: Job
    layout: JobLayout
    timeline: Timeline
    state: JobState
    loads: PathLoads
    cells: SlowCells | None
    faults: JobFaults | None


class Cluster(Protocol):
    """Holds the transfers of all pairs of `graph`. Every call may be answered by several machines or processes."""

    @property
    def graph(self) -> PairGraph: ...

    def clocks(self, draft: Draft) -> list[tuple[ClockCandidate, ...]]:
        """The candidate clocks of every cluster of the draft."""
        ...

    def rails(self, draft: Draft, questions: Sequence[RailQuestion]) -> list[float]:
        """For each question what the transfers of its two clusters say, in bits for one job."""
        ...

    def analyse(
        self, draft: Draft, jobs: Sequence[JobDraft], report_share: Callable[[float], None]
    ) -> list[AnalysedJob]:
        """What the transfers of each job say about it, before anything is known that several jobs share."""
        ...

    def storage(self, draft: Draft, jobs: Sequence[JobDraft], crossing: Int32) -> list[Finding]:
        """Findings on the servers at the other end of the crossing pairs, in the order of their addresses."""
        ...

    def faults(self, draft: Draft, jobs: Sequence[tuple[int, JobHead]]) -> list[JobFaults]:
        """The faults of these jobs, each with its number, in the light of what they share; in that order."""
        ...
