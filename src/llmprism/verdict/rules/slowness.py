"""Why a job is slow and what its numbers show: every constant of that."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SlownessRules"]


@dataclass(frozen=True, slots=True)
class SlownessRules:
    """Why a job is slow, and what its numbers show."""

    before_ns: int = 600 * 1_000_000_000
    """Nanoseconds. How long before a finding that begins with the flows a line may be its cause: when it truly began is
    not known, and throttling and retries last minutes. Else lines count from `StopRules.near_steps` before it."""

    after_ns: int = 60 * 1_000_000_000
    """Nanoseconds. How long after it: hosts write when they notice."""

    noise: float = 1 / 3
    """Share of other places that write the same, by the rule of succession, above which a line is noise there."""

    sign_steps: int = 5
    """Steps by which the slowdown that a log shows may lie outside the finding of the flows."""

    least_inside: int = 3
    """Iterations while a finding lasted"""

    least_outside: int = 6
    """and apart from it that a comparison needs: one slow iteration may be anything."""

    least_severity: float = 0.05
    """Share of the speed: losses below this are within what iterations vary by anyway."""

    contradicts: float = 0.25
    """Share of the slowdown that the finding predicts below which the logs contradict it (at 0.5 one true finding of 86
    real runs is withdrawn),"""

    confirms: float = 0.5
    """and above which they confirm it."""

    confirmed_doubt: float = 0.7
    """What is left of the doubt about a finding that the logs confirm."""

    sure_finding: float = 0.9
    """Confidence. Findings less sure than this are withdrawn where the logs measure no slowdown; surer ones stay, with
    half the confidence: a part may be sick before it hurts."""

    contradicted: float = 0.5
    """Factor on the confidence of those."""

    line_cause: float = 0.7
    """Confidence of a cause that a line of that place and time names."""

    sure_seat: float = 0.7
    """Confidence. Seats less sure than this do not move a finding to a place."""

    moved: float = 0.6
    """Confidence of a finding at a place that only lines name."""

    class_of_kind: float = 0.8
    """Factor on a finding's confidence for the class that its kind implies;"""

    no_class_of_kind: float = 0.2
    """where it implies none."""

    pace_steps: int = 10
    """Steps of the flows that can refute a slowdown of the logs;"""

    pace_shown: float = 0.5
    """share of it that they must show."""

    usual_length: float = 1.25
    """Steps that take at most so many times what they took before are as usual."""

    change_steps: int = 6
    """Steps of the flows, and"""

    change_sides: int = 2
    """on each side of a moment, that say whether they changed there."""
