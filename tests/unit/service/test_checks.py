"""Which runs are looked at between two windows of everybody."""

from __future__ import annotations

from dataclasses import replace

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.live import FindingPhase, LiveState, TrackedFinding, TrackedRun
from llmprism.service.checks import Sent, affordable_runs, newcomers, undecided, wanted_runs
from llmprism.service.rules import RULES
from llmprism.units import SECOND

START, END = 1_000 * SECOND, 1_008 * SECOND
RUN = TrackedRun("job-1", ("a", "b"), (), LiveState.RUNNING, 0, 0, START, START, period_ns=SECOND // 2, clear=5)
FINDING = Finding(FindingKind.SLOW_NIC, "job-1", Where(WhereType.NIC, "a"), 0, None, 0.5, 0.5, 0.0, "slow")


def wanted(run: TrackedRun, last_s: float, size: int, phase: FindingPhase | None = None, end: int = END) -> bool:
    findings = [] if phase is None else [TrackedFinding("f-1", FINDING, phase)]
    sent = {"a": Sent(int(last_s * SECOND), size), "stranger": Sent(END, 10**9)}
    return bool(wanted_runs([run], findings, sent, {"job-1": 1e6}, START, end, RULES))


def test_nobody_while_all_goes_on_as_before():
    assert not wanted(RUN, 1_007.9, 8_000_000)


def test_a_run_that_fell_silent():
    assert wanted(RUN, 1_002.0, 8_000_000)
    assert not wanted(replace(RUN, state=LiveState.ENDED), 1_002.0, 8_000_000)


def test_a_run_that_sends_less_than_it_used_to():
    assert wanted(RUN, 1_007.9, 6_000_000)
    assert not wanted(RUN, 1_007.9, 7_100_000), "less than two steps are missing"


def test_a_run_with_a_finding_that_is_not_decided():
    assert wanted(RUN, 1_007.9, 8_000_000, FindingPhase.PENDING)
    assert not wanted(RUN, 1_007.9, 8_000_000, FindingPhase.CLOSED)


def test_a_run_with_an_open_finding_now_and_then():
    ends = [START + hop * RULES.windows.hop for hop in range(1, 7)]
    assert sum(wanted(RUN, end / SECOND, 10**8, FindingPhase.OPEN, end) for end in ends) == 2


def test_a_run_whose_steps_have_not_shown_clearly_every_other_time():
    ends = [START + hop * RULES.windows.hop for hop in range(1, 7)]
    young = replace(RUN, clear=0)
    assert sum(wanted(young, end / SECOND, 10**8, end=end) for end in ends) == 3


def test_a_run_that_goes_on_again():
    still = replace(RUN, state=LiveState.STALLED)
    ends = [START + hop * RULES.windows.hop for hop in range(1, 4)]
    assert any(wanted(still, 1_003.0, 8_000_000, end=end) for end in ends)
    assert not any(wanted(still, 999.0, 0, end=end) for end in ends)


def test_not_one_that_has_longer_looks_of_its_own():
    assert not wanted(replace(RUN, reach_ns=2 * RULES.windows.length), 1_002.0, 0)


def test_newcomers_and_shared_findings_need_everybody():
    assert newcomers({"x": Sent(), "y": Sent(), "a": Sent()}, frozenset({"a"}))
    assert not newcomers({"x": Sent(), "a": Sent()}, frozenset({"a"}))
    shared = replace(FINDING, job=None)
    assert undecided([TrackedFinding("f-1", shared, FindingPhase.PENDING)])
    opened = TrackedFinding("f-1", shared, FindingPhase.OPEN)
    assert not undecided([opened, TrackedFinding("f-2", FINDING, FindingPhase.PENDING)])


def test_young_runs_wait_while_looks_at_them_are_dear():
    young = replace(RUN, id="job-2", clear=0)
    nine = 9 * SECOND
    assert affordable_runs([RUN, young], 20, nine, 4 * SECOND) == [RUN, young], "two of twenty addresses"
    assert affordable_runs([RUN, young], 4, nine, 12 * SECOND) == [RUN], "a half of 9 s every 15 s"
    assert affordable_runs([RUN, young], 4, nine, 15 * SECOND) == [RUN, young]
    assert affordable_runs([RUN, young], 3, nine, 28 * SECOND) == [RUN], "most of them cost as much as all"
    assert affordable_runs([RUN, young], 3, nine, 32 * SECOND) == [RUN, young]
    assert affordable_runs([RUN], 2, nine, 0) == [RUN], "a settled one that has changed does not wait"
