"""What the links of a job carry, gradients or activations: every constant of that judgement.

Each field says its unit, where the value comes from, and what changed when it was tried otherwise
(`benchmarks/stage_rules.py`). Where a field of 6e1c8c6 says nothing of that, half and twice its value changed none of
22 small jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KindRules"]


@dataclass(frozen=True, slots=True)
class KindRules:
    """Evidence of links and the rings that they form."""

    # Several rings over one link
    same_amount: float = 0.01
    """Share of its bytes per step within which an amount equals another one, or a multiple of it. Gradients and
    activations meet it by chance once in some hundred jobs."""

    blurred_amount: float = 0.04
    """The same at most, where bytes vary from step to step: where the clock is a little off, a few percent of a step
    fall into the next one."""

    amount_spreads: float = 2.0
    """Median deviations of a pair's bytes per step by which the amount of a step may be off."""

    most_orders: int = 4
    """Rings of different orders over one link; libraries use two or four orders."""

    least_rings: int = 3
    """Rings of one group from which its links are looked at: one or two of them close by themselves."""

    most_amounts: int = 32
    """Amounts that are tried as those of one ring, the most frequent ones first."""

    # Profiles
    profile_slots: int = 64
    """Slots of a step in a profile: a slot is 1.6 % of the step, finer than any stage's share of it. Tried 32 to 128 on
    22 small jobs: 128 changes 1."""

    # One direction ahead of the other
    lead_outer: float = 0.15
    """Share of the step's time at either end of the range that is left out: bursts of collectives take less."""

    lead_steps: int = 48
    """Steps looked at, spread over the window: a median needs no more."""

    # Links of one sort
    one_way: float = 0.3
    """A link whose lesser direction carries less than this share of the greater one is one-way."""

    same_bytes: float = 0.05
    """Difference of the logarithms of two links' bytes per step up to which they are of one sort; lossy collectors
    reach three percent."""

    set_up_share: float = 0.02
    """Share of a link's bytes after the first two steps, below which it served the set-up alone."""

    sampled_links: int = 12
    """Links of one sort whose balance is followed: a median needs no more."""

    two_kinds_of_pause: float = 0.75
    """Share of the variance of the logarithms of the pauses that two kinds must explain; one even spread gives 0.75,
    one bell 0.64."""

    pauses_far_apart: float = 3.0
    """Logarithm (base 2) by which the two kinds must differ."""

    burst_share: float = 0.9
    """Share of the bytes that the burst must hold whose width is measured."""

    # Rings that share hops
    ring_adds: float = 0.5
    """Share of a ring's bytes by which a shared hop carries more one way than the other at least, in the median: nearer
    to what the ring adds than to nothing. Uneven routing makes single links differ."""

    least_ring: int = 6
    """Members of a ring both ways in which lighter and heavier hops take turns: four are two replicas of two stages
    too."""

    ring_sorts: int = 12
    """Sorts of two-way links that are tried, two by two."""

    joined_ends: float = 0.9
    """Share of the open ends of a ring that must find each other."""

    # Log odds of a link
    turns: float = 0.45
    """Messages by which the profiles of the two directions differ where both kinds are equally likely: at least one
    micro-batch is under way in a pipeline (0.65 and more in real captures), collectives stay below 0.3 in the
    median."""

    turns_odds: float = 2.0
    """Log odds for each doubling of the turns."""

    most_turns_odds: float = 3.0
    """And at most."""

    turns_noise: float = 0.02
    """Share that is added to the turns before their logarithm is taken: a link without any is not infinitely sure."""

    lead_messages: float = 0.5
    """Messages by which one direction stays ahead where both kinds are equally likely: half a message."""

    together: float = 0.25
    """Share of time at which both directions are busy where both kinds are equally likely (collectives 0.33-1.0,
    pipelines up to 0.17, or 0.95 where both directions are sent in one batch); a weak witness."""

    one_way_odds: float = 4.0
    """Log odds for data parallelism of a one-way link, or of one in closed two-way rings: only unusual traffic is so
    and not a collective."""

    burst: float = 0.2
    """Share of the step: a link both of whose directions are confined to it is no pipeline's. The passes of real and
    simulated pipelines take 0.4 and more, trees that are not overlapped with the backward pass up to 0.15."""

    burst_odds: float = 3.0
    """Log odds for data parallelism of a link that sends in one burst: a pipeline of tiny passes and long
    synchronisations could do so too."""

    narrow: float = 0.45
    """Share of the step from which on the width of a link says nothing; pipelines fill 0.39 and more."""

    narrow_odds: float = 2.0
    """Log odds for data parallelism of a link that is hardly wider than a burst."""

    ends_together: float = 0.003
    """Share of the time that a link takes, within which its two directions end: collectives 0.0-0.002 where nothing
    else disturbs them, pipelines 0.005 and more unless a collective of tied embeddings follows on the same link."""

    ends_odds: float = 2.0
    """Log odds for data parallelism of a link whose directions end together."""

    passing_odds: float = 6.0
    """Log odds for a pipeline of links that have messages outstanding from the begin of a step to its end, where no two
    of a sort share an end: as sure as one kind of evidence makes. Of 200 random scenarios no pair of replicas shows
    it, and two stages do in two of three."""

    passing_tree_odds: float = 2.0
    """The same of links that share ends: some trees show it too (6 of 60), and 112 of 170 pipelines."""

    rings_apart: float = 0.1
    """Kolmogorov distance between the profiles of the one-way rings of a link's two ends where both kinds are equally
    likely. Stages synchronise one after the other (0.14 and more in the median of real and simulated pipelines);
    replicas of shards do the same at the same time (0.07 and less)."""

    rings_odds: float = 3.0
    """Log odds for each doubling of that distance, and at most."""

    rings_noise: float = 0.005
    """Added to that distance before its logarithm is taken."""

    surest_odds: float = 6.0
    """Log odds of a link at most, either way: 0.998, as sure as one kind of evidence makes."""

    avoided: float = 1.5
    """How many times more of a link's bytes than by chance pass while the rings of its ends are silent, from which on
    that tells. Collectives of all sources stay below 1.4; passes of network-bound jobs, whose rings are busy for most
    of the step, reach 4 to 6."""

    avoided_odds: float = 3.0
    """Log odds for a pipeline for each doubling of that."""

    rings_quiet: float = 0.1
    """Share of their mean rate up to which the rings are silent."""

    far_more: float = 8.0
    """How many times the bytes of a link the links of its two ends carry that fill the step, from which on it is bound
    by the network: what takes a tenth of the step has less than an eighth of what fills it."""

    # Which links are of one sort, and which close a ring
    hop_apart: float = 0.25
    """Kolmogorov distance between when a hop is busy and when its ring is, up to which they move together: 0.01 to 0.1
    in rings of gloo, 0.4 and more where tied embeddings close a pipeline."""

    other_width: float = 0.25
    """Share of the step between the widths of two links, with none between them, that makes them different sorts: links
    of stages next to each other differ by a few passes."""

    # Meanings that compete
    impossible: float = 6.0
    """Log odds against a choice all of whose links no layout explains: as much as the best evidence of one sort."""

    fits_nothing: float = 0.5
    """Share of the links of a sort that even the best choice leaves unexplained, above which they are reported as an
    unknown collective. Of 116 layouts of real and random jobs it is 0 in all but one, which was wrong, with 1."""

    most_sorts: int = 6
    """Doubtful sorts whose meanings are tried in all combinations (64); with more, one is changed at a time."""

    tree_chain: int = 2
    """Links of the longest chain that is a tree too: one parent with two children. With three (one of which has a
    child) pipelines of four stages would be less sure; trees of four are found by who sends first instead."""

    tree_members: int = 4
    """Members of the largest binary tree that is a chain: a root with two children, one of which has a child."""

    sends_first: float = 0.5
    """By how much of the two rests of an end's link the one is longer in which nothing is outstanding, from which on
    that end sends first. Of 78 chains of random jobs trees have 0.84 to 1 at both of their ends; of true pipelines the
    end of the last stage has less than -0.5, with a wrong clock up to 0.3."""

    # Roles of pairs
    tree_confidence: float = 0.6
    """Of a link that looks like a pipeline's but cannot be one: probably a tree's."""

    mesh_confidence: float = 0.9
    """Of a link whose ends share most of their peers: nothing but an all-to-all is known to look so."""

    trickle: float = 0.05
    """Share of the other direction below which a direction of a one-way link carries acknowledgements and credits only.
    Tried 0.025 to 0.1 on 22 small jobs: 0.025 changes 1."""

    # Pipelines that may be collectives
    collectives_nats: float = 2.0
    """Log odds by which a layout without the pipelines must be ahead of the one with them. Of 463 jobs with pipelines
    (captures, sources, random scenarios) it is ahead in two by 0.4 and 1.2, and in two whose pipelines are wrong in
    another way by 2.7 and 5.4; in eight jobs without pipelines that were said to have some by 1.8 to 7.3."""

    hybrid_nats: float = 5.9
    """What it is worth that shard groups and replicas carry what hybrid sharding makes them carry, where the passes
    find them and no pipeline besides: of some 560 true pipelines one shows that, a closed one (1.5 in 560)."""

    surest_layout: float = 4.5
    """Log odds that no layout has besides what its links show (0.3 more than any of 550): what is behind by more than
    that need not be tried."""
