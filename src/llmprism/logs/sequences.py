"""How far each rank got in its collectives: who did not enter the one that the others wait in.

PyTorch numbers the collectives of every process group. The watchdog prints the number that timed out (`SeqNum=68`) and
the last work enqueued and completed; a flight record holds the same. A rank whose last enqueued number lies below the
number in which the others wait never entered it: that is where a hang begins.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from llmprism.logs.joblog import JobLog
from llmprism.logs.members import LogMembers
from llmprism.logs.shapes import SEQUENCE_LINE

__all__ = ["Lag", "find_lags"]

_GROUP: Final = re.compile(r"PG (?:ID \d+ PG )?GUID ([\w.-]+)(?:\(([\w.-]+)\))?|PG ID (\d+)")
_STATUS: Final = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,15})")
_TIMED_OUT: Final = re.compile(r"WorkNCCL\(SeqNum=(\d{1,15})")
_DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Lag:
    """One actor behind the others of a process group: its last enqueued collective and theirs."""

    actor: int
    group: str
    own: int
    others: int
    source: str


@dataclass(slots=True)
class _ProcessGroup:
    enqueued: dict[int, int]
    timed_out: int = -1


def find_lags(log: JobLog, members: LogMembers) -> list[Lag]:
    """The actors behind, the furthest first; nothing where a group's ranks agree or too many differ."""
    found: list[Lag] = []
    for group, state in _groups_from_lines(log, members).items():
        found += _lags(group, state, "log")
    for group, state in _groups_from_flights(log, members).items():
        found += _lags(group, state, "flight record")
    return sorted(found, key=lambda lag: (lag.own - lag.others, lag.actor))


def _groups_from_lines(log: JobLog, members: LogMembers) -> dict[str, _ProcessGroup]:
    groups: dict[str, _ProcessGroup] = defaultdict(lambda: _ProcessGroup({}))
    for row, text in log.texts.items():
        if not SEQUENCE_LINE.search(text):
            continue
        actor = int(members.actor_of_writer[log.rows.writer[row]])
        if actor < 0:
            continue
        named = _GROUP.search(text)
        group = (named[2] or named[1] or named[3] or _DEFAULT) if named else _DEFAULT
        state = groups["default_pg" if group == _DEFAULT else group]
        if match := _TIMED_OUT.search(text):
            state.timed_out = max(state.timed_out, int(match[1]))
        if match := _STATUS.search(text):
            number = int(match[1])
            state.enqueued[actor] = max(state.enqueued.get(actor, -1), number)
    return groups


def _groups_from_flights(log: JobLog, members: LogMembers) -> dict[str, _ProcessGroup]:
    groups: dict[str, _ProcessGroup] = defaultdict(lambda: _ProcessGroup({}))
    by_rank = members.by_rank
    for record in log.flights:
        number = record.enqueued if record.enqueued >= 0 else record.started
        if number >= 0 and record.rank in by_rank:
            groups[record.group].enqueued[by_rank[record.rank]] = number
    return groups


def _lags(group: str, state: _ProcessGroup, source: str) -> list[Lag]:
    """Those who did not enqueue the collective in which most of the others wait."""
    if len(state.enqueued) < 2:
        return []
    values = sorted(state.enqueued.values())
    middle = values[len(values) // 2] if len(values) > 2 else values[-1]
    front = min(state.timed_out, middle) if state.timed_out > values[0] else middle
    behind = [actor for actor, number in state.enqueued.items() if number < front]
    if not behind or 2 * len(behind) > len(values):
        return []
    return [Lag(actor, group, state.enqueued[actor], front, source) for actor in behind]
