"""Pipelines: their direction, micro-batches and schedules, and collectives on their links: every constant of that.

Each field says its unit, where the value comes from, and what changed when it was tried otherwise
(`benchmarks/stage_rules.py`). Where a field of 6e1c8c6 says nothing of that, half and twice its value changed none of
22 small jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StageRules"]


@dataclass(frozen=True, slots=True)
class StageRules:
    """What the messages between stages say."""

    # Which way activations go
    resting_band: float = 0.2
    """Share of the balance's range (over one step) that counts as resting at its lowest or highest."""

    momentary: float = 0.1
    """Share of the longest rest of a step up to which a level of the balance is passed, not rested at."""

    centred_steps: int = 3
    """Steps in which both ends of a pipeline must synchronise gradients before their order counts: as many as a median
    needs."""

    # Micro-batches
    most_micro_batches: int = 512
    """More micro-batches than this leave silences too close together to be distinguished."""

    messages_explain: float = 0.7
    """Share of a pipeline link's silence that lies between messages: 0.8-1.0 in real captures, a half at m / 2. Tried
    0.35 to 1.4 on 22 small jobs: 0.35 changes 3."""

    links_sampled: int = 64
    """Links sampled: all of them say the same."""

    interior_silence: float = 0.02
    """Share of the step's time that must be silence between messages before their number is looked for."""

    usual_medians: float = 3.0
    """Medians of a pair's silences beyond which one counts as this long: a stall must not outweigh the messages..."""

    usual_lengths: float = 0.9
    """...unless this share of the silences is not as long. Tried 0.45 to 1.8 on 22 small jobs: 0.45 changes 1, 1.8
    changes 21."""

    complete_step: float = 0.005
    """Share by which the bytes of a step differ from the usual, or those of two links that carry the same, where no
    record is missing."""

    complete_steps: float = 0.2
    """Share of complete steps from which on the others are left out; with sequences of many lengths no two are
    alike."""

    counted_share: float = 0.5
    """Share of the steps of all pairs that must have one number of messages, and of the bytes that must pass in single
    ones, for these to be counted: most of them. Of 242 random pipelines 218 were counted rightly by this alone."""

    counted_alike: float = 0.3
    """Share by which a single message may differ from the usual one: sequences of one step differ by less."""

    counted_rounds: int = 3
    """Rounds in which the usual message is the median of those that are nearer to one of it than to none or two."""

    message_spreads: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.07, 0.13, 0.3)
    """Shares by which the messages of a step may differ that are tried: equal ones with headers, sequences of many
    lengths (0.13), one packet in ten of small messages (0.3). Twice the one before: no spread is far from one."""

    single_messages: float = 0.05
    """Share of the bursts of whole messages that are single ones, at least: messages follow each other at once by
    chance, sampled records are so many packets as were seen, and never one."""

    alike_pieces: int = 4
    """Pieces of one size that a message may be cut into (by buffers of a library)."""

    bursts_priced: int = 1000
    """Bursts whose bytes are priced: ten steps of a hundred messages; more take longer and say the same."""

    bursts_glanced: int = 125
    """Of those, bursts that are priced for every number, to find the few that are worth pricing by all of them."""

    glanced_margin: float = 0.5
    """Nats per burst by which a number may be behind by these: what is less than 0.3 behind by all is 0.36 at most (36
    links of captures), and `schedule_margin` is 0.02 of `bursts_that_tell`. One number in fifty is left, or fewer."""

    bursts_that_tell: int = 150
    """Bursts of a job that tell something of their own: all links of a pipeline send the same messages, and the pieces
    of a message are not as the model has them. With 500 half of the messages of many lengths were counted one too many
    (25 for 24, 33 for 32)."""

    lossless_steps: float = 0.87
    """Quantile of the bytes of a step from which on nothing is missing: where a record in fifty is lost, of 64 messages
    one step in four is complete."""

    agreed_apart: float = 0.1
    """Share of the usual distance between two silences of a step within which silences of two pairs are at one
    place."""

    agreed_least: int = 3
    """...and how many at least, where a pipeline has as many: records that were cut leave silences at places of their
    own, two of which meet by chance."""

    agreed_silence: float = 0.05
    """Silence at the end of a message, relative to one that half of the silent time is longer than: the pieces of a
    message that all collectors cut alike are closer together."""

    agreed_alike: float = 3.0
    """Times as large or as small as most messages of a step that a message may be: sequences of one step differ by
    less, tied embeddings by any factor."""

    agreed_steps: float = 0.4
    """Share of the steps in which all pairs of a pipeline must carry the same bytes, and share of these that must show
    the same number of such ends."""

    gpipe_share: float = 0.9
    """Share of the activations sent before the first gradient comes back: all of them under GPipe. Tried 0.45 to 1.8 on
    22 small jobs: 0.45 changes 1."""

    one_f_one_b_share: float = 0.75
    """At most this share under 1F1B, where gradients come back while activations still flow. Tried 0.375 to 1.5 on 22
    small jobs: 0.375 changes 1."""

    # Norms of pipelines without replicas
    backward_share: float = 2.0 / 3.0
    """Share of the backward pass in a micro-batch: it computes two gradients per weight where forward computes one.
    Tried 0.333 to 1.33 on 22 small jobs: 0.333 changes 1, 1.33 changes 1."""

    # Schedules played through
    pipelines_sampled: int = 8
    """Pipelines whose moments are put together: all do the same."""

    most_messages: int = 2048
    """Messages of one pipeline in a step up to which all of its links are compared with a schedule; of more, so many
    links as have these."""

    most_chunks: int = 8
    """Chunks of the model per rank that are tried."""

    fitted_step: float = 0.01
    """Share by which the bytes of a step differ from the usual where no message is missing."""

    backward_lengths: tuple[float, float, float] = (1.0, 2.0, 3.0)
    """Lengths of a backward pass in forward passes: twice as much work, more with recomputation, less with waiting."""

    message_delays: tuple[float, float] = (0.0, 0.5)
    """Time that a message takes, in forward passes."""

    moment_jitter: float = 0.15
    """Spread of the moments in mean distances of messages: 0.05 to 0.3 in real captures."""

    schedule_margin: float = 3.0
    """Nats by which another explanation than one micro-batch per message has to be better; real ones are by 9 to 40."""

    schedule_chance: float = 0.9
    """Nats per message from which on a fit is no better than that of messages at random moments (1.1 and more)."""

    moments_that_tell: float = 10.0
    """Messages of a pipeline whose moments tell something of their own: the same waits shift all that follow. Of 313
    opened jobs of two stages 312 are right with 5 to 14, 308 with 20."""

    unusual_order: float = 1.0
    """Nats that it takes to say that a pipeline is interleaved or V-shaped: one in three or four is. The same 312 are
    right with half as much, 309 with half more."""

    odd_number: float = 2.0
    """Nats for each factor of e in the odd part of a number of micro-batches: shares of one, a ninth, a twenty-fifth
    for one, three and five times a power of two add up to one and a quarter, shares of one, a third, a fifth to no
    number. The same 312 are right with 2.5, 308 with 1.5."""

    schedule_random: float = 1.1
    """Nats per message that messages at random moments miss the best schedule by, at the least..."""

    random_messages: int = 18
    """...where there are so many; of four times as many each is off by twice as many messages."""

    few_random: float = 0.2
    """...and of two or three, with which any schedule fits within its lengths."""

    schedule_hopeless: float = 2.0
    """Nats per message from which on even the best schedule says that the messages were not counted rightly: of 420
    random jobs six have so much, one of them with the right number."""

    # Collectives on links of pipelines
    shared_links: int = 256
    """Links that are looked at one by one; larger jobs have more stages."""

    shared_probes: int = 16
    """Links, spread over all, that are looked at first: where the two stages of a pipeline reduce their embeddings, all
    of its links do. None of these, none at all."""

    equal_messages: int = 3
    """Equal messages that must follow each other."""

    same_message: float = 0.15
    """Share by which their sizes may differ."""

    message_ends: float = 0.2
    """Silence at a place relative to that of the places with most of it, from which on messages end there."""

    silent_quantile: float = 0.9
    """Quantile of the silence at places that have any, which shows how much those with most of it have. Tried 0.45 to
    1.8 on 22 small jobs: 1.8 changes 4."""

    few_silences: int = 8
    """Silences in all, with fewer of which nothing is said."""

    shared_arc: float = 0.25
    """Messages of the activations' size that the collective holds at least. Two messages that follow each other at once
    look like one of twice the size, but not at the same time both ways."""

    whole_messages: float = 0.05
    """Messages by which what is left of a step may differ from a whole number of messages that follow each other at
    once: 0.00 to 0.04 in random jobs without a collective; one in ten collectives is as near by chance."""

    collective_messages: float = 4.0
    """Messages of a direction in a step, by its own pauses, that a collective is at most: 0.7 to 2.2 in 21 random jobs
    that have one, 25 to 210 in bursts of interleaved chunks."""

    same_size: float = 0.1
    """Share by which the large messages of the two directions may differ."""

    same_time: float = 0.05
    """Share of the step by which their middles may differ in the median."""

    burst_pause: float = 0.02
    """Share of the step for which both directions must rest between two bursts."""

    burst_second: float = 0.5
    """Bytes that both directions send together in any other burst of the step, relative to the collective's."""

    burst_dense: float = 0.15
    """Share of the burst for which messages of a direction are under way: a third and more in collectives, a tenth and
    less where activations and gradients of many micro-batches pass each other."""

    burst_share: float = 0.1
    """Share of the link's bytes in a step that a direction sends in the collective, at least."""

    burst_steps: float = 0.7
    """Share of the steps in which all that must be so..."""

    burst_links: float = 0.6
    """...and share of the links: where the stages of one pipeline reduce their embeddings, all do."""

    message_pause: float = 0.25
    """Silence within a message, relative to the silence of a direction that half of its silent time is longer than, up
    to which its rows are one message."""

    collective_pause: float = 0.5
    """The same within a collective: several rings that share a cable rest for longer in it than a message does."""

    at_one_time: float = 0.5
    """Share of the time of the shorter of two messages in which both are under way, and by less than which they end
    apart, from which on they are sent at one time: the longer one may begin before, into buffers."""

    before_collective: float = 0.1
    """Share of the steps in which the messages before a collective are at one time too, up to which it is a collective
    and neither one of many batches nor a piece of one: 0 to 0.01 in random jobs."""

    rest_at_collective: float = 0.5
    """Rest of a link before or after a collective of every step, relative to the longest of the step: the optimizer and
    the first pass follow it, the last pass comes before it."""

    arcs_tried: int = 4
    """Arcs of other links that a link without its own is tried with."""

    tick_neighbours: int = 9
    """Ticks over which the place of a tick in the bytes is evened out."""

    byte_places: int = 1024
    """Places that are distinguished in the bytes of a step."""
