"""Layouts are carried over from window to window, and found anew where something is wrong or much time has passed."""

from __future__ import annotations

from dataclasses import replace

import pytest

import chaos_jobs
from llmprism.ingest import read_flows, read_topology
from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.flows import Window
from llmprism.model.live import FindingPhase, LiveState, TrackedFinding, TrackedRun
from llmprism.model.report import Report
from llmprism.pipeline import diagnose
from llmprism.service.layout_memory import LayoutMemory, documents_due, refreshed
from llmprism.service.reading import cut
from llmprism.service.rules import RULES
from llmprism.service.step_memory import member_key
from llmprism.service.tracker import TrackerState
from llmprism.service.windows import WindowPlan
from support.reports import EXAMPLES
from unit.builders import Flow, flow_table

S = 1_000_000_000
LENGTH = 16 * S


class Looks:
    """Windows of a capture, which is moved so that all of it lies between two refreshes."""

    def __init__(self) -> None:
        folder = EXAMPLES / "pp4dp2tp2"
        flows, self.topology = read_flows([folder / "flows.parquet"]), read_topology(folder / "topology.json")
        move = 100 * RULES.runs.refresh_ns - flows.window.start_ns
        self.flows = replace(flows, start_ns=flows.start_ns + move, end_ns=flows.end_ns + move)
        self.end_ns = self.flows.window.end_ns

    def look(self, memory: LayoutMemory, end_ns: int) -> Report:
        window = Window(end_ns - LENGTH, end_ns)
        memory.begin(window)
        part = cut(self.flows, window)
        return diagnose(part, self.topology, with_events=False, window=window, find_layout=memory.layout_of)


@pytest.fixture(scope="module")
def looks() -> Looks:
    return Looks()


def test_carried_over_with_the_same_report(looks: Looks) -> None:
    memory = LayoutMemory()
    memory.end(looks.look(memory, looks.end_ns - 8 * S))
    report = looks.look(memory, looks.end_ns)
    assert (memory.found, memory.carried) == (1, 1)
    whole = looks.look(LayoutMemory(), looks.end_ns)
    (job,), (same,) = report.jobs, whole.jobs
    assert job.timeline.steps.start_ns.tolist() == same.timeline.steps.start_ns.tolist()
    assert job.timeline.steps.end_ns.tolist() == same.timeline.steps.end_ns.tolist()
    assert report.findings == whole.findings


def test_found_anew_where_something_is_wrong(looks: Looks) -> None:
    memory = LayoutMemory()
    report = looks.look(memory, looks.end_ns - 8 * S)
    where = Where(WhereType.JOB, report.jobs[0].job.id)
    finding = Finding(FindingKind.STALL, report.jobs[0].job.id, where, 0, None, 0.5, 0.5, 0.0, "it stands")
    memory.end(replace(report, findings=(finding,)))
    looks.look(memory, looks.end_ns)
    assert (memory.found, memory.carried) == (2, 0)


def test_not_known_from_a_part_of_a_window(looks: Looks) -> None:
    """A job that began in the middle of the window is looked at as a whole in the next one."""
    memory = LayoutMemory()
    memory.end(looks.look(memory, looks.flows.window.start_ns + LENGTH // 3))
    assert not memory._known


def test_documents_depend_on_the_runs_alone() -> None:
    run = TrackedRun("job-1", ("a", "b"), (), LiveState.RUNNING, 0, 0, 0, 0, clear=5)
    state = TrackerState(runs=(run,))
    window = Window(1_000 * S, 1_060 * S)
    plan = WindowPlan(1_060 * S, 1_056 * S)
    assert documents_due(state, state, window, plan) == frozenset()
    assert documents_due(TrackerState(), state, window, plan) == {"job-1"}
    other = replace(run, members=("a", "b", "c"))
    assert documents_due(state, TrackerState(runs=(other,)), window, plan) == {"job-1"}
    young = replace(run, first_ns=950 * S)
    assert documents_due(TrackerState(runs=(young,)), TrackerState(runs=(young,)), window, plan) == {"job-1"}
    finding = Finding(FindingKind.STALL, "job-1", Where(WhereType.JOB, "job-1"), 0, None, 0.5, 0.5, 0.0, "it stands")
    open_finding = TrackerState(runs=(run,), findings=(TrackedFinding("f-1", finding, FindingPhase.OPEN),))
    assert documents_due(state, open_finding, window, plan) == {"job-1"}
    assert documents_due(state, state, Window(1_200 * S, 1_260 * S), WindowPlan(0, 600 * S)) == {"job-1"}


def test_not_all_layouts_are_found_anew_in_one_window() -> None:
    keys = [member_key((f"a{number}", f"b{number}")) for number in range(600)]
    refresh = RULES.runs.refresh_ns
    due = [sum(refreshed(key, at, at + refresh // 10) for key in keys) for at in range(0, refresh, refresh // 10)]
    assert sum(due) == len(keys), "each once"
    assert max(due) < 0.2 * len(keys)


def test_a_window_of_slow_steps_is_looked_at_with_the_known_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow NIC makes the steps of the first 36 of 60 seconds twice as long. Those after it are steps too, and two of
    them are not one."""
    monkeypatch.setattr(chaos_jobs, "SLOWER", 3.857)
    slow = chaos_jobs.Fault(chaos_jobs.FaultKind.SLOW, 0, 36, gpu=3)
    job = chaos_jobs.ScheduledJob("j0", 0.53, faults=(slow,), seed=1)
    columns = chaos_jobs.columns_of([job.records(second, 60) for second in range(60)], 0)
    order = ("src", "dst", "start_ns", "end_ns", "bytes")
    flows = flow_table(Flow(*row) for row in zip(*(columns[name].tolist() for name in order), strict=True))
    window = Window(0, 60 * S)
    memory = LayoutMemory()
    memory.begin(window, {member_key(flows.addresses): 8 * 6 * chaos_jobs.BYTES})
    report = diagnose(flows, None, with_events=False, window=window, find_layout=memory.layout_of)
    (found,) = report.jobs
    durations = found.timeline.steps.duration_ns / S
    assert found.timeline.steps.end_ns[-1] > 58.5 * S
    assert sum(durations < 0.6) == pytest.approx(24 / 0.53, abs=2)
    assert sum(durations > 0.9) == pytest.approx(36 / 1.06, abs=2)
