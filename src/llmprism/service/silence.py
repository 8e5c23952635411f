"""Silence that is nobody's fault but the collector's: runs that no source reports on.

A job that stops and a collector that dies look alike: no more records. What tells them apart is who else falls silent.
Several runs of one source that stop within seconds of each other, and whose sources report nothing at all any more, are
not watched; the same holds for all runs while there is no record of anybody. A run that is alone with its source is
believed to have stopped. Of unwatched runs nothing is concluded, and when their records come again, the gap is not
taken for a standstill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb

from llmprism.ingest.database import Database, open_database
from llmprism.model.live import LiveState, TrackedRun
from llmprism.service.rules import RULES, LiveRules
from llmprism.service.store import Segment

__all__ = ["gap_of", "marked", "silent_groups", "unreported"]

_STOPPED: Final = (LiveState.STALLED, LiveState.HUNG, LiveState.CRASHED, LiveState.ENDED)


def gap_of(segments: Sequence[Segment], rules: LiveRules = RULES) -> tuple[int, int] | None:
    """The longest time between these segments in which no record ends, where it is long enough to matter."""
    spans = sorted((segment.start_ns, segment.end_ns) for segment in segments)
    longest, reached = (0, 0), 0
    for start, end in spans:
        if reached and start - reached > max(rules.runs.stop_silence_ns, longest[1] - longest[0]):
            longest = (reached, start)
        reached = max(reached, end)
    return longest if longest[1] else None


def silent_groups(
    before: Sequence[TrackedRun], after: Sequence[TrackedRun], end_ns: int, rules: LiveRules = RULES
) -> list[list[TrackedRun]]:
    """Runs that fell silent together, two at least, of which this round would stop one that worked before. Runs with
    long steps reach the silence after which they are stopped later than others, so all that are silent count."""
    old = {run.id: run.state for run in before}
    silent = [
        run
        for run in after
        if run.id in old and old[run.id].alive and end_ns - run.silent_since_ns >= rules.runs.together_ns
    ]
    groups: list[list[TrackedRun]] = []
    for run in sorted(silent, key=lambda one: one.silent_since_ns):
        if groups and run.silent_since_ns - groups[-1][-1].silent_since_ns <= rules.runs.together_ns:
            groups[-1].append(run)
        else:
            groups.append([run])
    return [
        group
        for group in groups
        if len(group) > 1 and any(run.state in _STOPPED and old[run.id] not in _STOPPED for run in group)
    ]


def unreported(segments: Sequence[Segment], group: Sequence[TrackedRun], rules: LiveRules = RULES) -> frozenset[str]:
    """The runs of a group that fell silent together of which nobody reports any more: all sources and exporters that
    reported on them have fallen silent, and one of them reported on another run of the group too. (A run that is alone
    with its source has stopped.) None where the segments do not say who reported."""
    first = min(run.silent_since_ns for run in group)
    last = max(run.silent_since_ns for run in group)
    names = [(name, run.id) for run in group for name in run.members][: rules.runs.members_looked_up]
    files = [
        segment.path for segment in segments if segment.end_ns > first - rules.runs.before_ns and segment.path.exists()
    ]
    if not files:
        return frozenset()
    reporter = "source || ' ' || coalesce(exporter, '') AS reporter"
    flow = f"(SELECT src, end_ns, {reporter} FROM read_parquet([{_listed(files)}], union_by_name=true))"
    try:
        with open_database() as (connection, _):
            _members_table(connection, names)
            before = connection.execute(
                f"SELECT DISTINCT run, reporter FROM {flow} JOIN mine USING (src) "
                f"WHERE end_ns BETWEEN {first - rules.runs.before_ns} AND {last} AND reporter IS NOT NULL"
            ).fetchall()
            after = connection.execute(
                f"SELECT DISTINCT reporter FROM {flow} WHERE end_ns > {last + rules.runs.together_ns}"
            ).fetchall()
    except duckdb.Error:
        return frozenset()
    alive = {row[0] for row in after}
    shared = Counter(name for _, name in before)
    watched = {run for run, name in before if name in alive}
    return frozenset(run for run, name in before if shared[name] > 1 and run not in watched)


def _listed(files: Sequence[Path]) -> str:
    return ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)


def _members_table(connection: Database, members: Sequence[tuple[str, str]]) -> None:
    connection.execute(
        "CREATE TEMP TABLE mine AS SELECT unnest($1::VARCHAR[]) AS src, unnest($2::VARCHAR[]) AS run",
        [[name for name, _ in members], [run for _, run in members]],
    )


def marked(run: TrackedRun, from_ns: int, to_ns: int, rules: LiveRules = RULES) -> TrackedRun:
    """The run with this time noted as unwatched; joined with what was noted before where they meet."""
    start = run.unwatched_from_ns if from_ns <= run.unwatched_to_ns + rules.runs.together_ns else from_ns
    return replace(run, unwatched_from_ns=start or from_ns, unwatched_to_ns=max(to_ns, run.unwatched_to_ns))
