"""Where windows are dear: checks in between, and looks at single jobs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from llmprism.ingest.accept import TimeBounds, accept_flows
from llmprism.model.flows import Window
from llmprism.model.live import FindingPhase, LiveState
from llmprism.service.checks import STANDING
from llmprism.service.config import Config
from llmprism.service.evaluator import Evaluator
from llmprism.service.history import History
from llmprism.service.store import Batch, SourceBatch, Store
from support.live_cluster import BEGIN, RingJob, S, write_records


class Played:
    """Jobs, second by second, with an evaluator for which every window is dear."""

    def __init__(self, folder: Path, store: Store, config: Config) -> None:
        self.folder, self.store, self.now = folder, store, BEGIN
        self.database = duckdb.connect()
        self.evaluator = Evaluator(store, config, lambda: self.now)
        rules = self.evaluator._rules
        self.evaluator._rules = replace(rules, windows=replace(rules.windows, idle=0.0, per_million=1, worth=1))
        self.notes: list[str] = []

    def play(self, jobs: list[RingJob], start_s: int, end_s: int, each_s: int = 4, *, make: bool = True) -> None:
        for second in range(start_s, end_s, each_s):
            self.now = BEGIN + (second + each_s) * S
            records = [row for job in jobs for row in job.records(second, second + each_s)]
            file, target = self.folder / "body.parquet", self.store.flows / f"{second}.parquet"
            write_records(self.database, file, records, 0.0)
            accepted = accept_flows([file], target, TimeBounds(0, 2**62))
            self.store.commit_batch(Batch(f"{second}", (SourceBatch("one", accepted),), target, self.now))
            while make and self.evaluator.advance():
                window = History(self.store).last_window()
                assert window is not None
                self.notes.append(window["note"])

    def state(self, name: str) -> LiveState:
        (run,) = [run for run in self.evaluator.state.runs if run.members[0].startswith(name)]
        return run.state


@pytest.fixture
def played(tmp_path: Path, store: Store, config: Config) -> Played:
    return Played(tmp_path, store, config)


def jobs(**changes: object) -> list[RingJob]:
    made = [RingJob(f"j{number}", period_s=0.4 + 0.07 * number, begin_ns=BEGIN) for number in range(5)]
    for name, value in changes.items():
        setattr(made[1], name, value)
    return made


def test_checks_in_between_and_steps_without_a_gap(played: Played) -> None:
    played.play(jobs(), 0, 150)
    checks = [note for note in played.notes if note.startswith("a check")]
    assert len(checks) > 2 * (len(played.notes) - len(checks)), "windows of everybody are made seldom"
    assert all(run.state is LiveState.RUNNING for run in played.evaluator.state.runs)
    history = History(played.store)
    for run in history.runs()["items"]:
        steps = history.steps(run["id"], None, None)
        gaps = [after[1] - before[2] for before, after in itertools.pairwise(steps)]
        assert len(steps) > 100
        assert max(gaps) <= 0.1 * run["period_ns"], "every step is there"


def test_a_crash_is_reported_within_15_s_by_a_look_at_one_job(played: Played) -> None:
    played.play(jobs(crashes_at_s=141.37), 0, 140)
    played.play(jobs(crashes_at_s=141.37), 140, 142, 1)
    played.notes.clear()
    second = 142
    while played.state("j1") is not LiveState.CRASHED:
        played.play(jobs(crashes_at_s=141.37), second, second + 1, 1)
        second += 1
        assert second < 157
    assert "jobs looked at: 1" in played.notes[-1]
    (tracked,) = [one for one in played.evaluator.state.findings if one.phase is FindingPhase.OPEN]
    assert abs(tracked.finding.start_ns - BEGIN - 141.37 * S) < S
    assert {run.state for run in played.evaluator.state.runs} == {LiveState.RUNNING, LiveState.CRASHED}


def test_a_new_job_gets_a_window_of_everybody(played: Played) -> None:
    played.play(jobs(), 0, 100)
    before = len(played.evaluator.state.runs)
    played.play([*jobs(), RingJob("late", period_s=0.6, begin_ns=BEGIN)], 100, 112)
    assert len(played.evaluator.state.runs) == before + 1


def windows_and_checks(store: Store) -> tuple[list[int], list[int]]:
    """Seconds at which windows of everybody and checks end, in their order."""
    items = History(store).windows(None, None, None, 1000)["items"][::-1]
    checks = [one["note"].startswith("a check") for one in items]
    ends = [(one["end_ns"] - BEGIN) // S for one in items]
    return (
        [end for end, check in zip(ends, checks, strict=True) if not check],
        [end for end, check in zip(ends, checks, strict=True) if check],
    )


def test_young_and_new_jobs_wait_until_a_look_is_affordable(played: Played) -> None:
    """A window takes 9 s, so that one may be made every 30 s; the jobs are young, and later one more comes."""
    evaluator = played.evaluator
    evaluator._took_ns = 9 * S
    evaluator._note_cost = lambda _cost: None
    played.play(jobs(), 0, 68)
    windows, checks = windows_and_checks(played.store)
    first, second = windows[0], windows[1]
    assert 32 <= second - first < 44, "the young ones wait, but not until the planned window"
    assert set(range(first + 4, second, 4)) <= set(checks), "everybody is checked meanwhile"
    assert all(run.clear >= 2 for run in evaluator.state.runs)
    late = RingJob("late", period_s=0.6, begin_ns=BEGIN)
    played.play([*jobs(), late], 68, 100)
    windows, _ = windows_and_checks(played.store)
    assert windows[2] - second == 32, "and so does the new one"
    assert len(evaluator.state.runs) == len(jobs()) + 1


def test_a_few_young_jobs_are_looked_at_alone(played: Played) -> None:
    played.play(jobs(), 0, 100)
    evaluator = played.evaluator
    young, *others = evaluator.state.runs
    evaluator._state = replace(evaluator.state, runs=(replace(young, clear=0), *others))
    evaluator._took_ns = 9 * S
    evaluator._note_cost = lambda _cost: None
    end = evaluator._plan.last_end + 8 * S
    assert evaluator._affordable([young], end) == [young], "settled"
    (unsettled,) = [run for run in evaluator.state.runs if run.clear == 0]
    assert evaluator._affordable([unsettled, others[0]], end - 4 * S) == [others[0]], "a fifth of 9 s every 6 s"
    assert evaluator._affordable([unsettled, others[0]], end) == [unsettled, others[0]]
    assert evaluator._affordable([unsettled], end + 4 * S) == [], "it was looked at a moment ago"


def test_a_check_while_a_window_is_made_says_who_waits(played: Played) -> None:
    """One job sends less than it used to, and nobody has stopped: that is known before the window is."""
    played.play(jobs(), 0, 120)
    evaluator = played.evaluator
    evaluator._took_ns = 10 * S
    evaluator._rates = {name: 2 * rate if name == evaluator.state.runs[1].id else rate
                        for name, rate in evaluator._rates.items()}  # fmt: skip
    end, second = evaluator._plan.next_end, (played.now - BEGIN) // S
    while BEGIN + second * S < end + 12 * S:
        played.play(jobs(), second, second + 4, make=False)
        second += 4
    assert evaluator.advance()
    items = History(played.store).windows(None, None, None, 2)["items"]
    assert items[0]["end_ns"] > evaluator._plan.last_end == end
    assert items[0]["note"].endswith("jobs that wait for a look: 1")


def test_what_has_not_changed_is_known_before_a_long_window_is_made(played: Played) -> None:
    """Records of two more hops are there while the window is made."""
    played.play(jobs(), 0, 120)
    evaluator = played.evaluator
    end = evaluator._plan.next_end
    while evaluator._plan.checked_ns < end - 4 * S:
        second = (played.now - BEGIN) // S
        played.play(jobs(), second, second + 4)
    made = evaluator._while_making
    seen = []

    def more_comes(window: Window) -> None:
        seen.append(window)
        evaluator._took_ns = 10 * S
        if len(seen) == 1:
            seconds = (played.now - BEGIN) // S
            played.play(jobs(), seconds, seconds + 12, make=False)
        made(window)

    evaluator._while_making = more_comes
    second = (played.now - BEGIN) // S
    played.play(jobs(), second, second + 4, make=False)
    assert evaluator.advance()
    assert evaluator._plan.last_end == end
    ends = [one["end_ns"] for one in History(played.store).windows(None, None, None, 10)["items"]]
    assert max(ends) >= end + 8 * S
    assert end in ends
    while evaluator.advance():
        pass
    assert all(run.state is LiveState.RUNNING for run in evaluator.state.runs)


def test_a_window_waits_for_a_job_that_has_stopped(played: Played) -> None:
    """It stops while a long window is made: it is told at once, and the window is made afterwards."""
    played.play(jobs(), 0, 120)
    evaluator = played.evaluator
    evaluator._took_ns = 10 * S
    end, second = evaluator._plan.next_end, (played.now - BEGIN) // S
    while BEGIN + second * S < end + 12 * S:
        played.play(jobs(crashes_at_s=(end - BEGIN) / S + 0.41), second, second + 4, make=False)
        second += 4
    evaluator._note_cost = lambda _cost: None
    assert evaluator.advance()
    assert evaluator._plan.next_end > end + 8 * S, "the window waits"
    assert evaluator.advance()
    assert "jobs looked at: 1" in History(played.store).last_window()["note"]
    assert not evaluator.state.runs[1].state.alive or evaluator.state.runs[1].state in STANDING
    played.play(jobs(crashes_at_s=(end - BEGIN) / S + 0.41), second, second + 16)
    assert evaluator._plan.last_end > end, "and is made then"
    assert sum(run.state is LiveState.RUNNING for run in evaluator.state.runs) == 4
    assert len(evaluator.state.runs) == 5
