"""How a slow place is put in words: its name, what it does, what to check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from llmprism.diagnose.link_use import LinkUse
from llmprism.diagnose.passes import INTO, OUT_OF, Place, both_ways
from llmprism.diagnose.tally import SickPlace
from llmprism.model.finding import Evidence, WhereType

__all__ = [
    "broken_up_summary",
    "in_series_words",
    "lagging_summary",
    "odds_evidence",
    "queued_summary",
    "resent_summary",
    "summary_of",
]

MOST_NAMES: Final = 4
"""Jobs that one sentence names."""

_ACTION = {
    WhereType.NIC: "check its cable, port counters and PCIe link; move the rank off this server",
    WhereType.LINK: "check the cable and the error counters at both ends; drain the link",
    WhereType.SWITCH: "check its error and pause counters; drain it",
    WhereType.GROUP: "look for what its members have in common that others have not: a rail, a firmware, a quota",
}


def _direction(place: Place) -> str:
    """How a one-way fault of a NIC is put in words."""
    name = place[1]
    if place[0] is not WhereType.NIC or isinstance(name, str):
        return "moves"
    return {OUT_OF: "sends", INTO: "receives"}[name[-1]]


def _shown(where: WhereType, names: tuple[str, ...]) -> str:
    if where is WhereType.LINK:
        return " - ".join(names)
    return f"of {len(names)} members from {names[0]} on"


def _some(jobs: Sequence[str]) -> str:
    """Their names, or those of the first few and how many more."""
    more = len(jobs) - MOST_NAMES
    return ", ".join(jobs) if more <= 0 else f"{', '.join(jobs[:MOST_NAMES])} and {more} more"


def odds_evidence(suspect: SickPlace) -> Evidence:
    """How much better the place explains what is slow than the next best one does."""
    rival = "no other place explains any of it"
    if suspect.rival is not None:
        where, name = both_ways(suspect.rival)
        rival = f"next best: {where.value} {_named_only((where, name))}"
    return Evidence(
        f"logarithm of the odds that it is this place ({rival})", round(suspect.score, 1), round(suspect.rival_score, 1)
    )


def summary_of(
    place: Place, named: Place, rate: float, usual: float, jobs: Sequence[str], crowded: Sequence[LinkUse] = ()
) -> str:
    """One sentence on a slow place, `named` as it is in the finding; `crowded` is how the `jobs` use a shared link."""
    where, name = named
    cable = both_ways(place)[1]
    subject = _titled(named)
    if where is WhereType.SWITCH and not isinstance(cable, str):
        subject += f" (over its only cable, to {next(other for other in cable if other != name)})"
    waiting = "all of its peers wait" if where is WhereType.NIC else _jobs_wait(jobs)
    action = _ACTION[where]
    if crowded:
        most = jobs[int(np.argmax([use.bytes for use in crowded]))]
        waiting = f"{len(jobs)} jobs ({', '.join(jobs)}) share it and slow each other down, {most} most"
        action = "their connections hash onto the same uplink; move one job or spread its connections"
    does = f"{_direction(place)} data at {rate:.1f} Gb/s where {usual:.1f} is usual"
    return f"{subject} {does}, and {waiting}: {action}."


def resent_summary(named: Place, share: float, jobs: Sequence[str]) -> str:
    """One sentence on a place where packets are lost."""
    does = f"loses packets: {share:.1%} of the bytes through it are sent again"
    return f"{_titled(named)} {does}, and {_jobs_wait(jobs)}: {_ACTION[named[0]]}."


def queued_summary(named: Place, share: float, jobs: Sequence[str]) -> str:
    """One sentence on a place behind which pieces wait although they leave their senders as fast as ever."""
    waits = f"pieces leave their senders at full rate and then wait, {share:.0%} of what the steps take longer"
    return f"{_titled(named)} passes data on slowly: {waits}, and {_jobs_wait(jobs)}: {_ACTION[named[0]]}."


def lagging_summary(named: Place, times: float, jobs: Sequence[str]) -> str:
    """One sentence on a place that lags behind: what passes it has no pauses any more."""
    lags = (
        f"what passes it comes at {times:.1f} times its usual pace while the steps are longer, as pieces that wait do"
    )
    return f"{_titled(named)} lags behind: {lags}, and {_jobs_wait(jobs)}: {_ACTION[named[0]]}."


def broken_up_summary(named: Place, share: float, jobs: Sequence[str]) -> str:
    """One sentence on a place that breaks messages up: pieces as fast as ever, with pauses between them."""
    does = f"moves messages at {share:.0%} of their usual rate, in pieces with pauses between them"
    return f"{_titled(named)} {does}, and {_jobs_wait(jobs)}: {_ACTION[named[0]]}."


def in_series_words(suspect: SickPlace) -> str:
    """What is to be said of cables and switches that the same transfers pass; nothing where there are none."""
    names = dict.fromkeys(_named_only(both_ways(place)) for place in suspect.in_series)
    if not names:
        return ""
    return f" The same transfers pass {' and '.join(names)}: no record can tell which of them it is."


def _titled(named: Place) -> str:
    """The place as the subject of a sentence."""
    title = "NIC" if named[0] is WhereType.NIC else named[0].value.capitalize()
    return f"{title} {_named_only(named)}"


def _named_only(named: Place) -> str:
    where, name = named
    return name if isinstance(name, str) else _shown(where, name)


def _jobs_wait(jobs: Sequence[str]) -> str:
    return f"the jobs through it{f' ({_some(jobs)})' if len(jobs) > 1 else ''} wait"
