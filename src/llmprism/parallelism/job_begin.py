"""Where the steps of a job end, by how it began.

A job that begins in the window shows where its first step does. Before its first step it hands out its parameters, or
nothing; then it waits, longer than ever after, for the first batch, for kernels that are compiled and for memory; and
after its first step the optimizer waits once for memory of its own. Both waits lie between two steps. In between
others may be as long (backward passes are compiled too), but bytes tell them apart: a step's bytes are exact, and what
was sent before the wait is no step or one, and what it takes to hand out the parameters,

* nothing, where every rank makes or reads its own shard: fully sharded training;
* half of a step, where gradients are reduced and spread again, which sends them twice, and parameters were sent once;
* a third, where parameters are gathered after that, a third time.

So of the first silences that are longer than those of other steps, and that lie at one of these places, the longest one
lies between two steps, at the same place of the step's bytes as the ends of all others. A third is also what a fully
sharded step sends forward, and its turn to the first backward pass may be the longest wait: the ticks stay where they
are while a wait of about that length lies at their place.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import median, medians
from llmprism.model.clock import StepClock
from llmprism.parallelism.byte_time import bytes_at
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["place_by_begin"]


def place_by_begin(silences: Silences, clock: StepClock, least_ns: float, rules: LayoutRules = RULES) -> float | None:
    """The place of the clock's steps, as a share of their bytes, at which they end by how the job began; None where
    that does not show, or speaks for the clock's ticks as well. Silences of usual steps are shorter than `least_ns`."""
    sent = bytes_at(silences, clock.boundary_ns)
    step_bytes = float(median(np.diff(sent)))
    if step_bytes <= 0.0:
        return None
    begin = silences.bytes_before / step_bytes
    early = np.flatnonzero(silences.length_ns > least_ns)
    exact = np.zeros(early.size, dtype=np.bool_)
    for handed_out in rules.ends.handed_out:
        for first in (handed_out, handed_out + 1.0):  # before and after the first step
            exact |= (np.abs(begin[early] - first) <= rules.ends.exactly_begun) & (first > 0.0)
    if not exact.any():
        return None
    found, ticks = early[exact], sent[1 : 1 + rules.ends.first_ticks] / step_bytes
    after = (begin[found][:, None] - ticks[None, :] + 0.5) % 1.0 - 0.5
    place = (after[:, 0] + medians((after - after[:, :1] + 0.5) % 1.0 - 0.5, axis=1)) % 1.0
    length = silences.length_ns[found]
    ends = np.minimum(place, 1.0 - place) <= rules.ends.interruption_place
    if rules.ends.clearly_longer * length[ends].max(initial=0) >= length.max():
        return None
    return float(place[int(np.argmax(length))])
