"""Windows from stored segments: silence, outages, catching up, a topology that changes, and upkeep of the segments."""

import itertools
import json
import shutil
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from llmprism.ingest.accept import TimeBounds, accept_flows
from llmprism.model import LiveState
from llmprism.service.clock_of_source import Clock as SourceTime
from llmprism.service.config import TopologySettings, WindowSettings
from llmprism.service.evaluator import Evaluator, TopologyFile
from llmprism.service.history import History
from llmprism.service.store import Batch, SourceBatch
from llmprism.service.upkeep import Upkeep
from support.reports import EXAMPLES

S = 1_000_000_000


def feed(store, capture, name="one", wall_ns=0):
    file = store.folder / f"{name}.parquet"
    accepted = accept_flows([EXAMPLES / capture / "flows.parquet"], file, TimeBounds(0, 2**62))
    target = store.segment_file(name, accepted.end_ns)
    target.parent.mkdir(exist_ok=True)
    shutil.move(file, target)
    store.commit_batch(Batch(name, (SourceBatch("test", accepted),), target, wall_ns))
    return accepted


class Clock:
    now = 1_000_000 * S

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def drain(evaluator):
    made = 0
    while evaluator.advance():
        made += 1
    return made


def test_a_crash_is_reported_by_the_clock_when_no_record_comes(store, config, clock):
    config = replace(config, windows=WindowSettings(idle_after_s=3.0))
    evaluator = Evaluator(store, config, clock)
    accepted = feed(store, "crash", wall_ns=clock.now)
    drain(evaluator)
    assert [run.state for run in evaluator.state.runs] == [LiveState.RUNNING]
    result = None
    for second in range(1, 40):
        clock.now += S
        drain(evaluator)
        if evaluator.state.findings and result is None:
            result = second
    (tracked,) = evaluator.state.findings
    assert tracked.finding.kind.value == "crash"
    assert tracked.finding.where.id == "10.10.3.1"
    assert accepted.end_ns / S + result - tracked.finding.start_ns / S < 15
    assert drain(evaluator) == 0, "time stops when nothing can change any more"
    clock.now += 3_600 * S
    drain(evaluator)
    assert History(store).last_window()["end_ns"] <= accepted.end_ns + 3 * 60 * S, "at the latest after three windows"


def test_a_source_that_delivers_now_and_then_is_not_idle_before_it_misses_three(store, config, clock, monkeypatch):
    config = replace(config, windows=WindowSettings(idle_after_s=3.0))
    evaluator = Evaluator(store, config, clock)
    feed(store, "crash", wall_ns=clock.now)
    source = SourceTime("test", interval_ns=20 * S, wall_ns=clock.now)
    monkeypatch.setattr(store, "clocks", lambda: {source.key: source})
    drain(evaluator)
    clock.now += 40 * S
    drain(evaluator)
    assert evaluator.state.findings == (), "the next one may be late"
    clock.now += 30 * S
    drain(evaluator)
    assert [tracked.finding.kind.value for tracked in evaluator.state.findings] == ["crash"]


def test_a_restart_does_not_count_the_time_it_was_away(store, config, clock):
    config = replace(config, windows=WindowSettings(idle_after_s=3.0))
    feed(store, "crash", wall_ns=clock.now)
    drain(Evaluator(store, config, clock))
    clock.now += 3_600 * S
    later = Evaluator(store, config, clock)
    assert drain(later) == 0
    assert [run.state for run in later.state.runs] == [LiveState.RUNNING]


def test_a_second_evaluator_goes_on_where_the_first_stopped(store, config, clock):
    feed(store, "slow_nic")
    first = Evaluator(store, config, clock)
    for _ in range(3):
        assert first.advance()
    second = Evaluator(store, config, clock)
    assert second.state == first.state
    drain(second)
    windows = History(store).windows(None, None, None)["items"]
    ends = [window["end_ns"] for window in windows]
    assert len(set(ends)) == len(ends)
    assert [one - other for one, other in pairwise(ends)] == [4 * S] * (len(ends) - 1)


def test_no_time_is_left_out_however_much_is_due_at_once(store, config, clock):
    """Half an hour of records arrives in one file: fewer windows, which still overlap."""
    config = replace(config, windows=WindowSettings(length_s=8.0, hop_s=1.0, idle_after_s=1e6))
    feed(store, "slow_nic")
    evaluator = Evaluator(store, config, clock)
    evaluator._took_ns = 4 * S
    drain(evaluator)
    windows = [(one["start_ns"], one["end_ns"]) for one in History(store).windows(None, None, None)["items"]]
    assert all(newer[0] <= older[1] for newer, older in pairwise(windows))
    assert not [1 for source, name, *_ in store.counters() if (source, name) == ("service", "seconds_left_out")]


