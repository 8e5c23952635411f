"""When a collector loses records: every constant of that judgement."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LossRules"]


@dataclass(frozen=True, slots=True)
class LossRules:
    """Bytes of steps that wander."""

    steps_together: int = 6
    """Steps whose bytes are summed: what is lost adds up over them, what is counted in the next step does not."""

    spread_quantile: float = 0.75
    """Share of the sums whose deviation counts: with six records of a pair in a step, of which one in fifty is lost,
    half of the sums over six steps lack nothing."""

    growth: float = 0.7
    """Share of the root of the steps by which their bytes must vary more than those of one step: what is lost at random
    reaches 1, misplaced ticks 0.4."""

    least_spread: float = 0.004
    """Share of a step's bytes that sums must vary by: exact counters vary by 0.0002 to 0.0015, and by as little over
    several steps."""

    most_pairs: float = 0.5
    """Share of the pairs that must show it. Of 330 captures without losses 11 reach it (three with experts, three that
    were started again, five whose transport sends again), of 148 with losses all but 9."""

    missing: float = 0.5
    """Bytes that are missing in some steps relative to those that others have too many: samples are off either way
    alike; evaluations, and what a transport sends again, only add."""

    least_parts: int = 3
    """Parts of the time, of as many steps as are summed, that must be seen."""

    most_off: float = 0.2
    """Share of a step's bytes that one pair and step counts for at most: a step that is cut is no measure."""

    all_along: float = 0.2
    """Share of what bytes are off by in the mean of all parts that three quarters of the parts must have: 0.7 where
    records are lost at random, 0.02 around a fault."""

    most_factor: float = 2.0
    """By which bytes are scaled at most, either way: what is further off is no step, or most of it is lost."""
