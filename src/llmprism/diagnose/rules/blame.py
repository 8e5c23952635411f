"""Who was waited for, by all signs together: every constant of `blame`.

The weights are fitted (`benchmarks/blame_fit.py`) to slowdowns whose truth is known: see each field. A weight is in
natural log odds per unit of its sign.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BlameRules"]


@dataclass(frozen=True, slots=True)
class BlameRules:
    """Weights of the signs of a slow GPU, and bounds of the signs."""

    # Who
    late_clear: float = 0.9
    """For each unit of how clearly (a logarithm of jitters) a member is later at the synchronisation,"""

    silent_clear: float = 1.6
    """of how clearly its own silences before collectives grew,"""

    handed_clear: float = 1.75
    """and those before messages to other stages of its pipeline: nobody waits for a collective in these,"""

    held_clear: float = 0.95
    """of how clearly it holds the others up,"""

    work: float = 2.4
    """of how much longer it works than its peers (a logarithm of shares),"""

    found: float = 1.2
    """and for the member that was found late in enough steps by itself (`late_member`). The five before are fitted to
    38 slow GPUs of captures and 47 of even random seeds 80002 to 80200 and 82002 to 84960, 37 and 39 of which come
    first by them; what a member holds has a little more than its fit (0.7), as captures alone have it. By one sign
    alone two in three come first at most. How late a member is, in shares of what the steps take longer, adds nothing;
    what its silences grew by in such shares adds little (two nats over 85 cases)."""

    # Whether it is a GPU at all
    fit_constant: float = -1.28
    """Log odds where nothing is known,"""

    fit_lead: float = 0.65
    """for each of the log odds of the share of the one most blamed,"""

    fit_explains: float = 0.53
    """for each share of what the steps take longer that it explains,"""

    fit_fallen: float = -0.32
    """for each unit (a logarithm) by which the rate of any pair fell,"""

    fit_silences: float = -1.71
    """by which its silences became more where it is blamed by these alone: one that was found late by other signs may
    have more of them,"""

    fit_found: float = 1.07
    """and where a member was found late by itself. These six are fitted to 137 slowdowns of all kinds that no slow
    place explains, the 74 above among them: of 33 with 0.9 and more 94 % are right, of 53 below 0.2 6 %."""

    # Its card in place of it
    card_sure: float = 0.85
    """Times its share of the blame, the confidence in the card of a member that is most to blame, whose messages fell
    by more than anybody else's, by what a slow place does at least: of 29 such stretches (captures and even random
    seeds) 24 had a slow card there, three another slow card, two a slow link or spine, and none a slow GPU, of which
    there were 63."""

    # Bounds of the signs: where they end in what the weights were fitted to
    much_slower: float = 0.25
    """Share of what slower steps take longer on average from which one of them counts: those that are longer by chance
    say nothing about the others."""

    most_clear: float = 300.0
    """Times the jitter, at most,"""

    least_jitter: float = 0.02
    """and share of what the steps take longer below which jitter is not believed: what is twice as long is twice as
    clear, however still the job is otherwise. Of the fits above as many come first from 0.01 to 0.05, three fewer at
    0.001."""

    most_work: float = 6.0
    """Shares of its peers' work, at most: no GPU is seven times slower."""

    most_explained: float = 1.2
    """Share of what the steps take longer that a member explains, at most."""

    most_fallen: float = 7.0
    """Logarithms of falling rates and of more silences, at most."""

    doubt: float = 0.0001
    """Share of the blame that is left for others, at least."""

    most_steps: int = 20
    """Steps of either sort whose silences are counted, at most."""

    most_members: int = 512
    """Members of a job up to which it is asked who holds, one by one: it is the least of the signs, and takes half a
    millisecond for each."""
