"""What is measured of a job before anybody is accused: every constant of that.

Each field says its unit and where the value comes from. `benchmarks/robust.py --sensitivity --match diagnose` moves
each by a fifth either way and prints what changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.model.timeline import SETUP_FACTOR

__all__ = ["EvidenceRules"]


@dataclass(frozen=True, slots=True)
class EvidenceRules:
    """Lateness, rates, and steps that the clock left out."""

    # Curves of bytes
    curve_messages: int = 2
    """Messages without which a member has no curve."""

    # Lateness
    message_share: float = 0.005
    """Of a pair's bytes per step: smaller messages are norms or metrics, not gradients."""

    setup_factor: float = SETUP_FACTOR
    """Usual durations of a step. The first one after a job was away (`endings.away_steps`) sets up again if it takes
    more; real ones take 3-20 times as long."""

    tie_break: float = 0.2
    """Weight of the first message to a member against the first one from it."""

    # Steps in a rhythm
    rhythm_share: float = 0.35
    """Share of the differences between the lengths of steps that a rhythm must explain to be one. Over 900 jobs of
    captures and their cuts and random scenarios, every clock above it ticked at a part of the step (F1 of 0.67 at
    most) if the swing was large; results are the same from 0.3 to 0.4."""

    rhythm_gain: float = 0.05
    """What a longer rhythm must explain beyond a shorter one."""

    rhythm_swing: float = 1.3
    """Longest part of a round against its shortest: a job's own steps alternate by less."""

    rhythm_rounds: int = 6
    """Rounds that must have been seen,"""

    longest_rhythm: int = 16
    """of so many steps at most."""

    # Rates
    quantum_bytes: int = 131_072
    """Two of the bursts (64 KB) in which network cards cut what they are given and throttles let it pass: less does not
    show how fast a link is. More would hold a wait: rings hand data on in pieces from 180 KB (gloo) to 4 MB (NCCL), and
    behind a slow hop every piece waits for the next."""

    quantum_share: float = 0.5
    """Of a pair's bytes per step, or of its usual transfer, where these are small: a quantum must fit into one
    message."""

    timed_share: float = 0.75
    """Of the quantum that half of a pair's usual message must reach for its rate to tell that nothing is slow."""

    typical_byte: float = 0.5
    """Quantile of a step's bytes whose rate counts: above it lie bursts, below it quanta that held a wait. By bytes,
    not by transfers: a throttled line lets many small ones pass at once, and the few large ones take all of the
    time."""

    timed_units: float = 4.0
    """Units of the collector's clock that a quantum must take to be timed: two roundings then cost a quarter each."""

    summed_units: float = 3.0
    """Units that the transfers of a step must usually take together for their sum to mean something."""

    durations: int = 50
    """Transfers of one record each from which the unit of the collector's clock is read."""

    few_transfers: int = 4_096
    """Transfers whose times are looked at first: a collector that counts nanoseconds shows within the first dozens."""

    # Steps that the clock left out
    hole_steps: float = 0.5
    """Time between two steps, in steps, from which there may be more between them."""

    usual_time: float = 0.4
    """Share of a job's time that steps of less than `long_step` usual ones must take where longer ones come and go:
    below it the clock beats to parts of the steps. Results on captures, their windows and random faults are the same
    from 0.36 to 0.42."""

    held_bytes: float = 0.5
    """Share of the bytes of the training that must be sent in a job's steps: below it the clock beats to something
    else. Of 300 jobs with findings four windows of healthy captures, all of jobs that are being set up, hold 0.02 to
    0.44, and all others 0.58 and more."""

    tail_steps: float = 2.0
    """Time from the end of the last step to the last message, in steps, from which there may be more after it: one
    step is under way where the window ends."""

    hole_bytes: float = 0.5
    """Of a step's bytes that must flow in a hole."""

    hole_silence: float = 0.5
    """Share of a hole that one silence may take: a job that pauses, or was away, makes no steps."""

    # Bytes sent again
    resent_share: float = 0.005
    """Share of a pair's bytes per step beyond the usual that has been sent again: a link that loses one packet in two
    hundred is sick. Healthy pairs of real captures stay below 0.003, lossy ones of 2 % have 0.02."""

    as_often_less: float = 0.5
    """Cells with too few bytes, for each with too many, from which a collector loses records and nothing is
    sent again."""

    most_resent: float = 0.3
    """The same at most: more is not sent again but sent anew."""

    exact_steps: float = 0.5
    """Share of the steps in which a pair moves its usual bytes, for more to be news,"""

    exact_pairs: float = 0.75
    """and share of a job's pairs that must be so: else its steps are not known exactly. In real captures with a lossy
    link all are; where bytes vary by chance (random seeds 3053, 3070) few."""

    most_resending: float = 0.5
    """Share of the pairs that may move more in one step: beyond it the job itself does."""

    alike_share: float = 0.01
    """Relative difference of what a pair sends more, up to which it is the same every time: a message of its own,"""

    alike_steps: int = 3
    """in so many steps at least."""
