"""Every constant that the timeline and the facts of a job are made by, in one place.

Each field says its unit, where the value comes from and what changed when it was tried otherwise
(`benchmarks/timeline_rules.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["RULES", "TimelineRules"]


@dataclass(frozen=True, slots=True)
class TimelineRules:
    """Passed to every function of the package that decides anything."""

    # Steps
    setup_factor: float = 2.0
    """Median durations of a step. The first step counts as set-up when it takes more: it compiles, allocates and
    connects, and takes 3-20 times as long in real runs."""

    pause_factor: float = 4.0
    """Usual times from a step's begin to its first message. Traffic that begins later follows a pause (checkpoint,
    evaluation), which belongs to neither step."""

    optimizer_and_forward: float = 0.35
    """Share of the rest between the last gradient and the first activation that the optimizer takes; the first stage's
    first forward pass takes the rest. 0.24 to 0.67 in real and simulated pipelines."""

    optimizer_and_pass: float = 0.05
    """The same where the rest goes on through the whole forward pass: 0.005 to 0.19 in real and simulated jobs."""

    # Events
    fuse_ns: int = 2_000_000
    """Nanoseconds. Collective messages of one member closer than this are one event."""

    shortest_gap_ns: int = 100_000
    """Nanoseconds. A shorter gap between two messages is neither computation nor idleness worth showing."""

    # Which traffic the facts are read from
    groups_of_a_kind: int = 8
    """Groups of one stage and size that are looked at: the median of eight is not moved by three that are sick."""

    pipelines_looked_at: int = 16
    """Pipelines of a job do the same at the same time; the median of sixteen is not moved by a few."""

    largest_spread: float = 0.05
    """Distance of the quartiles of the bytes per step over their median up to which the steps are held for steps: bytes
    are conserved to 0.0015 in real jobs, to 0.02 with sharded parameters."""

    largest_unexplained: float = 0.05
    """Bytes that nobody could name over those of gradients, up to which the gradients are held for all: the accuracy
    that the number of parameters is wanted with."""

    # Size of the model
    even_senders: float = 1.1
    """Largest over smallest sender of a ring, in which all send the same; the inner members of a tree send twice as
    much as its leaves. Real rings stay below 1.02."""

    share_tolerance: float = 0.005
    """Share of a step's bytes within which a silence lies at a third or at two thirds: control messages and norms come
    to less than a thousandth of the bytes in real jobs."""

    silent_steps: float = 0.75
    """Share of the steps that must show the silence: 0.86 to 1 in real jobs with a sharded optimizer, up to 0.8 where
    three equal buckets are reduced one after the other (which are then silent at one third as well)."""

    optimizer_pause: float = 3.0
    """The silence of the optimizer is longer than that between two buckets by this factor: 4 and more in real jobs."""

    # Use of the network
    waiting_pause: float = 0.02
    """Share of a step. A shorter pause does not part two bursts: it changes the result by less than itself."""

    before_optimizer: float = 0.6
    """Share of the bytes of a sharded optimizer's synchronisation that is certainly sent before the optimizer runs: two
    thirds are, less half of the distance to the last bucket's begin."""


RULES: Final = TimelineRules()
