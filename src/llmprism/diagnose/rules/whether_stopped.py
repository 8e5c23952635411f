"""How likely it is that a job broke off which one sign after the other says did: every constant of `whether_stopped`.

The weights are fitted (`benchmarks/ending_fit.py`) to 694 silences that were watched for a while and of which `endings`
says so: 200 stops of random jobs (even seeds 80002 to 81800 and 130002 to 130600), 74 of captures, and most of these
again as if they had been watched for shorter; and 56 that are none: 47 normal ends, and nine windows that were cut in
the longest silences of jobs that go on, which the script does not cut. By captures and the seeds 130002 to 130400 alone
the script finds 1.6, 0.41, 0.71, -2.61, 3.28 and 0.91. A weight is in natural log odds per unit of its sign.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WhetherStoppedRules"]


@dataclass(frozen=True, slots=True)
class WhetherStoppedRules:
    """Weights of the signs that a job broke off, and bounds of the signs."""

    anyway: float = 0.34
    """Log odds where nothing else is known,"""

    steps: float = 0.54
    """for each doubling of the step that the silence takes,"""

    apart: float = 0.67
    """for how far members that do the same are apart (a logarithm), against while messages flow,"""

    at_once: float = -2.67
    """where all words end with the last message, of members that talk at other times,"""

    named: float = 3.34
    """for the chance of the member that most likely stopped first (`who_stopped`), if it was missed,"""

    singled_out: float = 0.98
    """and where words single one out: next to all that noticed something, or silent while all others talk."""

    # Bounds of the signs: where they end in what the weights were fitted to
    most_doublings: float = 4.0
    """Doublings of a step, at most, either way."""

    least_apart: float = 0.05
    """Share of what members are usually apart below which they stand together."""

    few_words: float = 5.0
    """Small messages of each member before the end from which it says something that there are none after it."""

    least_others: int = 2
    """Members that must be heard again for the one that is not to be singled out."""

    # What is said of it
    broken: float = 0.5
    """Chance from which a job has broken off: it has rather than not."""
