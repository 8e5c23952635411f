"""Sharded parameters, hybrid sharding and gradient accumulation: every constant of that.

Each field says its unit, where the value comes from, and what changed when it was tried otherwise
(`benchmarks/stage_rules.py`). Where a field of 6e1c8c6 says nothing of that, half and twice its value changed none of
22 small jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ShardingRules"]


@dataclass(frozen=True, slots=True)
class ShardingRules:
    """How gathering and reduction are distinguished from a simple synchronisation."""

    # Gradient accumulation
    most_passes: int = 16
    """Passes per step that are looked for; more are rare where every pass pays for its communication."""

    accumulated_steps: int = 4
    """Whole steps that must be seen before passes are joined."""

    longest_optimizer: float = 0.5
    """Longest rest for an optimizer, as a share of one pass."""

    burst_places: tuple[int, ...] = (16, 64, 256)
    """Places of a tick at which an optimizer between two passes is looked for: few, where bytes vary, and many, where a
    pass has dozens of collectives and layers pause next to it for longer than the optimizer takes."""

    uncut_share: float = 0.4
    """Share of the ticks without such a pause, at least: with two passes in a step half of them have one."""

    burst_cut: float = 5.0
    """How many times longer the pause of the optimizer is than those at the same place of other ticks, which lie inside
    one burst of reduction and gathering."""

    least_optimizer: float = 0.002
    """Shortest such pause, as a share of a pass: what collectors round to. An optimizer goes over the parameters once,
    a pass computes with them for every token; that it comes in every m-th tick is judged in bits."""

    longest_layer: float = 1.0 / 3.0
    """Longest silence of a pass over layers, as a share of the pass: the backward pass of one of two layers. Of 1,100
    random and real jobs with such pauses passes have 0.11 and less, steps with checkpoints or logs 0.44 and more. A
    step that is silent for longer computes its forward pass in silence."""

    # Shard groups and replicas
    shards_over_replicas: float = 1.5
    """Bytes of a gathering link relative to a replica's where nothing else is known: three passes over a ring of n
    against one n-th of two passes."""

    collectives_of_a_batch: float = 3.0
    """Gathers and scatters of a sharded stage for every micro-batch: two gathers and one scatter."""

    shards_silent: float = 0.02
    """Share of their mean rate up to which shard groups are silent in a slot of the step."""

    replicas_alone: float = 0.5
    """Share of the bytes of replicas that may be sent while their shard groups are silent: 0.16 and less in hybrid
    sharding of random scenarios and real captures, 0.92 of the sums of tensor groups across servers."""

    hybrid_fits: tuple[float, float] = (0.55, 1.08)
    """What a member sends its shard group, relative to the prediction: 2/3 where parameters are gathered in half the
    precision of gradients, eleven twelfths where the last of four layers is kept, some percent of noise."""

    hybrid_usual: float = 0.95
    """The same where layers are many and of one precision."""

    hybrid_sorts: int = 16
    """Sorts of links that are tried as shard groups and replicas."""

    # The end of sharded steps
    same_place: float = 0.02
    """Share of a step's bytes within which two ends are the same."""

    kept_steps: float = 0.8
    """Share of the steps in which that pause must be found."""

    pause_parts: int = 8
    """Parts of a step in which the pause that ends it is looked for: it is the longest nearby."""

    # Gathers and reductions
    silent_forward: float = 0.25
    """Longest silence of the mean profile, as a share of the step, below which the forward pass cannot be silent. Tried
    0.125 to 0.5 on 22 small jobs: 0.125 changes 3, 0.5 changes 6."""

    at_half: float = 0.006
    """Distance from half of a step's bytes, in shares of them, within which a pause is the optimizer's."""

    halved_steps: float = 0.9
    """Share of the steps with such a pause; replicated jobs, real and simulated, stay below 0.5 but for equal
    buckets."""

    few_pauses: float = 0.5
    """Silence of a half relative to the pause in the middle: gathering has less, buckets of equal size as much or more.
    Tried 0.25 to 1 on 22 small jobs: 1 changes 3."""

    next_to_nothing: float = 0.1
    """Share of the mean over a step's slots below which a slot is silent."""

    at_place: float = 0.1
    """Distance from a multiple of a part of the step, in parts, within which a silence lies at it."""

    next_to_it: float = 0.4
    """Distance from the place where a sharded step is to end, in parts, within which its longest silence is looked for:
    nearly half the way to the next."""

    gathers_explain: float = 0.4
    """Share of the silence between collectives: chance gives 0.2, pauses inside the large collectives take the rest.
    Tried 0.2 to 0.8 on 22 small jobs: 0.8 changes 1."""

    most_collectives: int = 256
    """More collectives than this cannot be distinguished by their silences."""

    halves_explain: float = 0.1
    """Share of the silence that must lie half-way between for there to be twice as many collectives. Tried 0.05 to 0.2
    on 22 small jobs: 0.05 changes 2, 0.2 changes 1."""

    visited: float = 0.02
    """Silence at the least visited place, relative to the mean: gather and reduction leave little between them."""

    good_fit: float = 0.8
    """Share of the pauses' variance that the pattern explains where it is one: real and simulated sharding reach 0.99
    (8 of 9 jobs), buckets of replicated training 0.2 to 0.74 (7 of 8).
    Tried 0.4 to 1.6 on 22 small jobs: 0.4 changes 1."""

    better_fit: float = 0.3
    """Share of the pauses' variance that the pattern must explain more at its best place than at the clock's."""

    last_is_long: float = 1.5
    """The first layer is computed backward before the last reduction, so the last pause of a step is of the longer
    sort. The shorter sort may exceed it by this factor where prefetching makes both alike."""
