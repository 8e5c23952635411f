"""Whether a rank that a job waits for has died or hangs: every constant of `dead_or_hung`.

The weights are fitted (`benchmarks/kind_fit.py`) to 1,398 silences of 188 cases whose kind is known: stops of captures,
and of random seeds (even ones of 130002 to 130400 and 80002 to 80500) with both faults in turn, each as it was watched
and for shorter, with its words and without. By captures alone they are 0.22, 3.14, 2.88, -2.57, -2.61,
-1.9, 0.33, -2.22, 0.56, -0.27 and -0.76. A weight is in natural log odds of a hang per unit of its sign.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeadOrHungRules"]


@dataclass(frozen=True, slots=True)
class DeadOrHungRules:
    """Weights of the signs that a rank hangs, and bounds of the signs."""

    anyway: float = 0.15
    """Log odds where nothing else is known: nearer to that of captures (0.22) than that of all silences (0.04), since
    how many ranks hang is a habit of who makes the stops,"""

    in_vain: float = 3.06
    """where it is written to and says nothing,"""

    alive: float = 4.22
    """where it is still heard, or everybody is,"""

    dead: float = -2.4
    """where the others are heard, and it is neither heard nor written to,"""

    noticed: float = -2.56
    """where members of a job that talks with every message say something more, or nothing,"""

    singled_out: float = -1.7
    """where it is the one that those who noticed a death first have in common,"""

    supplied: float = 0.63
    """for each unit (a logarithm) of the time for which it is still supplied after its own message was due,"""

    cut: float = -1.7
    """where messages between the others are cut short,"""

    unnoticed: float = 0.55
    """for each unit (a logarithm) of the time for which others that talk with every message went on without it,"""

    hushed: float = -1.3
    """for each unit (a logarithm) of the words that are missing in the second half of the silence,"""

    nobody: float = -0.28
    """and where nobody is to blame."""

    # Bounds of the signs
    most_missing: float = 3.0
    """Logarithm of the missing words that counts at most: of twenty."""

    phases: int = 4
    """Parts of a step in each of which words must be said: barriers and losses are said at its end, and stop with
    it."""

    same_size: float = 0.02
    """Relative distance up to which two messages have the same size: records lose a header or two."""

    least_messages: int = 4
    """Messages of a pair in the steps before from which it is known which sizes it sends."""

    most_cut: float = 0.5
    """Share of the pairs whose last message is cut that counts as all: who has just finished one is not cut."""
