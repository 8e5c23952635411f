"""Every constant that recognition decides by, in one place.

Each field says its unit, where the value comes from and the range that was tried without a change in which jobs are
found on all sources (`range`). The constants of the search for a rhythm are those of its method and stand
in `stats/byte_steps.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmprism.model.clock import OUTER_STEPS

__all__ = ["RULES", "RecognitionRules", "WitnessRules"]


@dataclass(frozen=True, slots=True)
class WitnessRules:
    """How the links of a cluster show its step clock (`cluster_clock.py`)."""

    least_messages: int = 6
    """Messages in a step from which their number says anything: two micro-batches over a link and back, and
    something."""

    links_tried: int = 4
    """Links tried on each side of the ranking (busiest, least busy)."""

    sampled_sizes: int = 16
    """Sizes at which pairs are sampled: neighbours differ by less than a factor of two for all but the widest
    mixtures."""

    mesh_links: float = 2.5
    """Links per member from which all pairs are tried together first: single links of an all-to-all carry something
    else every time, all of them the same. Rings and pipelines together have at most two."""

    most_mesh_links: int = 100_000
    """Links up to which that is done: sorting their transfers takes seconds beyond."""

    whole_cluster_pairs: int = 64
    """Up to this many pairs the whole cluster is a witness too; in larger ones somebody is always sending."""

    ring_one_way: float = 0.9
    """Share of a link's bytes that flow one way on rings."""

    most_variation: float = 0.25
    """Of the bytes of a step that the pairs of a witness carry one by one: 0.09 is reached by sharded training that
    fetches ahead; half a step instead of a whole one gives 0.5 and more."""

    most_ticks: int = 4
    """Ticks per step that are joined at most: forward and backward pass make two."""

    least_joined: int = 3
    """Joined steps before their bytes can be compared."""

    joined_variation: float = 0.15
    """Variation at most when ticks are joined: whole steps of real jobs stay below 0.1, all-to-all traffic included."""

    outer_steps: float = OUTER_STEPS
    """Share of the steps on either side that may carry anything: less than a quarter, so that one tick in four is
    seen."""

    clear_dominance: float = 0.95
    """A witness this dominant ends the search, if it leaves little unexplained."""

    cut_steps: float = 2.2
    """Steps' worth of bytes that may lie outside the chain: the two steps that the window cuts, set-up traffic."""

    same_rhythm: float = 0.05
    """Relative difference of two periods at most where they are one rhythm: boundaries of one step at different
    places."""

    most_candidates: int = 4
    """Rhythms kept for a cluster: something slower, the step, something faster, and one that nobody thought of."""


