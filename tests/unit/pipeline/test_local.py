"""Transfers in this process: copies of it give the same report, and are as many as memory allows."""

from __future__ import annotations

import os
import threading

import pytest

from llmprism.ingest import read_transfers
from llmprism.model import Job, JobLayout
from llmprism.model.flows import AssembledFlows
from llmprism.parallelism import identify_layout
from llmprism.pipeline import Processes, diagnose, local
from llmprism.report.json_report import render
from support.reports import EXAMPLES


@pytest.mark.parametrize("processes", [2, 5])
def test_copies_of_the_process_give_the_same_report(processes, monkeypatch):
    flows = read_transfers([EXAMPLES / "pp4dp2tp2" / "flows.parquet"])
    expected = render(diagnose(flows))
    monkeypatch.setattr(local, "FORK_TRANSFERS", 0)
    begun = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: begun.append(1) or fork())
    assert render(diagnose(flows, processes=Processes(processes))) == expected
    assert begun


def test_small_inputs_and_callers_that_do_not_say_so_are_not_forked(monkeypatch):
    flows = read_transfers([EXAMPLES / "crash" / "flows.parquet"])

    def fork():
        raise AssertionError("forked")

    monkeypatch.setattr(os, "fork", fork)
    diagnose(flows, processes=Processes(8))
    monkeypatch.setattr(local, "FORK_TRANSFERS", 0)
    diagnose(flows)
    diagnose(flows, processes=Processes(1))


def test_one_thread_gives_the_same_report(monkeypatch):
    monkeypatch.setattr(local, "THREADED_TRANSFERS", 0)
    threads, flows = _threads_of(threads=1)
    assert threads == [threading.current_thread()]
    assert render(diagnose(flows, threads=1)) == render(diagnose(flows, threads=2))


def test_the_second_thread_is_for_large_inputs(monkeypatch):
    threads, flows = _threads_of(threads=2)
    assert threads == [threading.current_thread()]
    monkeypatch.setattr(local, "THREADED_TRANSFERS", flows.transfers.start_ns.size)
    threads, _ = _threads_of(threads=2)
    assert threading.current_thread() not in threads


def _threads_of(*, threads: int) -> tuple[list[threading.Thread], AssembledFlows]:
    """Where the layouts of an example are found."""
    flows = read_transfers([EXAMPLES / "crash/flows.parquet"])
    found: list[threading.Thread] = []

    def layout_of(job: Job) -> JobLayout:
        found.append(threading.current_thread())
        return identify_layout(job)

    diagnose(flows, threads=threads, find_layout=layout_of)
    return found, flows


def test_one_thread_ends_at_once_where_nobody_wants_to_know_more():
    done = []

    def enough(_share):
        if len(done) > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        local._in_threads(done.append, range(10), 1, enough)
    assert done == [0, 1]


def test_as_many_processes_as_items_and_cores(monkeypatch):
    monkeypatch.setattr(local, "room_bytes", lambda _limit: 10**12)
    assert Processes(64).for_work([10**6] * 383) == 64
    assert Processes(64).for_work([10**6] * 3) == 3
    assert Processes(1).for_work([10**6] * 3) == 1
    assert Processes(64).for_work([]) == 1


def test_no_more_processes_than_memory_has_room_for(monkeypatch):
    limits = []
    monkeypatch.setattr(local, "room_bytes", lambda limit: limits.append(limit) or 10**9)
    each = 10**9 // local.WORK_BYTES // 4
    assert Processes(64, 5 * 10**9).for_work([each] * 383) == 4
    assert limits == [5 * 10**9]
    assert Processes(64).for_work([4 * each, *[each // 100] * 60]) == 1
    assert Processes(64).for_work([3 * each, *[each // 100] * 60]) == 61
