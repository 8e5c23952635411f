"""How likely a suspected place is the sick one, by all signs together: every constant of `place_signs`.

The weights are fitted (`benchmarks/place_fit.py`) to 408 suspected places whose truth is known, 290 of them right: 196
of captures and 212 of random jobs (even seeds 140002 to 140800 with pipelines, 200002 to 200200 and 220002 to 220300).
Fitted to either half alone they are alike, but for places that lag behind, none of which is right in captures, and for
`second`. A weight is in natural log odds per unit of its sign.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NamedPlaceRules"]


@dataclass(frozen=True, slots=True)
class NamedPlaceRules:
    """Weights of the signs that a place is sick, and bounds of the signs."""

    fit_constant: float = 1.44
    """Log odds of a place that alone explains everything, while other places are timed too, by slow messages;"""

    lead: float = 0.84
    """for each of the log odds by which it leads its rival (or, without a past to compare with, of the layout, where
    these are less),"""

    of_cells: float = 2.32
    """for each unit (a logarithm) of the share of the cells through it that are sick,"""

    of_sick: float = 2.83
    """of the share of all sick cells of its jobs and time that pass it,"""

    of_slower: float = 1.18
    """and of the share of its jobs' slower steps in which it is sick: what explains one slow step of fifty that are as
    long explains nothing;"""

    clock: float = 0.29
    """for each of the log odds of the clock. The layout has no weight beside it (0.0);"""

    alone: float = -1.86
    """where everything that was timed passes it, so that nobody shows that the job does not wait for something else,"""

    held_back: float = -2.0
    """where pieces are held back in place of slow,"""

    broken_up: float = -1.44
    """where only larger pieces of messages are slow,"""

    lagging: float = -2.59
    """where rates changed either way. That cells that are slow and cells that are held back are counted together, or
    that bytes are sent again in place of slow, has no weight (-0.8 and 0.3, and nothing on places left out);"""

    second: float = -1.1
    """where a likelier place is sick at that time by the same sign: two at once are rarer than one. This one is of an
    earlier fit: captures alone have 0.8, of few, random jobs -2.1,"""

    one_member: float = -5.02
    """and for the share of the blame for the slower steps that one member of a group has (`computing`): of a slow group
    nobody is waited for alone. On places left out in turn it adds 14 nats (captures alone have -3.8, random jobs alone
    -4.1)."""

    rival: float = 0.4
    """Times the odds that a GPU or a stage computed longer that count against the place. From 0.2 to 1.5 it adds 1.4
    nats: whoever waits for a place may look like a GPU, too, and most places beside a likely one are right."""

    # Bounds of the signs: where they end in what the weights were fitted to
    least_share: float = 0.05
    """Shares of cells and of steps, at least."""

    as_slow: float = 0.5
    """Share of what the steps in which a place is sick take longer on average from which another step is as slow."""

    # Competition
    shared_time: float = 0.5
    """Share of the time of the shorter one from which two findings are about the same time."""
