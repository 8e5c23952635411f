"""What members exchange inside a step besides gradients (tokens, contexts, tensors): every constant of that.

Each field says its unit, where the value comes from, and what changed when it was tried otherwise
(`benchmarks/stage_rules.py`). Where a field of 6e1c8c6 says nothing of that, half and twice its value changed none of
22 small jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ExchangeRules"]


@dataclass(frozen=True, slots=True)
class ExchangeRules:
    """Exchanges in the passes, with and without pipelines."""

    # Collectives while pipelines pass activations on
    forward_share: float = 0.01
    """Share of a pair's bytes in the passes that is sent in their forward-only part: one micro-batch of many is
    enough."""

    forward_steps: float = 0.5
    """Share of the steps in which it shows: set-up traffic and prefetching do not come every time."""

    in_every_pass: float = 0.35
    """Share of the times between two messages that a member hands on in which what every pass needs is sent. Contexts
    of random pipelines have 0.77 to 1, parameters that are gathered once a step 0 to 0.32, gradients and gathers under
    the passes 0 to 0.15; where activations and gradients leave together every second time holds no pass (shards of
    every micro-batch: 0.4)."""

    steady_share: float = 0.5
    """Places of the third quarter of the passes in which a collective of every pass is busy, relative to the pipelines'
    own messages: parameters are gathered in the first quarters, gradients added up in the last one."""

    groups_exchanging: float = 0.5
    """Share of the groups of one shape in which an exchange shows, from which all of them exchange."""

    same_hop: float = 0.08
    """Difference of the logarithms of the bytes per step within which two hops do the same: those of one ring."""

    pass_places: int = 32
    """Places of a member's passes that are distinguished: as many as passes of sixteen micro-batches."""

    leads_behind: float = 1 / 3
    """Share of the rests around a collective, in the time before each message of its member, that lies behind it where
    it leads into the message: half as much as before it. Of 46 random pipelines with contexts of one replica or
    tensors across servers 40 have less (0.01 to 0.30), of 78 with sharded stages none (0.39 to 0.90)."""

    passes_of_weights: float = 0.5
    """Share of the bytes of what serves the passes that may follow the last message: of three passes of a micro-batch
    one is of the weights alone, and one more is the first stage's last."""

    spread_over_passes: float = 0.5
    """Places in which a collective of every pass begins to send, relative to the pipelines' own messages."""

    # Two rings over the same hops
    sum_of_rings: float = 0.25
    """Share of the smaller ring's bytes by which a hop of both rings may be off their sum: less than half, so that
    levels stay apart, and more than the losses of a collector. From 0.1 to 0.4 the same rings are found in 78 random
    jobs, 20 of them with contexts."""

    superposed_members: float = 0.5
    """Share of the members in components of two rings, from which the job is laid out that way."""

    rings_sampled: int = 8
    """Components that are looked at before all are: most jobs have no second ring."""

    most_hops: int = 4096
    """Hops of a component that are looked at: contexts divide gradient groups of a few hundred members."""

    # Lanes of contexts
    least_lanes: int = 2
    """Lanes from which hops are contexts': a single one may be the ring of one tensor-parallel group."""

    # All-to-alls inside gradient groups
    next_hop: float = 0.01
    """Share of a step by which a transfer of the ring may be apart from those of the next hop."""

    uneven_tokens: float = 0.004
    """Deviation from step to step of what goes there less what comes back, as a share of it, from which tokens are
    routed: contexts stay below 0.0003 where a collector loses nothing..."""

    uneven_noise: float = 4.0
    """...and below this many times the same of two hops of the ring itself."""

    uneven_links: float = 2.0
    """How much more the two ways of a link with tokens differ, from step to step and as a share of all of its bytes,
    than those of links that carry something even: twice as much is clear on a median of several links."""

    uneven_message: float = 0.08
    """Deviation of the logarithm of the ratio of the two ways of single exchanges, from which tokens are routed: 0.11
    to 0.31 are seen with tokens, without them 0.02 where counters are off by 3 % and 0.05 where packets are sampled
    (random jobs)..."""

    even_message: float = 0.04
    """...and what three of four exchanges are within where all are even, tokens never."""

    finer_counts: float = 8.0
    """How much less than single exchanges other links may be miscounted by: gradients are sent in dozens of pieces."""

    exchange_silences: tuple[float, ...] = (0.05, 0.25, 0.5, 1.0)
    """Silences between two exchanges that are tried, as shares of the one that half of the silent time of a link is
    longer than..."""

    two_way_bursts: float = 0.85
    """...and the share of the bursts between such silences that must have both ways."""

    taking_turns: float = 0.5
    """Share of the bursts after the shortest of these silences that have both ways, below which the ends of a link take
    turns: replicas of two shard groups have 0.71 and more in captures, 0.89 in random jobs; activations 0 to 1."""

    single_silences: tuple[float, ...] = (0.05, 0.25)
    """The shorter of these, between the bursts of one pass: longer ones lie between all passes and the gradients."""

    turns_of_step: float = 1.5
    """Bursts of contexts and tokens in a step, at least: a pass forward and one backward of one micro-batch, less what
    a collector joins."""

    larger_with_contexts: float = 1.3
    """How much larger a burst of contexts and tokens is than one of tokens alone, at least: routing makes tokens of one
    pass differ by less than that from those of the next in most passes of random jobs."""

    least_exchanges: int = 16
    """Exchanges that a deviation is taken of."""

    whole_steps: float = 0.3
    """Share of the steps in which a collector loses nothing of a link, even where it loses records in most."""

    even_links: int = 16
    """Links that show how much even traffic varies: a median needs no more."""

    axis_covered: float = 0.5
    """Share of the members (or of the pairs) that must take part in an exchange besides a ring: all do, but records of
    some may be too poor to show it."""

    same_amount: float = 1.1
    """Ratio of the bytes of two pairs within which they carry the same gradients."""

    experts_covered: float = 0.9
    """Share of the members whose expert gradients must show."""

    # Tokens and gradients of two ranks on one link
    least_rails: int = 2
    """Links of two ranks from which it shows whether what differs between their two ways is the same on all."""

    routed_steps: int = 8
    """Steps from which that is asked."""

    routed_share: float = 0.0005
    """Share of the bytes of a link, gradients included, by which the two ways differ from step to step: 0.0016 to 0.03
    where tokens are routed on random scenarios, below 0.00004 where something else is alike on all rails."""

    routed_alike: float = 0.8
    """Rank correlation of that between two rails: 0.95 and more with experts, 0.14 and less with what collectors do to
    records (50 random jobs of two ranks to a link)."""

    routed_made_up: float = -0.3
    """Rank correlation of that between a step and the next one: nothing (a fifth in twenty steps) where each step is
    routed by itself, minus one half where ticks cut steps in the wrong place."""

    # Exchanges without pipelines, and gradients after the passes
    gradients_after: float = 0.1
    """Share of the bytes, beyond the last backward pass, that follow the last pipeline message where gradients are
    synchronised apart from what the passes exchange."""

    behind_first: float = 0.25
    """Share of what the first stage sends after its last message that the others send after theirs, below which
    collectives serve the passes alone. Of 40 random jobs those of sharded stages have 0.5 to 1.2 of it, but for one of
    0.26 with tensor groups across servers besides; three of four with such groups alone have less than 0.07."""

    most_behind: float = 0.67
    """Share of the pairs of the other stages of which that must be so: where shards are reduced besides what tensor
    groups sum up, half of the pairs send nothing after the last message."""

    last_reduction: float = 0.5
    """Share of what its last backward pass exchanges that a stage behind the first one still exchanges after it has
    sent on the gradient: the reduction of that pass."""

    gradients_on_axis: float = 0.2
    """Share of the rings of as many members that carry gradients too, from which on all of them join ranks of the same
    weights: a tree of gradients over six ranks takes one link in three of their exchanges."""

    # Contexts of one replica, on the gradients' own ring
    pass_silence: float = 0.25
    """Pauses that divide two passes, as a share of the one that half of the silent time is longer than: a forward pass
    is half of a backward pass, and what stalls inside an exchange is shorter than either."""

    longer_backward: float = 1.25
    """How much longer one of two passes must be: backward passes take twice as long, or once and their weights'."""

    least_trains: int = 3
    """Trains between two others from which it shows that all steps have as many exchanges."""

    least_turns: int = 8
    """Turns from one pause to the next but one that are looked at: by chance each is clear and opposite in less than
    two of three..."""

    in_turn: float = 0.8
    """...and this share of them must be; and of the trains, as long as most."""

    gradients_follow: float = 3.5
    """Bursts of a train that what follows it must be worth: gradients that are reduced in two buckets after every pass
    alternate as well, and are followed by the gathered parameters, two of their bursts, with the last of the train."""

    silent_slot: float = 0.5
    """Share of an even spread of the bytes below which a slot of the step is silent; one odd step in ten spreads
    less."""

    silent_pairs: float = 0.1
    """Share of the pairs that must be silent that long before the others are held to be something else."""

    silences_alike: float = 0.8
    """Silences of at least this share of the long ones are those of gradients alone..."""

    silences_agreed: float = 0.9
    """...and what this share of them has in common is when gradients are silent."""

    silence_trimmed: float = 0.1
    """Share of that time left out at either end: steps vary."""

    sent_in_silence: float = 0.3
    """Share of its bytes that a pair without gradients sends while gradients are silent: one pass of two at least, less
    some. A ring has such a pair; without one, its members only begin to send early, into the buffers of a late one."""

    gradients_besides: float = 1.15
    """Bytes per step relative to the least of its ring, from which a hop carries gradients too; losses and cut records
    change the bytes of a step by a few percent."""
