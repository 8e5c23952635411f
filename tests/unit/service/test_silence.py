"""Runs that fall silent together: who reported on them, and does anybody still report?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.model.live import LiveState, TrackedRun
from llmprism.service.batch_rows import Segment
from llmprism.service.silence import gap_of, marked, silent_groups, unreported
from llmprism.units import SECOND

NOW = 1_000 * SECOND


def run(name: str, silent_s: float, state: LiveState = LiveState.CRASHED) -> TrackedRun:
    """A run whose last message ended so many seconds ago."""
    since = NOW - int(silent_s * SECOND)
    return TrackedRun(f"job-{name}", (f"{name}0", f"{name}1"), (), state, 0, 0, NOW, since)


def groups(*after: TrackedRun) -> list[list[str]]:
    before = [replace(one, state=LiveState.RUNNING) for one in after]
    return [[one.id for one in group] for group in silent_groups(before, after, NOW)]


def test_runs_that_fall_silent_within_seconds_of_each_other_do_so_together() -> None:
    assert groups(run("a", 20.0), run("b", 18.5), run("c", 60.0)) == [["job-a", "job-b"]]
    assert groups(run("a", 20.0), run("b", 10.0)) == []
    assert groups(run("a", 20.0), run("b", 19.0, LiveState.RUNNING)) == [["job-a", "job-b"]], "one has long steps"
    assert groups(*(run(name, 20.0, LiveState.RUNNING) for name in "ab")) == [], "nobody would be stopped"


def segments(folder: Path, rows: list[tuple[str, str, float]]) -> list[Segment]:
    """One segment with records (sender, exporter, seconds ago)."""
    end = [NOW - int(seconds * SECOND) for _, _, seconds in rows]
    columns = {
        "src": [src for src, _, _ in rows],
        "end_ns": end,
        "source": ["one"] * len(rows),
        "exporter": [exporter for _, exporter, _ in rows],
    }
    pq.write_table(pa.table(columns), folder / "flows.parquet")
    return [Segment(1, folder / "flows.parquet", len(rows), min(end), max(end), max(end), NOW)]


def test_nobody_reports_on_runs_whose_exporter_fell_silent_with_them(tmp_path: Path) -> None:
    group = [run("a", 20.0), run("b", 19.0)]
    seen = [("a0", "leaf1", 20.0), ("b0", "leaf1", 19.0)]
    both = frozenset({"job-a", "job-b"})
    assert unreported(segments(tmp_path, [*seen, ("x0", "leaf2", 1.0)]), group) == both
    assert unreported(segments(tmp_path, [*seen, ("x0", "leaf1", 1.0)]), group) == frozenset(), "the exporter goes on"
    apart = [("a0", "leaf1", 20.0), ("b0", "leaf2", 19.0)]
    assert unreported(segments(tmp_path, apart), group) == frozenset(), "each with an exporter of its own has stopped"


def test_who_reported_on_a_run_long_before_does_not_watch_it(tmp_path: Path) -> None:
    """leaf2 saw a run once, on another way, and goes on to report on others."""
    group = [run("a", 20.0), run("b", 19.0)]
    rows = [("a0", "leaf1", 20.0), ("b0", "leaf1", 19.0), ("x0", "leaf2", 1.0)]
    both = frozenset({"job-a", "job-b"})
    assert unreported(segments(tmp_path, [*rows, ("a1", "leaf2", 90.0)]), group) == both
    assert unreported(segments(tmp_path, [*rows, ("a1", "leaf2", 25.0)]), group) == {"job-b"}


def test_times_without_a_watch_that_meet_are_one() -> None:
    once = marked(run("a", 0.0), NOW, NOW + 10 * SECOND)
    again = marked(once, NOW + 12 * SECOND, NOW + 20 * SECOND)
    assert (again.unwatched_from_ns, again.unwatched_to_ns) == (NOW, NOW + 20 * SECOND)
    later = marked(once, NOW + 60 * SECOND, NOW + 70 * SECOND)
    assert (later.unwatched_from_ns, later.unwatched_to_ns) == (NOW + 60 * SECOND, NOW + 70 * SECOND)


def test_a_gap_between_segments_counts_where_a_job_could_have_stopped_in_it() -> None:
    def part(start_s: float, end_s: float) -> Segment:
        return Segment(1, Path("x"), 1, int(start_s * SECOND), int(end_s * SECOND), 0, 0)

    assert gap_of([part(10, 20), part(19, 30), part(60, 70)]) == (30 * SECOND, 60 * SECOND)
    assert gap_of([part(10, 20), part(22, 30)]) is None