@pytest.mark.parametrize("fixed", [False, True])
def test_a_fixed_hop_does_not_follow_the_machine(store, config, clock, monkeypatch, fixed):
    """Every window takes a minute of processor time."""
    config = replace(config, windows=WindowSettings(idle_after_s=1e6, fixed_hop=fixed))
    feed(store, "slow_nic")
    spent = itertools.count(0, 60 * S)
    monkeypatch.setattr(time, "process_time_ns", lambda: next(spent))
    drain(Evaluator(store, config, clock))
    items = History(store).windows(None, None, None)["items"]
    hops = {newer["end_ns"] - older["end_ns"] for newer, older in pairwise(items) if not is_check(newer)}
    checks = sum(map(is_check, items))
    assert (checks == 0 and hops == {4 * S}) if fixed else checks


def is_check(item):
    return item["note"].startswith("a check")


def test_a_watermark_that_goes_back_within_what_is_still_due_leaves_no_time_out(store, config, clock, monkeypatch):
    config = replace(config, windows=WindowSettings(length_s=8.0, hop_s=2.0, idle_after_s=1e6))
    accepted = feed(store, "slow_nic")
    evaluator = Evaluator(store, config, clock)
    for _ in range(3):
        assert evaluator.advance()
    latest = accepted.end_ns - 6 * S
    monkeypatch.setattr(store, "watermark", lambda: (latest, 0))
    drain(evaluator)
    windows = [(one["start_ns"], one["end_ns"]) for one in History(store).windows(None, None, None)["items"]]
    assert len(windows) > 3
    assert all(newer[0] <= older[1] for newer, older in pairwise(windows))


def test_time_is_left_out_and_counted_when_the_machine_cannot_keep_up(store, config, clock, monkeypatch):
    config = replace(config, windows=WindowSettings(length_s=8.0, hop_s=2.0, idle_after_s=1e6))
    feed(store, "slow_nic")
    evaluator = Evaluator(store, config, clock)
    assert evaluator.advance()
    evaluator._took_ns = 5 * S
    drain(evaluator)
    left_out = [value for source, name, _, value in store.counters() if name == "seconds_left_out"]
    assert left_out[0] > 8


def test_a_window_with_too_many_records_looks_at_the_latest(store, config, clock):
    config = replace(config, windows=WindowSettings(max_records=1_000, idle_after_s=1e6))
    for number in range(2):
        feed(store, "crash", f"part{number}")
    drain(Evaluator(store, config, clock))
    assert "only the latest part" in History(store).last_window()["note"]


def test_a_topology_is_read_again_and_a_broken_one_is_not_taken(tmp_path):
    path = tmp_path / "topology.json"
    path.write_text(json.dumps({"servers": [{"name": "a", "nics": []}], "switches": []}))
    file = TopologyFile(str(path))
    assert file.refresh().servers[0].name == "a"
    path.write_text(json.dumps({"servers": [{"name": "bb", "nics": []}], "switches": []}))
    assert file.refresh().servers[0].name == "bb"
    path.write_text("{broken")
    assert file.refresh().servers[0].name == "bb"
    assert "not JSON" in file.trouble
    assert TopologyFile("").refresh() is None


def test_old_small_segments_are_merged_and_nothing_is_lost(store, config):
    old = [feed(store, "crash", f"old{number}") for number in range(3)]
    config = replace(config, windows=WindowSettings(longest_s=60.0), topology=TopologySettings())
    upkeep = Upkeep(store, config)
    upkeep.once()
    assert len(store.segments(0, 2**62)) == 3, "still within reach of a window"
    upkeep._settled_ns = -S
    upkeep.once()
    (merged,) = store.segments(0, 2**62)
    assert merged.records == sum(one.stored for one in old)
    assert merged.seq == 3
    from llmprism.ingest import read_flows

    assert read_flows([merged.path]).counts.records == merged.records
    assert len(list(store.flows.rglob("*.parquet"))) == 1


def test_a_window_that_cannot_be_diagnosed_does_not_stop_the_next(store, config, clock, monkeypatch):
    from llmprism.service import looking as module

    feed(store, "crash")
    real, calls = module.diagnose, []

    def stumbles(*arguments, **named):
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("negative dimensions")
        return real(*arguments, **named)

    monkeypatch.setattr(module, "diagnose", stumbles)
    evaluator = Evaluator(store, config, clock)
    assert drain(evaluator) == len(calls) > 2
    notes = [one["note"] for one in History(store).windows(None, None, None)["items"]]
    assert sum("could not be diagnosed" in note for note in notes) == 1
    assert [run.state for run in evaluator.state.runs] == [LiveState.RUNNING]


def test_a_slow_job_is_looked_at_alone_over_its_own_reach(store, config, clock):
    """The capture's own run, told to need a longer look: it is made at its own hop, of its members' records only."""
    feed(store, "crash")
    evaluator = Evaluator(store, config, clock)
    while evaluator.advance() and not evaluator.state.runs:
        pass
    (run,) = evaluator.state.runs
    evaluator._state = replace(evaluator.state, runs=(replace(run, reach_ns=120 * S),))
    requested = []
    real = evaluator._report

    def note(flows, window, topology, progress=None):
        requested.append((window.end_ns - window.start_ns) // S)
        return real(flows, window, topology, progress)

    evaluator._report = note
    drain(evaluator)
    assert 120 in requested
    assert 60 in requested, "everybody else is looked at as before"
