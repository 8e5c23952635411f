"""Whom the complaints name: peers by rank or address, one vote per accuser."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from llmprism.logs.incidents import Incident
from llmprism.logs.joblog import JobLog
from llmprism.logs.members import PEER_ADDRESS, LogMembers

__all__ = ["Accused", "count_accusations"]

Accused = int | str
"""An actor's number, or an address that belongs to nobody known."""

_PEER_RANK: Final = re.compile(
    r"(?:remote rank:? ?\[?|peer rank |from peer |with peer |[Rr]anks? |/task:|^\s*(?:- )?\[)(\d{1,9}(?:, ?\d{1,9})*)"
)
_OWN_TAG: Final = re.compile(r"^\s*\[[Rr]ank \d+\]:?")


def count_accusations(log: JobLog, members: LogMembers, terminal: list[Incident]) -> Counter[Accused]:
    """How often each actor, or address of nobody known, is named by others."""
    votes: Counter[Accused] = Counter()
    seen: set[tuple[int, Accused]] = set()
    first_line = {(i.shape, i.actor): i for i in terminal if i.fault and i.fault.accuses}
    by_rank = members.by_rank
    for row, text in log.texts.items():
        accuser = int(members.actor_of_writer[log.rows.writer[row]])
        incident = first_line.get((int(log.rows.shape[row]), accuser))
        if incident is None or (int(log.rows.file[row]), int(log.rows.line[row])) < (incident.file, incident.line):
            continue
        named: set[Accused] = set()
        if match := PEER_ADDRESS.search(text):
            named.add(members.address_actor.get(match[1], match[1]))
        elif match := _PEER_RANK.search(_OWN_TAG.sub("", text)):
            named |= {by_rank[int(r)] for r in re.split(r", ?", match[1]) if int(r) in by_rank}
        for actor in named - {accuser}:
            if (accuser, actor) not in seen:
                seen.add((accuser, actor))
                votes[actor] += 1
    return votes
