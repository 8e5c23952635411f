"""The only place where the stages meet: flow records in, a report out.

    records → transfers → jobs → layout → timeline → findings → report

Two methods share this way: `prism`, this tool's own, and `paper`, the published rules as a baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from llmprism.errors import UsageError
from llmprism.forked import forked_map
from llmprism.ingest import assemble_transfers
from llmprism.ingest.as_records import records_as_transfers
from llmprism.model.finding import Finding
from llmprism.model.flows import AssembledFlows, FlowTable, InputCounts, Window
from llmprism.model.job import Job, JobState, Recognition
from llmprism.model.layout import JobLayout
from llmprism.model.report import JobReport, Report
from llmprism.model.timeline import Timeline
from llmprism.model.topology import Topology

__all__ = [
    "METHODS",
    "Progress",
    "analyse_job",
    "counts_of",
    "diagnose",
    "job_notes",
    "usable_topology",
]

METHODS: Final = ("prism", "paper")

T = TypeVar("T")

WORKERS: Final = 2
"""Jobs looked at at a time: kernels and array operations leave the interpreter alone for half of the time."""

FORK_TRANSFERS: Final = 4_000_000
"""Transfers from which a second process pays: about four seconds of work, against half a second for the copy."""

Progress = Callable[[str, float], None]
AnalysedJob = tuple[Job, JobLayout, Timeline]
Diagnosed = tuple[Recognition, list[AnalysedJob], list[JobState], tuple[Finding, ...], Sequence[float | None]]


def diagnose(
    flows: FlowTable | AssembledFlows,
    topology: Topology | None = None,
    *,
    method: str = "prism",
    with_events: bool = True,
    window: Window | None = None,
    watched_until_ns: int | None = None,
    progress: Progress | None = None,
    forks: bool = False,
) -> Report:
    """Everything the records say about the jobs in them.

    `with_events=False` leaves the per-GPU events out, which are as many as the transfers; `progress` is called with the
    name of the stage and its share that is done (0..1). `window` is the time that was watched, where that is more than
    the records span, or `watched_until_ns` its end alone: then silence at its end counts. With `forks` a copy of this
    process takes half of the jobs where there is much to do, which a process with threads of its own must not allow.
    """
    if method not in METHODS:
        raise UsageError(f"there is no method {method!r}; there are {' and '.join(METHODS)}")
    from llmprism.diagnose import congestion_note, path_loads, switch_loads, with_congestion_signs

    watched = (window or flows.window).watched_until(watched_until_ns)
    report_progress = progress or (lambda _stage, _share: None)
    usable, notes = usable_topology(flows.addresses, topology)
    run = _prism if method == "prism" else _paper
    recognition, analysed, states, findings, lost = run(flows, usable, with_events, report_progress, watched, forks)
    notes += congestion_note(flows.congestion)
    return Report(
        window=watched,
        input=counts_of(flows.counts, recognition.unused),
        addresses=flows.addresses,
        jobs=tuple(
            JobReport(job, state, layout, timeline, seconds)
            for (job, layout, timeline), state, seconds in zip(analysed, states, lost, strict=True)
        ),
        findings=with_congestion_signs(findings, flows.congestion),
        topology=usable,
        switches=switch_loads([(job.id, path_loads(job.transfers)) for job, _, _ in analysed], usable),
        notes=notes + job_notes((job.id, layout) for job, layout, _ in analysed),
    )


def analyse_job(job: Job, window: Window, *, with_events: bool) -> tuple[JobLayout, Timeline, JobState]:
    """What one job's own transfers say about it; needs nothing of the other jobs."""
    from llmprism.diagnose import job_state
    from llmprism.parallelism import identify_layout
    from llmprism.timeline import reconstruct_timeline

    layout = identify_layout(job)
    timeline = reconstruct_timeline(job, layout, with_events=with_events)
    return layout, timeline, job_state(job, timeline, window)


