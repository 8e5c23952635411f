"""When the messages of a pipeline pass under a schedule: orders of work per rank, played through.

A schedule is an order of forward and backward passes for every rank. A pass starts when its rank is free and what it
waits for has arrived; when it ends, a message leaves for the rank of the next (or previous) part of the model. Played
through with passes of unit length, an order predicts when each message passes each link, up to the unit of time.

>>> times = message_times(one_f_one_b(2, 3), backward=2.0, delay=0.0)
>>> times[0, 1], times[1, 0]
(array([1., 2., 7.]), array([ 4.,  7., 10.]))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.kernel import kernel

__all__ = ["PassOrder", "gpipe", "interleaved", "message_times", "one_f_one_b", "v_shaped"]

FORWARD: Final = 0
BACKWARD: Final = 1
WEIGHTS: Final = 2
"""Gradients of the weights, apart from those of the inputs: nobody waits for them (zero-bubble schedules)."""


@dataclass(frozen=True, slots=True)
class PassOrder:
    """`passes` of each rank in the order of their start: (kind, part of the model, micro-batch). `rank_of` each part.

    `split`: backward passes leave the weights' gradients to passes of their own.
    """

    name: str
    micro_batches: int
    rank_of: tuple[int, ...]
    passes: tuple[tuple[tuple[int, int, int], ...], ...]
    split: bool = False


def gpipe(stages: int, batches: int) -> PassOrder:
    """All forward passes, then all backward passes."""
    passes = tuple(
        tuple((kind, rank, batch) for kind in (FORWARD, BACKWARD) for batch in range(batches)) for rank in range(stages)
    )
    return PassOrder("gpipe", batches, tuple(range(stages)), passes)


def one_f_one_b(stages: int, batches: int) -> PassOrder:
    """As many forward passes as there are stages behind, then one backward for each forward pass."""
    passes = []
    for rank in range(stages):
        forward = [(FORWARD, rank, batch) for batch in range(batches)]
        backward = [(BACKWARD, rank, batch) for batch in range(batches)]
        passes.append(_alternating(forward, backward, min(stages - rank - 1, batches)))
    return PassOrder("1f1b", batches, tuple(range(stages)), tuple(passes))


def interleaved(stages: int, batches: int, chunks: int) -> PassOrder:
    """Each rank holds several chunks of the model and takes micro-batches in rounds of one per stage."""
    rounds = max(1, batches // stages)
    size = batches // rounds
    work = [(j * size + i, chunk) for j in range(rounds) for chunk in range(chunks) for i in range(size)]
    passes = []
    for rank in range(stages):
        forward = [(FORWARD, chunk * stages + rank, batch) for batch, chunk in work]
        backward = [(BACKWARD, (chunks - 1 - chunk) * stages + rank, batch) for batch, chunk in work]
        warm_up = (stages - rank - 1) * 2 + (chunks - 1) * size
        passes.append(_alternating(forward, backward, min(warm_up, len(forward))))
    return PassOrder("interleaved", rounds * size, tuple(q % stages for q in range(stages * chunks)), tuple(passes))


def v_shaped(stages: int, batches: int) -> PassOrder:
    """Zero bubble with two chunks per rank: down the ranks and up again."""
    passes = tuple(tuple(_v_passes(stages, batches, rank)) for rank in range(stages))
    down = tuple(range(stages))
    return PassOrder("zbv", batches, down + down[::-1], passes, split=True)


def _alternating(
    forward: list[tuple[int, int, int]], backward: list[tuple[int, int, int]], warm_up: int
) -> tuple[tuple[int, int, int], ...]:
    steady = [one for pair in zip(forward[warm_up:], backward, strict=False) for one in pair]
    return (*forward[:warm_up], *steady, *backward[len(forward) - warm_up :])


def _v_passes(stages: int, batches: int, rank: int) -> list[tuple[int, int, int]]:
    part = (rank, 2 * stages - 1 - rank)
    done = {(kind, chunk): 0 for kind in (FORWARD, BACKWARD, WEIGHTS) for chunk in (0, 1)}
    passes: list[tuple[int, int, int]] = []

    def add(*wanted: tuple[int, int]) -> None:
        for kind, chunk in wanted:
            if done[kind, chunk] < batches:
                passes.append((kind, part[chunk], done[kind, chunk]))
                done[kind, chunk] += 1

    backward = [((BACKWARD, chunk), (WEIGHTS, chunk)) for chunk in (0, 1)]
    for _ in range(2 * (stages - rank) - 1):
        add((FORWARD, 0))
    for _ in range(rank):
        add((FORWARD, 1), (FORWARD, 0))
    for _ in range(stages - rank):
        add((FORWARD, 1), *backward[1])
    while done[FORWARD, 1] < done[FORWARD, 0] or done[FORWARD, 0] < batches:
        add((FORWARD, 0), *backward[0], (FORWARD, 1), *backward[1])
    for _ in range(rank):
        add((BACKWARD, 0), (BACKWARD, 1))
    while done[BACKWARD, 0] < batches or done[BACKWARD, 1] < batches:
        add(*backward[0], (BACKWARD, 1))
    for chunk in (1, 0):
        add(*[(WEIGHTS, chunk)] * (batches - done[WEIGHTS, chunk]))
    return passes


def message_times(order: PassOrder, backward: float, delay: float) -> dict[tuple[int, int], Float64]:
    """When the messages from one rank to another leave, ascending, with forward passes of length 1.

    `backward` is the length of a backward pass, `delay` the time that a message takes.
    """
    length = np.array([1.0, backward / 2.0 if order.split else backward, backward / 2.0])
    parts = len(order.rank_of)
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in order.passes])]).astype(np.int64)
    kind, part, batch = np.array([one for own in order.passes for one in own], dtype=np.int64).T
    rank_of = np.array(order.rank_of, dtype=np.int64)
    ends = _played(offsets, kind, part, batch, rank_of, length, delay, order.micro_batches)
    result: dict[tuple[int, int], Float64] = {}
    for way, towards in ((FORWARD, 1), (BACKWARD, -1)):
        for here in range(parts):
            there = here + towards
            if 0 <= there < parts and rank_of[here] != rank_of[there]:
                ranks = int(rank_of[here]), int(rank_of[there])
                result[ranks] = np.concatenate([result.get(ranks, np.zeros(0)), ends[way, here]])
    return {ranks: np.sort(times) for ranks, times in result.items()}


@kernel
def _played(
    offsets: Int64, kind: Int64, part: Int64, batch: Int64, rank_of: Int64, length: Float64, delay: float, batches: int
) -> Float64:
    """End of each forward (0) and backward (1) pass by part and micro-batch; infinite where an order waits for ever."""
    parts, ranks = rank_of.size, offsets.size - 1
    ends = np.full((2, parts, batches), np.inf)
    free, at = np.zeros(ranks), offsets[:-1].copy()
    moved = True
    while moved:
        moved = False
        for rank in range(ranks):
            while at[rank] < offsets[rank + 1]:
                i = at[rank]
                what, q, j = kind[i], part[i], batch[i]
                ready = 0.0
                if what == 0 and q > 0:
                    ready = ends[0, q - 1, j] + (delay if rank_of[q - 1] != rank else 0.0)
                elif what == 1:
                    ready = ends[0, q, j]
                    if q < parts - 1:
                        ready = max(ready, ends[1, q + 1, j] + (delay if rank_of[q + 1] != rank else 0.0))
                elif what == 2:
                    ready = ends[1, q, j]
                if ready == np.inf:
                    break
                free[rank] = max(free[rank], ready) + length[what]
                if what < 2:
                    ends[what, q, j] = free[rank]
                at[rank] += 1
                moved = True
    return ends
