"""When a finding opens, goes on and closes: every constant of that.

Each field says its unit and where the value comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.units import SECOND

__all__ = ["FindingRules"]


@dataclass(frozen=True, slots=True)
class FindingRules:
    """Findings from one window to the next."""

    # From window to window
    open_sightings: int = 2
    """Windows that must show a finding, with at most one in between that does not: a fault is in every window after its
    start, an edge effect in one."""

    open_confidence: float = 0.5
    """Confidence from which a slowdown opens: somebody is woken by it, and below a half it is wrong more often than not
    (it stays in the report of its window). What stops a job opens at once."""

    judged_steps: int = 8
    """Steps a look must show before a finding about a running job is believed; looks grow until they hold them. A look
    that shows fewer of a job with more behind it took several steps for one, as the first seconds of a fault can make
    it."""

    close_after_ns: int = 10 * SECOND
    """A finding whose end is this long past is over; two to three hops."""

    close_missed: int = 3
    """Windows in a row without a finding that should have shown it."""

    pending_missed: int = 2
    """The same for a finding that was seen once and has not opened."""

    old: float = 0.5
    """Share of a look after its end beyond which a finding is not new."""

    resumed_missed: int = 2
    """Windows after a stopped job goes on again: in these it shows whether it had hung or only stalled."""

    slower: float = 1.03
    """Step time against the baseline from which a run is slower than usual: beyond the noise of a median of seven
    steps."""

    stopped_open_ns: int = 3_600 * SECOND
    """A crash or a hang that nobody restarts is closed after an hour, so that old ones do not pile up."""

    same_place: float = 0.5
    """Jaccard similarity of groups that are the same group."""