def _prism(
    flows: FlowTable | AssembledFlows, topology: Topology | None, with_events: bool, report_progress: Progress,
    window: Window, forks: bool,
) -> Diagnosed:  # fmt: skip
    from llmprism.diagnose import diagnose_jobs
    from llmprism.recognize import recognize

    report_progress("transfers", 0.0)
    transfers = assemble_transfers(flows) if isinstance(flows, FlowTable) else flows.transfers
    report_progress("jobs", 0.0)
    shared = forks and transfers.start_ns.size >= FORK_TRANSFERS
    recognition = recognize(transfers, topology, shared=shared)
    jobs = recognition.jobs

    def analyse(job: Job) -> tuple[JobLayout, Timeline, JobState]:
        return analyse_job(job, window, with_events=with_events)

    def report_share(share: float) -> None:
        report_progress("layout and timeline", share)

    with ThreadPoolExecutor(WORKERS, "llmprism-job") as threads:
        report_share(0.0)
        if shared:
            answers = forked_map(analyse, jobs, lambda job: job.transfers.start_ns.size, report_share)
        else:
            answers = list(_counted(threads.map(analyse, jobs), len(jobs), report_share))
        analysed = [(job, layout, timeline) for job, (layout, timeline, _) in zip(jobs, answers, strict=True)]
        states = [state for _, _, state in answers]
        report_progress("diagnosis", 0.0)
        findings, lost = diagnose_jobs(analysed, states, topology, window, recognition.outside, threads.map)
    return recognition, analysed, states, findings, lost


def _counted(answers: Iterable[T], count: int, report_share: Callable[[float], None]) -> Iterator[T]:
    for index, answer in enumerate(answers):
        report_share(index / count)
        yield answer


def _paper(
    flows: FlowTable | AssembledFlows, topology: Topology | None, _with_events: bool, report_progress: Progress,
    _window: Window, _forks: bool,
) -> Diagnosed:  # fmt: skip
    from llmprism.diagnose import diagnose_paper
    from llmprism.parallelism import layout_paper
    from llmprism.recognize import recognize_paper
    from llmprism.timeline import timeline_paper

    if not isinstance(flows, FlowTable):
        raise UsageError("the published method works on records, not on transfers")
    report_progress("jobs", 0.0)
    jobs = recognize_paper(records_as_transfers(flows), topology)
    analysed: list[AnalysedJob] = []
    for index, job in enumerate(jobs):
        report_progress("layout and timeline", index / len(jobs))
        layout = layout_paper(job)
        analysed.append((job, layout, timeline_paper(job, layout)))
    report_progress("diagnosis", 0.0)
    states = [JobState.UNKNOWN] * len(analysed)
    return Recognition(jobs), analysed, states, diagnose_paper(analysed, topology), [None] * len(analysed)


def usable_topology(addresses: tuple[str, ...], topology: Topology | None) -> tuple[Topology | None, tuple[str, ...]]:
    """The topology, unless it knows nobody in the flows; with a note on what it does not know."""
    if topology is None:
        return None, ("no topology was given: servers, switches and rails are not known",)
    known = topology.server_of()
    strangers = sum(address not in known for address in addresses)
    if strangers == len(addresses) and strangers:
        return None, ("the topology names none of the addresses in the flows and was left aside",)
    if strangers:
        return topology, (f"the topology does not name {strangers} of {len(addresses)} addresses",)
    return topology, ()


def job_notes(layouts: Iterable[tuple[str, JobLayout]]) -> tuple[str, ...]:
    """What could not be decided, each sentence with the id of its job."""
    return tuple(dict.fromkeys(f"{job}: {note}" for job, layout in layouts for note in layout.notes))


def counts_of(counts: InputCounts, unused: tuple[tuple[str, int], ...]) -> InputCounts:
    """The counts with the records that belong to no job moved to the dropped ones."""
    return InputCounts(counts.records, counts.used - sum(count for _, count in unused), counts.dropped + unused)
