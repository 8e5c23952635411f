"""When the layout of an earlier window is carried over to a later one: every constant of that.

Each field says its unit and where the value comes from. They change no layout, so `benchmarks/stage_rules.py` does not
try them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CarryRules"]


@dataclass(frozen=True, slots=True)
class CarryRules:
    """What must repeat before a layout is believed without being found again."""

    # Carried layouts
    most_slack: float = 0.25
    """Share of a step's bytes that may be missing when a pair is done with it, at most."""

    least_steps: int = 8
    """Steps that must show the pattern before it is believed."""

    pacing_bytes: float = 0.25
    """Share of the job's bytes on pairs that send the same in every step."""
