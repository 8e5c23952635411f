"""How sure a finding is, what it costs and what remains unexplained: every constant of that.

Each field says its unit and where the value comes from. `benchmarks/robust.py --sensitivity --match diagnose` moves
each by a fifth either way and prints what changes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TrustRules"]


@dataclass(frozen=True, slots=True)
class TrustRules:
    """What is said of findings, and of slow steps without one."""

    # Bouts
    short_share: float = 0.2
    """Share of all that was seen of a job from which a bout that would be too short otherwise is news: what lasts for a
    second is noise in a minute, and not in three seconds."""

    # Confidence
    likely: float = 0.5
    """Confidence below which a finding is less likely than not."""

    most_sure: float = 0.97
    """No finding is surer: of those that were stated with 0.97 and more, nine in ten to nineteen in twenty were
    right."""

    few_healthy: float = 0.1
    """Share of the steps without a fault up to which it was there all the time,"""

    healthy_steps: int = 3
    """and so many of them."""

    hidden: float = 0.02
    """Share of the GPU-seconds of the steps that a slow GPU touches below which nobody waited for it."""

    # Slow steps without a finding
    unexplained_slowdown: float = 1.15
    """Slower steps against the others, in the median: what costs a tenth of the speed is worth a word, with a
    margin."""

    unexplained_steps: int = 5
    """Slower steps, and others, that must have been seen, those that take several times as long counting for as
    many,"""

    unexplained_few: int = 3
    """but no fewer than these,"""

    unexplained_ns: int = 5_000_000_000
    """and how long the slower ones last."""

    unexplained_apart: float = 1.05
    """Times the ninth decile of the other steps that the first quartile of the slower ones must reach."""

    unexplained_price: float = 4.0
    """Steps' worth of evidence that a stretch must bring: single long steps are nobody's news."""

    unexplained_weight: float = 3.0
    """Steps that one which takes as many times as long counts for at most."""

    explained: float = 0.25
    """Share of the stretch that other findings may cover before it is theirs."""

    # Playing steps again
    healthy_to_replay: int = 2
    """Healthy steps from which they tell how long something takes."""

    blocked: float = 0.5
    """Share of the lateness of those held up from which a member of their group waits for them."""
