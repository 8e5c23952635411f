"""What the page, the metrics and `llmprism doctor` show of every source's clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from llmprism.service.clock_of_source import Clock, ClockState
from llmprism.service.clocks import comes_late, reference_lag
from llmprism.service.rules import RULES, LiveRules
from llmprism.units import SECOND

__all__ = ["OWN_CLOCK_S", "clock_documents", "clock_sentences", "own_clock_s"]

SHOWN_EXPORTERS: Final = 20
"""Exporters of one source that are shown by name: those that disagree first."""

OWN_CLOCK_S: Final = 30.0
"""Difference between our own clock and the sources' from which it is worth a sentence."""

DISAGREE: Final = (ClockState.MOVED, ClockState.LATE)


def clock_documents(clocks: Iterable[Clock]) -> dict[str, dict[str, Any]]:
    """Source → its clock (the worst of its exporters'), and the exporters that have one of their own."""
    by_source: dict[str, list[Clock]] = {}
    for clock in clocks:
        by_source.setdefault(clock.source, []).append(clock)
    made = {}
    for source, own in by_source.items():
        own.sort(key=lambda clock: (clock.state not in DISAGREE, -abs(clock.offset_ns), clock.exporter))
        exporters = [{"exporter": clock.exporter, **_document(clock)} for clock in own if clock.exporter]
        made[source] = {"clock": _document(own[0]), "exporters": exporters[:SHOWN_EXPORTERS]}
    return made


def _document(clock: Clock) -> dict[str, Any]:
    return {
        "state": clock.state.value,
        "offset_s": round(clock.offset_ns / SECOND, 3),
        "lag_s": round(clock.corrected_lag_ns / SECOND, 3),
        "batch_s": round(clock.span_ns / SECOND, 3),
        "interval_s": round(clock.interval_ns / SECOND, 3),
        "records_per_s": round(clock.batch_records / max(clock.interval_ns / SECOND, 1e-3), 1),
        "jumps": clock.jumps,
        "wall_ns": clock.wall_ns,
    }


def own_clock_s(clocks: Iterable[Clock], rules: LiveRules = RULES) -> float:
    """How far this machine's clock is behind the time on which the sources agree (0 where they agree with it, or lag
    behind it, which late delivery explains as well)."""
    lag = reference_lag((clock for clock in clocks if clock.lag_ns), rules.clocks)
    return max(0.0, -(lag or 0) / SECOND)


def clock_sentences(clocks: Iterable[Clock], now_ns: int, recent_ns: int, rules: LiveRules = RULES) -> list[str]:
    """One sentence for every clock that disagrees with the others and was seen lately."""
    recent = [clock for clock in clocks if now_ns - clock.wall_ns <= recent_ns]
    found = []
    for clock in recent:
        name = f"{clock.source} {clock.exporter}".strip()
        if clock.state is ClockState.MOVED:
            seconds = clock.offset_ns / SECOND
            what = "ahead of" if seconds > 0 else "behind"
            found.append(f"{name}: its clock is {abs(seconds):.0f} s {what} the others; its times are moved by as much")
        elif clock.state is ClockState.LATE:
            what = "it has windows of its own" if comes_late(clock, rules.clocks) else "later than windows wait"
            found.append(f"{name}: its records come {clock.lag_ns / SECOND:.0f} s after they end; {what}")
    own = own_clock_s(recent, rules)
    if own > OWN_CLOCK_S:
        found.append(f"this machine's clock is {own:.0f} s behind the time of its sources; set it")
    return found
