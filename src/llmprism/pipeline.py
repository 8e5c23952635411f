"""The only place where the stages meet: flow records in, a report out.

    records → transfers → jobs → layout → timeline → findings → report

Two methods share this way: `prism`, this tool's own, and `paper`, the published rules as a baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from llmprism.errors import UsageError
from llmprism.ingest import assemble_transfers
from llmprism.ingest.as_records import records_as_transfers
from llmprism.model.finding import Finding
from llmprism.model.flows import FlowTable, InputCounts, TransferTable, Window
from llmprism.model.job import Job, JobState, Recognition
from llmprism.model.layout import JobLayout
from llmprism.model.report import JobReport, Report, SwitchLoad
from llmprism.model.timeline import Timeline
from llmprism.model.topology import Topology

__all__ = ["METHODS", "diagnose"]

METHODS: Final = ("prism", "paper")

Progress = Callable[[str, float], None]
Told = tuple[Job, JobLayout, Timeline]


def diagnose(
    flows: FlowTable,
    topology: Topology | None = None,
    *,
    method: str = "prism",
    with_events: bool = True,
    window: Window | None = None,
    progress: Progress | None = None,
) -> Report:
    """Everything the records say about the jobs in them.

    `with_events=False` leaves the per-GPU events out, which are as many as the transfers; `progress` is told the name
    of the stage and how far it is (0..1). `window` is the time that was watched, where that is more than the records
    span: silence at its end tells.
    """
    if method not in METHODS:
        raise UsageError(f"there is no method {method!r}; there are {' and '.join(METHODS)}")
    from llmprism.diagnose import congestion_note, with_congestion_signs

    watched = window or flows.window
    tell = progress or (lambda _stage, _share: None)
    usable, notes = _usable_topology(flows, topology)
    run = _prism if method == "prism" else _paper
    recognition, told, states, findings = run(flows, usable, with_events, tell, watched)
    notes += congestion_note(flows.congestion)
    notes += tuple(dict.fromkeys(f"{job.id}: {note}" for job, layout, _ in told for note in layout.notes))
    return Report(
        window=watched,
        input=_counts(flows.counts, recognition),
        addresses=flows.addresses,
        jobs=tuple(
            JobReport(job, state, layout, timeline) for (job, layout, timeline), state in zip(told, states, strict=True)
        ),
        findings=with_congestion_signs(findings, flows.congestion),
        topology=usable,
        switches=_switch_loads([job for job, _, _ in told], usable),
        notes=notes,
    )


def _prism(
    flows: FlowTable, topology: Topology | None, with_events: bool, tell: Progress, window: Window
) -> tuple[Recognition, list[Told], list[JobState], tuple[Finding, ...]]:
    from llmprism.diagnose import find_faults, job_state
    from llmprism.parallelism import identify_layout
    from llmprism.recognize import recognize
    from llmprism.timeline import reconstruct_timeline

    tell("transfers", 0.0)
    transfers = assemble_transfers(flows)
    tell("jobs", 0.0)
    recognition = recognize(transfers, topology)
    told: list[Told] = []
    for index, job in enumerate(recognition.jobs):
        tell("layout and timeline", index / len(recognition.jobs))
        layout = identify_layout(job)
        told.append((job, layout, reconstruct_timeline(job, layout, with_events=with_events)))
    tell("diagnosis", 0.0)
    states = [job_state(job, layout, timeline, window) for job, layout, timeline in told]
    return recognition, told, states, find_faults(told, states, topology, window, recognition.outside)


def _paper(
    flows: FlowTable, topology: Topology | None, _with_events: bool, tell: Progress, _window: Window
) -> tuple[Recognition, list[Told], list[JobState], tuple[Finding, ...]]:
    from llmprism.diagnose import diagnose_paper
    from llmprism.parallelism import layout_paper
    from llmprism.recognize import recognize_paper
    from llmprism.timeline import timeline_paper

    tell("jobs", 0.0)
    jobs = recognize_paper(records_as_transfers(flows), topology)
    told: list[Told] = []
    for index, job in enumerate(jobs):
        tell("layout and timeline", index / len(jobs))
        layout = layout_paper(job)
        told.append((job, layout, timeline_paper(job, layout)))
    tell("diagnosis", 0.0)
    return Recognition(jobs), told, [JobState.UNKNOWN] * len(told), diagnose_paper(told, topology)


def _usable_topology(flows: FlowTable, topology: Topology | None) -> tuple[Topology | None, tuple[str, ...]]:
    """The topology, unless it knows nobody in the flows; with a note on what it does not know."""
    if topology is None:
        return None, ("no topology was given: servers, switches and rails are not known",)
    known = topology.server_of()
    strangers = sum(address not in known for address in flows.addresses)
    if strangers == len(flows.addresses) and strangers:
        return None, ("the topology names none of the addresses in the flows and was left aside",)
    if strangers:
        return topology, (f"the topology does not name {strangers} of {len(flows.addresses)} addresses",)
    return topology, ()


def _counts(counts: InputCounts, recognition: Recognition) -> InputCounts:
    unused = sum(count for _, count in recognition.unused)
    return InputCounts(counts.records, counts.used - unused, counts.dropped + recognition.unused)


def _switch_loads(jobs: Sequence[Job], topology: Topology | None) -> tuple[SwitchLoad, ...]:
    """Training traffic through each switch on the records' paths."""
    tier = topology.tier_of() if topology else {}
    loads: dict[str, _Load] = {}
    for job in jobs:
        for path, (size, pairs, rate) in _path_loads(job.transfers).items():
            for switch in dict.fromkeys(job.transfers.paths[path]):
                loads.setdefault(switch, _Load()).add(job.id, size, pairs, rate)
    return tuple(load.sealed(switch, tier.get(switch)) for switch, load in sorted(loads.items()))


class _Load:
    """Adds up one switch's share of the paths through it."""

    def __init__(self) -> None:
        self.bytes = 0
        self.pairs = 0
        self.rates: list[tuple[float, int]] = []
        self.jobs: dict[str, None] = {}

    def add(self, job: str, size: int, pairs: int, rate: float) -> None:
        self.bytes += size
        self.pairs += pairs
        self.rates.append((rate, size))
        self.jobs[job] = None

    def sealed(self, switch: str, tier: str | None) -> SwitchLoad:
        rates = sorted(self.rates)
        half, running = self.bytes / 2, 0
        median = next((rate for rate, size in rates if (running := running + size) >= half), 0.0)
        return SwitchLoad(switch, tier, self.bytes, self.pairs, median, tuple(self.jobs))


def _path_loads(transfers: TransferTable) -> dict[int, tuple[int, int, float]]:
    """Path → (bytes, pairs, rate in Gb/s while something was sent)."""
    if not transfers.path.size:
        return {}
    known = transfers.path >= 0
    path = transfers.path[known]
    size = np.bincount(path, transfers.bytes[known])
    active = np.bincount(path, transfers.active_ns[known])
    path_of_pair = transfers.path[transfers.pair_offsets[:-1]]
    count = np.bincount(path_of_pair[path_of_pair >= 0], minlength=size.size)
    return {int(p): (int(size[p]), int(count[p]), float(8 * size[p] / max(active[p], 1))) for p in np.flatnonzero(size)}
