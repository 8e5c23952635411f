"""How sure a layout is and what else it may be: every constant of that but the fitted weights.

Each field says its unit and where the value comes from. They change how sure a layout is, not what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ConfidenceRules"]


@dataclass(frozen=True, slots=True)
class ConfidenceRules:
    """From doubts to probabilities."""

    # Doubts
    clear_lead_bits: float = 0.1
    """Bits per pause by which the best clock leads where doubt about it has shrunk to a third."""

    clock_doubt: float = 0.2
    """Doubt about a clock that is no better than its next rival."""

    known_width: float = 0.92
    """Probability of the width of tensor groups from which it is known; below it is open. Where nothing but shards
    tells it, it is as often one as the other: rails of tensor groups leave the same records as shards over the GPUs of
    a server (docs/decisions/0005), and of 23 random ones 8 had the width that was said (of other layouts without
    pipelines 67 of 70)."""

    least_doubt: float = 0.01
    """Doubts and confidences below this are not distinguished: so rare are mistakes that the evidence itself shows."""

    worth_saying: float = 0.02
    """Probability from which an alternative is listed: one job in fifty."""

    usual_steps: int = 20
    """Steps that a window usually shows."""

    usual_doubt: float = 0.025
    """Doubt about a job that shows as many steps clearly (half of one in twenty); less says no more."""

    most_over_chance: float = 4.0
    """Times as far as random moments that those of messages are off, beyond which more does not count: of 36 random
    jobs with 0.75 and more 21 were right, of eight with 2.5 one, of three with so much none."""

    something_else: float = 0.3
    """Share of the wrong layouts whose truth is none of the alternatives listed."""

    whole_ring: float = 0.1
    """Share by which what a hop carries may differ from a whole number of rings: lossy collectors reach 0.03, clocks a
    little off 0.04, and what is overlooked is mostly as large as a gradient bucket."""

    reading_bits: float = 6.0
    """Bits by which another reading of the bytes is behind where doubt about the layout has shrunk to a third: a
    decision that moments deny (`composition.denied_bits`) leaves a sixth."""

    far_behind_bits: float = 40.0
    """Bits by which a composition is ahead of a layout beyond which more do not count: twice what overrules the passes
    (`composition.ahead_bits`)."""
