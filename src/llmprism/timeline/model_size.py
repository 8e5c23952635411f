"""From the volume of the gradient synchronisation to parameters: the hypotheses that the layout and the phases allow.

A parameter costs, in bytes of collectives, 2 e for an all-reduce of gradients of e bytes; e + p for a sharded optimizer
that scatters gradients of e bytes and gathers parameters of p; e + 2 p where parameters are sharded as well and are
gathered once for the forward and once for the backward pass. The volume of `gradient_volume.py` is half of that.

What decides between them: a sharded optimizer that scatters 4 bytes and gathers 2 (or reduces in 2 + 2 and gathers 2)
cannot begin to gather before all is reduced, so that the whole group is silent when two thirds of the bytes are
through, in every step, for as long as the optimizer takes. Bytes alone do not say whether the gradients of an
all-reduce have 2 or 4 bytes: both sizes are given, with the same confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.model.facts import ModelSize, Synchronisation
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, Layout, Sharding
from llmprism.stats.bursts import running_max
from llmprism.stats.integer_order import grouped_order
from llmprism.stats.stretches import stretch_starts
from llmprism.timeline.gradient_traffic import GradientTraffic
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["Phases", "model_sizes", "phases_of"]


@dataclass(frozen=True, slots=True)
class Phases:
    """Where in its bytes the synchronisation falls silent: shares of steps, and the usual length in ns (0: never)."""

    at_two_thirds: float
    two_thirds_ns: float
    at_one_third: float
    one_third_ns: float

    def gathers_after_optimizer(self, rules: TimelineRules) -> bool:
        bucket_like = self.two_thirds_ns < rules.optimizer_pause * self.one_third_ns
        return self.at_two_thirds >= rules.silent_steps and not (
            bucket_like and 2 * self.at_one_third > self.at_two_thirds
        )


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    synchronisation: Synchronisation
    gradient_bytes: int
    parameter_bytes: int
    cost: float
    """Bytes of collectives for each parameter in a step."""
    share: float
    """How plausible it is among its rivals (0..1)."""


_SHARDED_OPTIMIZER: Final = (
    _Hypothesis(Synchronisation.SHARDED_OPTIMIZER, 4, 2, 6.0, 0.9),
    _Hypothesis(Synchronisation.ALL_REDUCE, 2, 2, 4.0, 0.05),
    _Hypothesis(Synchronisation.ALL_REDUCE, 4, 4, 8.0, 0.05),
)
_ALL_REDUCE: Final = (
    _Hypothesis(Synchronisation.ALL_REDUCE, 2, 2, 4.0, 0.5),
    _Hypothesis(Synchronisation.ALL_REDUCE, 4, 4, 8.0, 0.5),
)
_EQUAL_HALVES: Final = (
    _Hypothesis(Synchronisation.SHARDED_OPTIMIZER, 2, 2, 4.0, 0.5),
    _Hypothesis(Synchronisation.SHARDED_OPTIMIZER, 4, 4, 8.0, 0.5),
)
_SHARDED_PARAMETERS: Final = (
    _Hypothesis(Synchronisation.SHARDED_PARAMETERS, 4, 2, 8.0, 0.4),
    _Hypothesis(Synchronisation.SHARDED_PARAMETERS, 2, 2, 6.0, 0.3),
    _Hypothesis(Synchronisation.SHARDED_PARAMETERS, 4, 4, 12.0, 0.2),
    _Hypothesis(Synchronisation.ALL_REDUCE, 2, 2, 4.0, 0.1),
)


def phases_of(job: Job, traffic: GradientTraffic, rules: TimelineRules = RULES) -> Phases:
    """Silences of whole groups at a third and at two thirds of the bytes of their steps."""
    transfers = job.transfers
    key = traffic.group * (int(traffic.step.max()) + 1) + traffic.step
    order = grouped_order(key, transfers.start_ns[traffic.rows])
    rows, key = traffic.rows[order], key[order]
    first = stretch_starts(key)
    offsets = np.append(first, key.size)
    cell = np.repeat(np.arange(first.size), np.diff(offsets))
    size = transfers.bytes[rows].astype(np.float64)
    before = np.cumsum(size) - size
    share = (before - before[first][cell]) / np.add.reduceat(size, first)[cell]
    busy_until = running_max(transfers.end_ns[rows], offsets)
    silence = np.zeros(rows.size, dtype=np.int64)
    silence[1:] = transfers.start_ns[rows][1:] - busy_until[:-1]
    silence[first] = 0
    near = rules.share_tolerance
    return Phases(*_silences(share, silence, cell, 2 / 3, near), *_silences(share, silence, cell, 1 / 3, near))


def _silences(share: Float64, silence: Int64, cell: Int64, where: float, near: float) -> tuple[float, float]:
    """The share of cells with a silence near there, and its usual length."""
    longest = np.zeros(int(cell.max()) + 1, dtype=np.int64)
    hit = (silence > 0) & (np.abs(share - where) < near)
    np.maximum.at(longest, cell[hit], silence[hit])
    found = longest > 0
    return float(found.mean()), float(np.median(longest[found])) if found.any() else 0.0


def model_sizes(
    volumes: dict[int, tuple[float, float]], layout: JobLayout, *, optimizer_inside: bool
) -> tuple[ModelSize, ...]:
    """The sizes that explain the volume of every stage, the most plausible first; none where some of it cannot be seen:
    the gradients of experts that only one GPU holds are never sent, and a stage without a group shows nothing."""
    degrees = layout.layout
    stages = max((len(pipeline) for pipeline in layout.pipelines), default=1)
    if set(volumes) != set(range(stages)) or (degrees.ep or 1) > 1:
        return ()
    volume = [volumes[stage][0] for stage in range(stages)]
    sure = layout.peers_confidence
    return tuple(_size(one, volume, degrees, sure) for one in _hypotheses(degrees, optimizer_inside))


def _hypotheses(degrees: Layout, optimizer_inside: bool) -> tuple[_Hypothesis, ...]:
    if degrees.sharding == Sharding.FSDP:
        return _SHARDED_PARAMETERS
    if optimizer_inside:
        return _SHARDED_OPTIMIZER
    return _EQUAL_HALVES if degrees.sharding == Sharding.ZERO else _ALL_REDUCE


def _size(hypothesis: _Hypothesis, volume: list[float], degrees: Layout, confidence: float) -> ModelSize:
    parameters = tuple(round(2.0 * one / hypothesis.cost) for one in volume)
    total = None if degrees.tp is None else sum(parameters) * degrees.tp
    return ModelSize(
        synchronisation=hypothesis.synchronisation,
        gradient_element_bytes=hypothesis.gradient_bytes,
        parameter_element_bytes=hypothesis.parameter_bytes,
        parameters_per_gpu=parameters,
        gradient_bytes_per_gpu=tuple(one * hypothesis.gradient_bytes for one in parameters),
        parameters=total,
        gradient_bytes=None if total is None else total * hypothesis.gradient_bytes,
        confidence=hypothesis.share * confidence,
    )
