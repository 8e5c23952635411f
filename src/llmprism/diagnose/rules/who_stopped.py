"""Who stopped first, by all signs together: every constant of `who_stopped`.

The weights are fitted (`benchmarks/stop_fit.py`) to 285 stopped jobs whose culprit is known: 203 of random seeds (even
ones of 80001 to 94000) and 82 of captures. A weight is in natural log odds per unit of its sign. Fitted to random jobs
alone they name 43 of the 46 captures right in which no member alone fell silent. That of jobs without words,
`wordless`, the script does not find: it is the part of `involved`, a quarter, with the best likelihood on 249 stops (71
of captures, 178 of even seeds 130002 to 130400 and 80002 to 80500) whose words were left out; the others stayed.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WhoStoppedRules"]


@dataclass(frozen=True, slots=True)
class WhoStoppedRules:
    """Weights of the signs that a member stopped first, and bounds of the signs."""

    due: float = -0.4
    """For each jitter by which its next message was due later than that of the first,"""

    starved: float = -0.67
    """where it lacks what it usually has when it goes on, so that it waits for somebody,"""

    in_flow: float = -1.03
    """where it stopped in the middle of a message, in which another one held it up,"""

    first: float = 1.52
    """for the share of the steps before in which its missing message was the first,"""

    after: float = -0.38
    """for each unit (a logarithm of `rounded`) by which it came after the first,"""

    heard: float = -1.03
    """where it is heard again after the last message of the training,"""

    announced: float = -2.38
    """where it announces its next message,"""

    silent: float = 3.34
    """for each step for which it has been silent for longer than ever,"""

    involved: float = -1.98
    """for each unit (a logarithm of `apart`) by which it was heard or written to later than the first,"""

    wordless: float = -0.5
    """the same where nobody says a word, so that it is the last message of the training; and where the transport talks
    with every message instead"""

    own_word: float = -0.68
    """for each by which it was heard later,"""

    word_to_it: float = -0.5
    """and written to later."""

    # Bounds of the signs: where they end in what the weights were fitted to
    rounded: float = 0.002
    """Share of a step below which jitter is not believed: stamps are rounded."""

    most_due: float = 5.0
    """Jitters, at most: also for a member of which it is not known when it was due. Their logarithm, without an end,
    names three more of 144 closed random culprits and two fewer of 46 in captures."""

    at_once: float = 0.001
    """Share of a step within which two missing messages were sent at once."""

    known_pairs: float = 0.7
    """Share of the pairs that must be known to have sent their missing message in a step for its order to count."""

    most_pairs: int = 20_000
    """Pairs of a job up to which the order of their messages is asked for: each takes a fifth of a millisecond."""

    apart: float = 0.01
    """Steps that make a difference between the times at which members were last heard or written to,"""

    most_apart: float = 2.0
    """and steps at most."""

    least_silent: float = -0.2
    """Steps for which a member was silent before, at least,"""

    most_silent: float = 1.0
    """and at most."""

    # What is said of it
    named: float = 0.5
    """Chance from which one member is named: it is to blame rather than not. With less the job is, and the likeliest
    members are listed."""

    plainly: float = 0.8
    """Chance from which it is named without a "most likely"."""

    never_surer: float = 0.97
    """Chance that is said at most: of those with more, in what the weights were not fitted to, 97 % are right."""

    least_listed: float = 0.05
    """Chance from which a member is listed as an alternative."""
