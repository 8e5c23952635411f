"""A layout that is carried over equals the one that is found; where the job changes, there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.ingest import assemble_transfers, read_flows, read_topology
from llmprism.model.flows import AssembledFlows, FlowTable, Window
from llmprism.model.job import Job
from llmprism.model.topology import Topology
from llmprism.parallelism import identify_layout
from llmprism.parallelism.carried_layout import carried_layout, layout_pattern
from llmprism.pipeline.local import LocalCluster
from llmprism.pipeline.order import recognise_jobs
from llmprism.service.reading import cut
from support.reports import EXAMPLES

S = 1_000_000_000
LENGTH = 16 * S


@pytest.fixture(scope="module")
def capture() -> tuple[FlowTable, Topology]:
    folder = EXAMPLES / "pp4dp2tp2"
    return read_flows([folder / "flows.parquet"]), read_topology(folder / "topology.json")


def job_at(capture: tuple[FlowTable, Topology], end_ns: int) -> Job:
    flows, topology = capture
    window = Window(end_ns - LENGTH, end_ns)
    part = cut(flows, window)
    cluster = LocalCluster(
        AssembledFlows(assemble_transfers(part), part.counts, window, None), window, with_events=False
    )
    draft, drafts = recognise_jobs(cluster, topology)
    (job,) = cluster.jobs(draft, drafts)
    return job


@pytest.fixture(scope="module")
def jobs(capture: tuple[FlowTable, Topology]) -> tuple[Job, Job]:
    """The same job in two windows that overlap by half."""
    end = capture[0].window.end_ns
    return job_at(capture, end - 8 * S), job_at(capture, end)


def test_equals_the_layout_that_is_found(jobs: tuple[Job, Job]) -> None:
    first, second = jobs
    pattern = layout_pattern(first, identify_layout(first), 0)
    assert pattern is not None
    carried = carried_layout(pattern, second)
    assert carried is not None
    layout, found = carried[0], identify_layout(second)
    assert layout.clock is not None
    assert found.clock is not None
    assert np.array_equal(layout.clock.boundary_ns, found.clock.boundary_ns)
    assert np.array_equal(layout.clock.regular, found.clock.regular)
    assert np.array_equal(layout.transfer_kind, found.transfer_kind)
    assert layout.layout == found.layout
    assert layout.pipelines == found.pipelines
    assert set(layout.groups) == set(found.groups)


def test_none_where_a_pair_is_missing(jobs: tuple[Job, Job]) -> None:
    first, second = jobs
    pattern = layout_pattern(first, identify_layout(first), 0)
    assert pattern is not None
    largest = int(np.argmax(second.transfers.pair_bytes))
    others = np.flatnonzero(np.arange(second.transfers.pair_count) != largest).astype(np.int32)
    changed = replace(second, transfers=second.transfers.select_pairs(others), bulk=None)
    assert carried_layout(pattern, changed) is None


def test_none_where_a_pair_sends_less(jobs: tuple[Job, Job]) -> None:
    first, second = jobs
    pattern = layout_pattern(first, identify_layout(first), 0)
    assert pattern is not None
    paced = pattern.key[pattern.step_bytes > 0][0]
    pair = int(np.flatnonzero(pattern.every_key == paced)[0])
    marked = np.zeros(second.transfers.pair_count, dtype=np.bool_)
    marked[pair] = True
    rows = second.transfers.rows_of(marked)
    less = replace(second.transfers, bytes=np.where(rows, second.transfers.bytes // 4, second.transfers.bytes))
    assert carried_layout(pattern, replace(second, transfers=less)) is None


def test_none_without_overlap(jobs: tuple[Job, Job]) -> None:
    first, second = jobs
    pattern = layout_pattern(first, identify_layout(first), 0)
    assert pattern is not None
    later = second.transfers
    moved = replace(later, start_ns=later.start_ns + 60 * S, end_ns=later.end_ns + 60 * S)
    assert carried_layout(pattern, replace(second, transfers=moved)) is None


def test_no_pattern_of_a_job_without_steps(jobs: tuple[Job, Job]) -> None:
    layout = identify_layout(jobs[0])
    assert layout_pattern(jobs[0], replace(layout, clock=None), 0) is None


def test_no_pattern_where_the_ends_do_not_follow(jobs: tuple[Job, Job]) -> None:
    """A clock at another phase is not given back."""
    layout = identify_layout(jobs[0])
    assert layout.clock is not None
    moved = replace(layout.clock, boundary_ns=layout.clock.boundary_ns + int(0.3 * layout.clock.period_ns))
    assert layout_pattern(jobs[0], replace(layout, clock=moved), 0) is None
