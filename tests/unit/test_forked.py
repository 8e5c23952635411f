"""Work shared with a copy of the process: the same results, whatever becomes of the copy."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from llmprism.forked import forked_map


def test_the_results_are_those_of_a_loop_in_the_order_of_the_items():
    items = [np.arange(count) for count in (5, 0, 9, 3, 7, 1)]
    assert forked_map(lambda item: int(item.sum()), items, len) == [int(item.sum()) for item in items]
    assert forked_map(str, [], lambda _: 0) == []
    assert forked_map(str, [1], lambda _: 0) == ["1"]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_all_processes_work(processes):
    def slow(item):
        np.sort(np.random.default_rng(item).random(300_000))
        return os.getpid()

    workers = set(forked_map(slow, range(60), lambda _: 1, processes=processes))
    assert os.getpid() in workers
    assert len(workers) == processes


def test_more_items_than_a_pipe_holds():
    items = range(40_000)
    assert forked_map(lambda item: item + 1, items, lambda item: item) == list(range(1, 40_001))


def test_large_results_come_back_whole():
    items = list(range(6))
    for processes in (2, 4):
        parts = forked_map(lambda item: np.full(1_000_000, item), items, lambda _: 1, processes=processes)
        assert [int(part.sum()) for part in parts] == [1_000_000 * item for item in items]


def test_no_pipe_and_no_process_is_left():
    fds, children = Path("/proc/self/fd"), Path(f"/proc/self/task/{os.getpid()}/children")
    before, others = len(list(fds.iterdir())), children.read_text()
    forked_map(str, range(20), lambda _: 1, processes=5)
    assert len(list(fds.iterdir())) == before
    assert children.read_text() == others


def test_a_copy_that_is_killed_costs_no_result():
    here = os.getpid()

    def function(item):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    assert forked_map(function, range(50), lambda _: 1, processes=3) == [item * item for item in range(50)]


def test_an_error_is_raised_here():
    def function(item):
        if item == 3:
            raise ValueError("three")
        return item

    with pytest.raises(ValueError, match="three"):
        forked_map(function, range(8), lambda _: 1)
