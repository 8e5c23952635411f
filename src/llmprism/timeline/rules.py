"""Every constant that the timeline and the facts of a job are made by, in one place.

Each field says its unit, where the value comes from and what changed when it was tried otherwise
(`benchmarks/stage_rules.py timelines`, on the 17 captures of `captures` and `frameworks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmprism.model.flows import CONTROL_BYTES, CONTROL_SHARE, MESSAGE_SAMPLE
from llmprism.model.timeline import SETUP_FACTOR

__all__ = ["RULES", "TimelineRules"]


@dataclass(frozen=True, slots=True)
class TimelineRules:
    """Passed to every function of the package that decides anything."""

    # Steps
    setup_factor: float = SETUP_FACTOR
    """Median durations of a step. The first step counts as set-up when it takes more: it compiles, allocates and
    connects, and takes 3-20 times as long in real runs. Tried 1 to 4 on 17 captures: 1.6 marks
    a first step more in 3 of them, 2.5 one less in 1, 4 in 6."""

    first_longer: float = 0.1
    """Share of a step by which the job's own first step takes longer at least: 0.4 to 26 in real runs, 0.03 at most
    where the job ran before the window..."""

    first_spreads: float = 6.0
    """...and how many times the median deviation of its steps."""

    control_share: float = CONTROL_SHARE
    """Messages below this share of the usual one carry no tensors..."""

    control_bytes: int = CONTROL_BYTES
    """...if they are below this size too."""

    message_sample: int = MESSAGE_SAMPLE
    """Messages that the usual size is taken from."""

    set_up_pairs: float = 0.1
    """Share of the pairs that may send less than a step's bytes before the first tick: what a collector lost."""

    tables_share: float = 0.1
    """Share of the usual message below which one may belong to the set-up of a communicator at the end of the first
    step: 9 KB on pairs whose tensors have 200 KB and more in real jobs."""

    cut_off: float = 0.03
    """Share of a step's gradients that is missing at least where the window ends within it: collectors lose less. The
    same as `step_tolerance` of the clocks..."""

    cut_off_spreads: float = 6.0
    """...and how many times the median deviation of the other steps."""

    pause_factor: float = 4.0
    """Usual times from a step's begin to its first message. Traffic that begins later follows a pause (checkpoint,
    evaluation), which belongs to neither step. Tried 2 to 8: above 5 one of 17 captures changes (evaluations of
    `hf_eval`)."""

    optimizer_and_forward: float = 0.5
    """Share of the rest between the last gradient and the first activation that the optimizer takes at most; the first
    stage's first forward pass takes the rest. 0.31 to 0.67 in real and simulated pipelines whose rest is short; where
    it has a tenth of the step, 0.12 and less."""

    optimizer_share: float = 0.045
    """Share of a step that the optimizer takes at most where the rest goes on through a forward pass: 0.013 to 0.124 in
    real and simulated jobs without pipelines, half of them between 0.025 and 0.065, and 0.002 to 0.056 in real
    pipelines..."""

    optimizer_and_pass: float = 0.12
    """...and of that rest, at most: 0.02 to 0.26."""

    longest_optimizer: float = 0.25
    """Share of a step below which the rest of a sharded job is its optimizer's alone: 0.003 to 0.16 in real jobs. A
    forward pass takes a third of the computation; where so much is silent it is in the rest, and nothing is gathered
    in it."""

    # Events
    fuse_ns: int = 2_000_000
    """Nanoseconds. Collective messages of one member closer than this are one event. For the eye: every value changes
    how many events are shown, none what is diagnosed."""

    shortest_gap_ns: int = 100_000
    """Nanoseconds. A shorter gap between two messages is neither computation nor idleness worth showing.
    For the eye as well."""

    # Which traffic the facts are read from
    groups_of_a_kind: int = 8
    """Groups of one stage and size that are looked at: the median of eight is not moved by three that are sick. Tried
    4 to 16: no change."""

    pipelines_looked_at: int = 16
    """Pipelines of a job do the same at the same time; the median of sixteen is not moved by a few. Tried 8
    to 32: no change."""

    largest_spread: float = 0.05
    """Distance of the quartiles of the bytes per step over their median up to which the steps are held for steps: bytes
    are conserved to 0.0015 in real jobs, to 0.02 with sharded parameters. Tried 0.025 to 0.1: from 0.06 on one of two
    equal jobs (`two_same`) gets sizes."""

    largest_unexplained: float = 0.05
    """Bytes that nobody could name over those of gradients, up to which the gradients are held for all: the accuracy
    that the number of parameters is wanted with. Tried 0.025 to 0.1: no change."""

    # Size of the model
    even_senders: float = 1.1
    """Largest over smallest sender of a ring, in which all send the same; the inner members of a tree send twice as
    much as its leaves. Real rings stay below 1.02. Tried up to 2.2: no change; there is no tree among the captures."""

    share_tolerance: float = 0.005
    """Share of a step's bytes within which a silence lies at a third or at two thirds: control messages and norms come
    to less than a thousandth of the bytes in real jobs. Tried 0.0025 to 0.01: at 0.01 `two_same` changes."""

    silent_steps: float = 0.75
    """Share of the steps that must show the silence: 0.86 to 1 in real jobs with a sharded optimizer, up to 0.8 where
    three equal buckets are reduced one after the other (which are then silent at one third as well). Tried 0.375 to
    0.94: below 0.6 two of 17 captures change."""

    optimizer_pause: float = 3.0
    """The silence of the optimizer is longer than that between two buckets by this factor: 4 and more in real
    jobs. Tried 1.5 to 6: no change."""

    # Use of the network
    waiting_pause: float = 0.02
    """Share of a step. A shorter pause does not part two bursts: it changes the result by less than itself.
    Tried 0.01 to 0.04: exposed communication changes by a percent or more in 3 to 12 of 17 captures."""

    before_optimizer: float = 0.6
    """Share of the bytes of a sharded optimizer's synchronisation that is certainly sent before the optimizer runs: two
    thirds are, less half of the distance to the last bucket's begin. Tried 0.3 to 0.75: at 0.75 the three captures with
    a sharded optimizer change."""


RULES: Final = TimelineRules()
