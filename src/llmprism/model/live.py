"""What the live service remembers from window to window: runs of jobs, and findings from their first to their last."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmprism.model.finding import Finding
from llmprism.model.verdict import LogQuote, Verdict

__all__ = ["Explanation", "FindingPhase", "LiveState", "StepMark", "TrackedFinding", "TrackedRun"]


class LiveState(StrEnum):
    """What a job is doing now. `restarted` and `started` last until steps are seen."""

    STARTED = "started"
    RUNNING = "running"
    SLOWED = "slowed"
    STALLED = "stalled"
    HUNG = "hung"
    CRASHED = "crashed"
    ENDED = "ended"
    RESTARTED = "restarted"

    @property
    def alive(self) -> bool:
        return self not in (LiveState.CRASHED, LiveState.ENDED)


class FindingPhase(StrEnum):
    """`pending` findings have been seen but not often enough to be reported."""

    PENDING = "pending"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class StepMark:
    """One step of a run, numbered from the first one seen."""

    index: int
    start_ns: int
    end_ns: int
    setup: bool


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """One run of a job. `id` never changes; `members` are names. Times are event times in ns.

    `baseline_ns` is the step time while nothing was wrong (0: not known yet), `usual_high_ns` what nine of ten such
    steps stay below, `slow_since_ns` when the present slow phase began (0: none). `silent_since_ns` is the end of its
    last training message, `pause_ns` the longest silence that its usual work has. `reach_ns` is the length of the look
    in which its steps show (0: the base window); `clear` counts the looks in a row in which they did, and `whole_ns`
    is the end of the last of them. `step_votes` are bytes of a step, ascending, each with the time in ns of the looks
    that showed steps of so many. From `unwatched_from_ns` to `unwatched_to_ns` (0: never) nobody reported on it.
    """

    id: str
    members: tuple[str, ...]
    servers: tuple[str, ...]
    state: LiveState
    since_ns: int
    first_ns: int
    seen_ns: int
    silent_since_ns: int
    steps: int = 0
    last_step_end_ns: int = 0
    period_ns: int = 0
    recent_ns: int = 0
    baseline_ns: int = 0
    usual_high_ns: int = 0
    slow_since_ns: int = 0
    reach_ns: int = 0
    pause_ns: int = 0
    clear: int = 0
    whole_ns: int = 0
    restart_of: str | None = None
    unwatched_from_ns: int = 0
    unwatched_to_ns: int = 0
    step_votes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the logs of its job say of a finding: the verdict, and the lines that bear on it."""

    verdict: Verdict
    lines: tuple[LogQuote, ...] = ()


@dataclass(frozen=True, slots=True)
class TrackedFinding:
    """A finding from its first sighting to its close.

    `sightings` counts windows that showed it, `missed` the windows in a row that did not although they should have.
    `opened_ns` and `closed_ns` are ends of windows; `reason` says why it was closed. `slow` holds the runs that were
    slower than usual when it was last seen, each with the step time above which it still is.
    `clear`: one of the looks showed enough steps of its job to be believed. `why` is None until logs have something to
    say of it.
    """

    id: str
    finding: Finding
    phase: FindingPhase
    sightings: int = 1
    missed: int = 0
    opened_ns: int = 0
    closed_ns: int = 0
    updated_ns: int = 0
    slow: tuple[tuple[str, int], ...] = ()
    reason: str = ""
    clear: bool = False
    why: Explanation | None = None
