"""After a time in which nobody's records came, windows wait for all who had sent until then.

Nothing comes where nothing can be stored, where this process stood still, or where the network in front of it was away.
Then the senders keep their records and come back one after the other; windows that the first of them makes due would
show the jobs of the others silent. That it was delivery that stood still, and not the jobs, is known where records were
refused, or is seen in what ends the silence: it begins where the last batch of its source ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmprism.ingest.accept import Arrival
from llmprism.service.clock_of_source import Clock, Key
from llmprism.service.clock_offsets import goes_on, was_silent
from llmprism.service.rules.clocks import SourceClockRules

__all__ = ["after_a_silence"]


def after_a_silence(
    clocks: dict[Key, Clock],
    arrived: Mapping[Key, Arrival],
    wall_ns: int,
    rules: SourceClockRules,
    *,
    refused: bool,
) -> dict[Key, Clock]:
    """The clocks, those that wait marked, where these arrivals end a silence of all sources. `refused`: records have
    been refused in it."""
    heard = max((clock.wall_ns for clock in clocks.values()), default=0)
    if wall_ns - heard <= rules.lateness_ns:
        return clocks
    known = ((clocks[key], arrival) for key, arrival in arrived.items() if key in clocks)
    kept = any(was_silent(clock, wall_ns, rules) and goes_on(clock, arrival, rules) for clock, arrival in known)
    if not (refused or kept):
        return clocks
    return {
        key: replace(clock, waits_since_ns=wall_ns) if _was_cut_off(clock, heard, wall_ns, rules) else clock
        for key, clock in clocks.items()
    }


def _was_cut_off(clock: Clock, heard_ns: int, wall_ns: int, rules: SourceClockRules) -> bool:
    """Did this source send until the silence began, and would it have sent in it?"""
    recent = max(rules.recent_ns, int(rules.silent_intervals * clock.interval_ns))
    return heard_ns - clock.wall_ns <= recent and was_silent(clock, wall_ns, rules)
