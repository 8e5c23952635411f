"""The only place where the stages meet: flow records in, a report out.

    records → transfers → jobs → layout → timeline → findings → report

`order.py` calls the stages in their order, over the interface of `cluster.py`; `local.py` is the implementation for
transfers in this process and copies of it, `engine/spark` the one for a Spark cluster. `published.py` runs the
published rules instead, as a baseline.
"""

from __future__ import annotations

from typing import Final

from llmprism.errors import UsageError
from llmprism.ingest import assemble_transfers
from llmprism.model.flows import AssembledFlows, FlowTable, Window
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.parallelism import identify_layout
from llmprism.pipeline.local import THREADS, FindLayout, LocalCluster, Processes, analyse_job
from llmprism.pipeline.notes import Progress
from llmprism.pipeline.order import diagnose_cluster
from llmprism.pipeline.published import diagnose_by_published_rules

__all__ = [
    "METHODS",
    "THREADS",
    "FindLayout",
    "LocalCluster",
    "Processes",
    "Progress",
    "analyse_job",
    "diagnose",
    "diagnose_by_published_rules",
    "diagnose_cluster",
]

METHODS: Final = ("prism", "paper")


def diagnose(
    flows: FlowTable | AssembledFlows,
    topology: Topology | None = None,
    *,
    method: str = "prism",
    with_events: bool = True,
    with_facts: bool = True,
    window: Window | None = None,
    watched_until_ns: int | None = None,
    progress: Progress | None = None,
    processes: Processes | None = None,
    threads: int = THREADS,
    find_layout: FindLayout = identify_layout,
) -> Report:
    """Everything the records say about the jobs in them.

    `with_events=False` leaves the per-GPU events out, which are as many as the transfers, `with_facts=False` the facts
    of the jobs; `progress` is called with the
    name of the stage and its share that is done (0..1). `window` is the time that was watched, where that is more than
    the records span, or `watched_until_ns` its end alone: then silence at its end counts. With `processes` copies of
    this process take part where there is much to do, which a process with threads of its own must not allow.
    `threads` look at jobs where there is one process: one takes the least processor time.
    `find_layout` is for whoever knows the layouts of these jobs from before.
    """
    if method not in METHODS:
        raise UsageError(f"there is no method {method!r}; there are {' and '.join(METHODS)}")
    watched = (window or flows.window).watched_until(watched_until_ns)
    report_progress = progress or (lambda _stage, _share: None)
    if method == "paper":
        if not isinstance(flows, FlowTable):
            raise UsageError("the published method works on records, not on transfers")
        return diagnose_by_published_rules(flows, topology, watched, report_progress)
    report_progress("transfers", 0.0)
    if isinstance(flows, FlowTable):
        flows = AssembledFlows(assemble_transfers(flows), flows.counts, flows.window, flows.congestion)
    cluster = LocalCluster(
        flows,
        watched,
        with_events=with_events,
        with_facts=with_facts,
        processes=processes,
        threads=threads,
        find_layout=find_layout,
    )
    return diagnose_cluster(cluster, topology, report_progress)
