"""How likely a suspected place is the sick one, by all signs together: every constant of `place_signs`.

The weights are fitted (`benchmarks/place_fit.py`) to 410 suspected places whose truth is known, 282 of them right: 189
of captures and 221 of random jobs (even seeds 170002 to 170300, plain 171002 to 171120, ends 172002 to 172060, 80002 to
80200, 82002 to 82300 and 41002 to 41200). Fitted to either half alone they are alike, but for places that lag behind,
none of which is right in captures. A weight is in natural log odds per unit of its sign.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NamedPlaceRules"]


@dataclass(frozen=True, slots=True)
class NamedPlaceRules:
    """Weights of the signs that a place is sick, and bounds of the signs."""

    fit_constant: float = 1.6
    """Log odds of a place that alone explains everything, while other places are timed too, by slow messages;"""

    lead: float = 0.57
    """for each of the log odds by which it leads its rival (or, without a past to compare with, of the layout, where
    these are less),"""

    of_cells: float = 2.21
    """for each unit (a logarithm) of the share of the cells through it that are sick,"""

    of_sick: float = 3.04
    """of the share of all sick cells of its jobs and time that pass it,"""

    of_slower: float = 1.09
    """and of the share of its jobs' slower steps in which it is sick: what explains one slow step of fifty that are as
    long explains nothing;"""

    clock: float = 0.29
    """for each of the log odds of the clock. The layout has no weight beside it (0.0);"""

    alone: float = -2.03
    """where everything that was timed passes it, so that nobody shows that the job does not wait for something else,"""

    held_back: float = -1.65
    """where pieces are held back in place of slow,"""

    broken_up: float = -0.72
    """where only larger pieces of messages are slow,"""

    lagging: float = -2.05
    """where rates changed either way. That cells that are slow and cells that are held back are counted together, or
    that bytes are sent again in place of slow, has no weight (-0.3 and 0.2)."""

    second: float = -1.1
    """and where a likelier place is sick at that time by the same sign: two at once are rarer than one."""

    # Bounds of the signs: where they end in what the weights were fitted to
    least_share: float = 0.05
    """Shares of cells and of steps, at least."""

    as_slow: float = 0.5
    """Share of what the steps in which a place is sick take longer on average from which another step is as slow."""

    # Competition
    shared_time: float = 0.5
    """Share of the time of the shorter one from which two findings are about the same time."""