@dataclass(frozen=True, slots=True)
class RecognitionRules:
    """Passed to every function of the package that decides anything."""

    witnesses: WitnessRules = WitnessRules()

    # Which pairs carry messages, which links matter
    message_bytes: int = 32_768
    """Bytes. A pair whose largest transfer is smaller carries control messages: bootstrap and store messages are at
    most 16 KB in real captures, the smallest activation or bucket worth a network is several times larger."""

    small_messages_share: float = 0.003
    """Of the busiest pair of the busier end (of messages of that size): a pair with smaller messages that moves as much
    is no chatter. Replicas of small sharded layers and routed tokens are 10 to 30 KB at a time, and move 0.004
    and more; control messages move 0.0007 at most in real captures."""

    small_message_bytes: int = 8_192
    """Bytes. Smaller messages are chatter however many: probes of neighbours reach 3.7 KB, and half of what two storage
    readers move otherwise."""

    chatter_share: float = 1e-4
    """Of the busiest pair of the less busy end: below it a pair carries something incidental to both of its ends."""

    weak_link: float = 0.004
    """Of the busiest link of the busier end: a link that carries less does not matter to that end, and what connects by
    such links only must show that it steps together. Activations are 0.011-1 of the busiest link over all sources,
    storage reads at most 0.001. Tried 0.002-0.01."""

    # Who stands outside
    balance_levels: tuple[float, ...] = (0.005, 0.05, 0.25)
    """Smallest ratio of the lesser to the greater of bytes in and out of a training server, the surest outsiders first:
    a NIC that reads much from storage is then judged without that storage."""

    main_partner: float = 0.5
    """Of a peer's busiest link: a node that carries less for every peer is nobody's partner in training. Members reach
    0.94-1 over all sources, servers of files 0.001-0.33."""

    star_peers: int = 3
    """Peers from which such a node is taken for a server though its place is not known to be one."""

    fan_peers: int = 4
    """One-way links in one direction from which a node may be a server of many."""

    fan_share: float = 0.2
    """Of a node's bytes: what its one-way links beyond the largest in each direction carry, where it is one. A ring has
    one of each; a member that reads from many storage servers has them in addition to its training."""

    one_way: float = 0.05
    """Share of a link's bytes that flow back at most where it is one-way; acknowledgements and credits are below it."""

    hub_peers: int = 6
    """Peers from which a node may be a hub: rings, trees and pipelines give a training NIC two to five."""

    hub_factor: float = 2.0
    """And this many times the peers that its peers usually have: in an all-to-all everybody has as many."""

    # Servers that are used again
    job_gap_ns: int = 2_000_000_000
    """ns of silence of both ends between two jobs on the same servers: a scheduler needs longer to start the next."""

    recent_share: float = 0.5
    """Of the time that an address was seen before a silence (or after it): a pair that fell silent earlier than that
    was not given up with it, as those are not over which a job hands out its parameters once."""

    # Do two clusters step together, by their clocks
    common_time: float = 0.5
    """Share of the longer clock's time that both must have seen: two runs one after the other are two jobs."""

    one_step_each: float = 0.95
    """Smallest ratio of the numbers of steps that two clocks count in the time that both saw."""

    tether_steps: int = 12
    """Steps: a shorter random walk stays close by chance too often."""

    least_jitter: float = 0.002
    """Share of a step: steps that vary less are as exact as their boundaries are measured, and leave no walk to see."""

    block_steps: int = 4
    """Steps of a block: enough to distinguish what adds up from what does not, and a dozen steps still have three."""

    own_jitter_floor: float = 1e-6
    """Of the variance of its steps: no clock is more exact than a thousandth of its own jitter."""

    clip_spreads: float = 4.0
    """Steps further from the median than this many robust spreads count as that far: set-up, checkpoints, stalls."""

    hole_steps: float = 3.0
    """A step this many times the median holds a pause, or several steps that were not seen; it is not compared."""

    # Do two clusters step together, by their messages
    slots_per_step: tuple[int, ...] = (400, 200, 50)
    """Slots of a step in which messages are counted: delays that chance could prefer. The coarsest is for rails that
    are milliseconds apart."""

    shortest_slot_ns: int = 1_000_000
    """ns. Stamps of coarse collectors and the clocks of two switches differ by up to this."""

    most_slots: int = 1 << 17
    """Slots looked at: two minutes of the finest, 10 ms of work."""

    delays_in_span: int = 8
    """The longest delay is at most this part of the time that both were seen: a job may have made two steps only."""

    least_slots: int = 160
    """Slots of common time below which correlations are chance."""

    rank_price: float = 2.0
    """Bits that being the best of all delays must be worth before it counts: of ten delays one is the best."""

    correlation_noise: float = 0.01
    """Spread of a correlation at least, however evenly the others lie."""

    same_delay: float = 0.01
    """Share of a delay within which two delays are one: steps vary by about as much."""

    quiet_slot: float = 0.1
    """Share of the mean that is added to what is usual in a slot, so that one message in a quiet slot is no event."""

    repetition_slots: int = 1 << 15
    """Slots at most in which a series is compared with itself."""

    repetition_slot_ns: int = 5_000_000
    """ns. Shortest of these slots: wide enough that jitter does not hide the period of a step of a second."""

    clear_repetition: float = 0.2
    """Correlation of a series with itself at its period from which the period is clear. None of 500 pairs of clusters
    of one job contradict each other at 0.2 and 0.3, a third of 380 pairs of two jobs do."""

    no_repetition: float = 0.3
    """Of the correlation at its own period: what a series shows at most at a period that is not its own."""

    # Does a cluster without steps work as a whole
    chance_distance: float = 0.16
    """Distance of two links' bytes, in units of what independent messages would make them differ by, that is as likely
    for links of one program as for requests: the geometric middle between 0.67 (the median of chance) and 0.04 (99 %
    of the clusters of training over all sources are nearer)."""

    message_bits: float = 0.25
    """What common moments count at most for each message: of two dozen some are together by chance at the best of
    hundreds of delays (10 to 16 bits were seen of 15 to 25 messages of inference servers; training has hundreds)."""

    likeness_bits: float = 4.0
    """What equal volumes count at most: two unlike links may have equal volumes by chance in one case of sixteen."""

    chance_variety: float = 0.2
    """Distance of a message's size to the nearest other one, relative to an even share of the range, that is as likely
    in training as among requests: these have 0.25 to 0.75 in 25 random windows, training below 0.1 in 131 of 155
    clusters over all sources; those above 0.1 are sure by their moments (13 bits and more)."""

    variety_bits: float = 4.0
    """What sizes that never repeat count at most, at twice that distance: 7 of 155 clusters of training have them,
    because a collector cuts and samples as it likes."""

    least_sizes: int = 6
    """Messages before that is asked."""

    outer_sizes: float = 0.1
    """Share of the messages at either end of the range that is left out of it."""

    one_size: float = 0.01
    """Logarithm of the range of sizes below which they are one size."""

    trains_bits: float = 0.0
    """Beforehand, for heavy traffic between equals without steps: it is as often something else as it is training."""

    unlisted_bits: float = -6.0
    """The same where the topology lists no member, though it lists all of another cluster that makes steps: it names
    the servers that have GPUs, and once in 64 times it lacks all servers of a job. Inference servers answer with up to
    6 bits in 1,250 random windows, in six of them with more than 0."""

    # What is known before anything is measured, in bits for one job
    shared_servers_bits: float = -2.0
    """They share servers: rails of one job do, and so do jobs that were given half of the GPUs each."""

    bulk_known_bits: float = 3.0
    """The two clusters exchange messages that do not matter to them: activations of a job with heavy gradients."""

    chatter_known_bits: float = 2.0
    """They exchange control messages, where few clusters do: ranks of one job know each other. Where a monitoring mesh
    connects everybody it is worth as little as its share of all pairs says."""

    same_shape_bits: float = 1.0
    """As many members and the same bytes, as rails have; many jobs of one configuration have it too."""

    same_shape: float = 0.02
    """Relative difference of bytes between two rails of one job."""

    apart_bits: float = -2.0
    """They share no server though the servers of both are known: only weak links can hold them together."""

    unplaced_bits: float = -3.0
    """The servers of one of them are not known, and they exchange nothing: two jobs of one period behind one switch
    answer each other faintly."""

    common_period: float = 0.03
    """Relative difference of periods up to which clusters on unknown servers are compared at all."""

    few_steps: int = 5
    """Steps of a clock below which a rhythm may be chance."""

    chance_steps: int = 16
    """Steps below which it is checked whether a cluster works as a whole (`coherence`), though a clock shows: requests
    that come at random made 5 and 8 equal steps in 300 random windows. Of 1,100 training clusters of all sources those
    with any steps answer with 3 bits or more for training, these two with -6 and -7; from 9 up nothing changes."""

    # From bits to jobs
    sure_bits: float = 12.0
    """Clocks that say this much need no messages to confirm it: one error in four thousand."""

    most_bits: float = 40.0
    """No measurement is trusted further."""

    one_answer_bits: float = 12.0
    """What one comparison counts at most where two sets of clusters are joined by the sum of several."""

    many_questions: int = 2_000
    """Comparisons of messages up to which all are made; beyond it each cluster is compared with a few others."""

    few_partners: int = 2
    """Others that each cluster is compared with then: rails of one job are all alike."""

    same_period: float = 0.1
    """Relative difference of the median steps that two rails of one job show: they may have missed some."""

    without_steps: float = 0.3
    """Confidence in a job whose steps were not seen: it is only a guess."""

    unclear: float = 0.2
    """Doubt about the members of a job whose steps do not show clearly: a lossy collector hides steps, not members. All
    of the 86 jobs whose clocks were doubtful in merged captures had the right members."""

    # Members that send one small message a step
    edge_steps: float = 2.0
    """Steps that the window's edges may cut off, or a clock miss there."""

    pace_tolerance: float = 0.05
    """Relative difference between messages and steps beyond that: a clock misses some steps."""

    most_quiet_pairs: int = 20_000
    """Pairs of silent addresses up to which they are looked at one by one: a mesh of pings has more."""


RULES: Final = RecognitionRules()
"""The rules as they are shipped."""
