"""Between two windows: who needs to be looked at now.

Where windows are dear they are made seldom (`windows.affordable_hop`), and in between one scan of the new records says
when each address last sent something and how much. A run gets a look of its own at once where it fell silent, goes on
again or sends less than it used to, and while something about it is undecided. Addresses that nobody has seen before
are a new job, which only a window of everybody can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import duckdb

from llmprism.ingest.database import QUIETLY
from llmprism.model.flows import MESSAGE_FLOOR_BYTES
from llmprism.model.live import FindingPhase, LiveState, TrackedFinding, TrackedRun
from llmprism.service.rules import RULES, LiveRules
from llmprism.service.runs import is_settled, stop_silence
from llmprism.service.store import Segment
from llmprism.service.windows import affords
from llmprism.units import SECOND

__all__ = [
    "STANDING",
    "Sent",
    "SentSince",
    "affordable_runs",
    "has_stopped",
    "last_sent",
    "newcomers",
    "share_of",
    "undecided",
    "wanted_runs",
    "with_activity",
]

STANDING: Final = (LiveState.STALLED, LiveState.HUNG)


@dataclass(frozen=True, slots=True)
class Sent:
    """What an address, or a run, has sent: when its last training message ended, and the bytes of all of them."""

    last_ns: int = 0
    bytes: int = 0


class SentSince:
    """What everybody has sent since the last window. Every record is read once; nothing is diagnosed."""

    def __init__(self) -> None:
        self._database = duckdb.connect(config={"threads": 1, "autoload_known_extensions": "false"})
        self._database.execute(QUIETLY)
        self._sent: dict[str, Sent] = {}
        self.start_ns = self.end_ns = 0

    def begin(self, start_ns: int) -> None:
        self._sent = {}
        self.start_ns = self.end_ns = start_ns

    def read(self, segments: Sequence[Segment], end_ns: int) -> Mapping[str, Sent]:
        """What each address has sent from the beginning to this time, given the segments with what is new."""
        for name, last, size in self._new(segments, end_ns):
            before = self._sent.get(name, Sent())
            self._sent[name] = Sent(max(last, before.last_ns), size + before.bytes)
        self.end_ns = end_ns
        return self._sent

    def _new(self, segments: Sequence[Segment], end_ns: int) -> list[tuple[str, int, int]]:
        """(address, end of its last message, bytes) of the new records; none where a segment cannot be read."""
        files = [segment.path for segment in segments if segment.path.exists()]
        if not files:
            return []
        listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
        try:
            return self._database.execute(
                f"SELECT src, max(end_ns), sum(bytes)::BIGINT FROM read_parquet([{listed}], union_by_name=true) "
                f"WHERE end_ns > {self.end_ns} AND end_ns <= {end_ns} AND bytes >= {MESSAGE_FLOOR_BYTES} GROUP BY src"
            ).fetchall()
        except duckdb.Error:
            return []


def last_sent(sent: Mapping[str, Sent], run: TrackedRun) -> Sent:
    """The same for a run."""
    found = [sent[name] for name in run.members if name in sent]
    return Sent(max((one.last_ns for one in found), default=0), sum(one.bytes for one in found))


def with_activity(run: TrackedRun, sent: Mapping[str, Sent]) -> TrackedRun:
    """The run with its latest activity."""
    return replace(run, silent_since_ns=max(run.silent_since_ns, last_sent(sent, run).last_ns))


def newcomers(sent: Mapping[str, Sent], known: frozenset[str], rules: LiveRules = RULES) -> bool:
    return sum(name not in known for name in sent) >= rules.runs.newcomers


def undecided(findings: Sequence[TrackedFinding]) -> bool:
    """Is a finding about no single job waiting for its second sighting?"""
    return any(tracked.phase is FindingPhase.PENDING and tracked.finding.job is None for tracked in findings)


def wanted_runs(
    runs: Sequence[TrackedRun],
    findings: Sequence[TrackedFinding],
    sent: Mapping[str, Sent],
    rates: Mapping[str, float],
    start_ns: int,
    end_ns: int,
    rules: LiveRules,
) -> list[TrackedRun]:
    """The runs to be looked at now, given what everybody sent in (start, end]. `rates` are the bytes per second that
    runs used to send."""
    hops = end_ns // rules.windows.hop
    pending = {tracked.finding.job for tracked in findings if tracked.phase is FindingPhase.PENDING}
    opened = {tracked.finding.job for tracked in findings if tracked.phase is FindingPhase.OPEN}
    found = []
    for run in runs:
        if not run.state.alive or run.reach_ns > rules.windows.length:
            continue
        own = last_sent(sent, run)
        if not is_settled(run, rules):
            wanted = hops % rules.runs.young_hops == 0
        elif run.state in STANDING:
            wanted = own.last_ns > run.silent_since_ns and hops % rules.runs.open_hops == 0
        else:
            less = _sends_less(run, own, rates.get(run.id, 0.0), end_ns - start_ns, rules)
            wanted = (
                has_stopped(run, sent, end_ns, rules) or less or (run.id in opened and hops % rules.runs.open_hops == 0)
            )
        if wanted or run.id in pending:
            found.append(run)
    return found


def share_of(runs: Sequence[TrackedRun], addresses: int) -> float:
    """The share of all addresses that these runs have."""
    return sum(len(run.members) for run in runs) / max(1, addresses)


def affordable_runs(
    wanted: Sequence[TrackedRun], addresses: int, took_ns: int, since_ns: int, rules: LiveRules = RULES
) -> list[TrackedRun]:
    """The runs to be looked at now without the young ones, where a look at those is too dear so soon (`since_ns`) after
    the last. A window of all `addresses` takes `took_ns`, and looks at many of them cost as much."""
    young = [run for run in wanted if not is_settled(run, rules)]
    share = share_of(young, addresses)
    cost = took_ns * (share if share <= rules.runs.whole else 1.0)
    if not young or affords(cost, since_ns, rules.windows):
        return list(wanted)
    return [run for run in wanted if is_settled(run, rules)]


def has_stopped(run: TrackedRun, sent: Mapping[str, Sent], end_ns: int, rules: LiveRules = RULES) -> bool:
    """Has a settled run that was not standing still been silent for longer than its work ever pauses?"""
    if run.state in STANDING or not is_settled(run, rules):
        return False
    return end_ns - max(run.silent_since_ns, last_sent(sent, run).last_ns) >= stop_silence(run, rules)


def _sends_less(run: TrackedRun, own: Sent, rate: float, span_ns: int, rules: LiveRules) -> bool:
    usual = rate * span_ns / SECOND
    burst = rate * rules.runs.less_steps * run.period_ns / SECOND
    return own.bytes < rules.runs.less * usual and own.bytes < usual - burst
