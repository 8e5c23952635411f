"""Parts that fail are started again and are a trouble until they work; the evaluator's failures are said."""

import gc
import multiprocessing
import os
import threading
import time

import pytest

from llmprism.errors import ConfigError
from llmprism.service import supervisor as module
from llmprism.service.folder_lock import FolderLock
from llmprism.service.heartbeat import Heartbeat
from llmprism.service.supervisor import Supervisor
from llmprism.service.timeline_pool import TimelinePool


def until(check, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_part_that_fails_is_started_again_and_said_until_it_works(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(module, "HEALED_S", 0.2)
    stop, tries = threading.Event(), []
    supervisor = Supervisor(stop)

    def work():
        tries.append(1)
        if len(tries) < 3:
            raise OSError("No space left on device")
        stop.wait()

    supervisor.start("kafka:flows", work)
    until(lambda: supervisor.troubles())
    assert "kafka:flows failed and is started again (OSError: No space left on device)" in supervisor.troubles()
    until(lambda: len(tries) == 3 and not supervisor.troubles())
    assert supervisor.failures == 2
    stop.set()
    supervisor.join(time.monotonic() + 5)


def test_a_part_that_ends_by_itself_is_a_trouble_too(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.05)
    stop = threading.Event()
    supervisor = Supervisor(stop)
    supervisor.start("upkeep", lambda: None)
    until(lambda: supervisor.troubles())
    assert "ended by itself" in supervisor.troubles()[0]
    stop.set()


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_an_evaluator_that_fails_or_hangs_is_said():
    clock = Clock()
    beat = Heartbeat(multiprocessing.get_context("spawn"), clock)
    beat.succeeded()
    assert beat.trouble() == ""
    beat.failed("DataError: value too long")
    clock.now += 8
    assert beat.trouble() == "no window has been made for 8 s: DataError: value too long"
    beat.succeeded()
    assert beat.trouble() == ""
    clock.now += 300
    assert "does not answer" in beat.trouble()


def test_a_killed_timeline_worker_fails_one_request_and_no_later_one():
    pool = TimelinePool(multiprocessing.get_context("spawn"), gc.collect, ())
    with pytest.raises(Exception, match="terminated abruptly"):
        pool.submit(os._exit, 9).result(60)
    assert pool.submit(len, b"abc").result(60) == 3
    pool.shutdown()


def test_a_folder_has_one_service(tmp_path):
    first = FolderLock(tmp_path)
    with pytest.raises(ConfigError, match=r"in use by another llmprism serve \(process \d+\)"):
        FolderLock(tmp_path)
    first.release()
    FolderLock(tmp_path).release()
