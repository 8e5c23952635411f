"""Slow NICs, links, switches and groups: every constant by which they are found.

Each field says its unit and where the value comes from. `benchmarks/robust.py --sensitivity --match diagnose` moves
each by a fifth either way and prints what changes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PlaceRules"]


@dataclass(frozen=True, slots=True)
class PlaceRules:
    """Sick cells, and the places that explain them."""

    # Paths
    path_share: float = 0.1
    """Share of a pair's bytes from which a path is one of its own."""

    # Sick cells
    drop: float = 0.5
    """Natural logarithm of the drop of the local rate that makes a cell sick: below 61 % of the expected rate."""

    spreads: float = 4.0
    """The drop must also exceed this many robust spreads of the rates of the same kind."""

    peers: int = 3
    """Pairs of one sort from which one that was always slower than the others shows,"""

    peers_spread: float = 0.3
    """if the logarithms of their rates spread by no more than this."""

    sick_steps: int = 2
    """Sick steps in a row before a place is accused."""

    in_a_row: int = 3
    """Sick cells in a row of a pair whose messages are too small to show that nothing is slow."""

    single_cells: float = 0.05
    """Share of the cells of such pairs that may be sick alone: one in twenty makes three in a row one in eight
    thousand."""

    sick_cells: int = 4
    """Sick cells of a place before it is accused: two pairs for two steps, or one pair in a step four times as long as
    usual. What chance may do is counted in the odds (`sure`); at 6 one link of random seeds 3001 to 3100 that is slow
    for three steps of twice the length is missed, everything else is the same."""

    most_weight: float = 8.0
    """Cells that one cell of a long step counts for at most."""

    timed_bytes: int = 500_000
    """Smaller transfers do not tell how a link shares its rate: latency counts more."""

    likely_share: float = 0.3
    """Share of the cells of a link, or of one of its directions, that are sick from which it may be the reason, in the
    steps in which any of them is."""

    most_links: int = 16
    """Links of one job looked at: where more are slow, it is a switch."""

    part_slowdown: float = 1.5
    """Usual steps that a step must take for its slowest part to stand for it. At 2 one uplink of the captures that were
    opened is missed, and nothing else changes."""

    part_lowest: float = 0.1
    """Share of the parts of usual steps in which a pair may be as slow as it is by chance."""

    part_most: float = 0.5
    """Share of the pairs that may be slow in such a part: what slows more of them shows in whole steps."""

    # Cells against their pair's own past
    past_jitter: float = 0.05
    """Natural logarithm by which the usual rates of a pair spread at least: few usual steps may be alike by chance,
    and transfers of random scenarios run at 87 to 97 % of the line."""

    past_least: float = 0.35
    """Natural logarithm by which a slow place makes rates fall at least: to 70 %,"""

    past_most: float = 8.0
    """and at most: throttled cards of the captures move 128 KB at down to a six-hundredth of their rate (6.5). At 3,
    more than any random scenario needs, six more captures of the dataset were lost (in a draft without larger
    quanta)."""

    past_sick: float = 1.0
    """Log odds from which a cell is sick: a fall to a half has 3.5 where a pair varies by 0.05, and 2.0 by 0.1; one to
    a quarter has 1.6 by 0.3. Chosen, other values were not tried;"""

    past_well: float = 0.3
    """and below which, with the other sign, it is healthy: what lies between cannot tell. Chosen as well."""

    scale_share: float = 0.125
    """Share of a pair's bytes per step that the largest quantum has: of a step's bytes in one message with one pause
    most lie in quanta without it. Other shares were not tried."""

    scale_even: float = 0.75
    """Share of the usual rate of half of a quantum that the quantum itself reaches where it holds the same pauses: of
    short bursts eight, with seven pauses, reach 0.86 of the rate of four, and four 0.67 of that of two."""

    scale_decides: float = 6.0
    """Sum of the log odds of the sick cells of a step from which these speak for it: two clear cells, since one has 4.3
    at most."""

    scale_group_fit: float = 0.9
    """Fit (`place_signs.PlaceSigns`) from which a group is named by larger quanta: the four that are right on
    198 opened random slow places have 1.0, rings of 310 captures that wait for a slow place 0.62 to 0.92."""

    # From places to findings
    shared_spread: float = 0.3
    """Spread of the rates (logarithm of the ninth decile over the first) from which a link serves now one, now another:
    a healthy or throttled link keeps it below 0.15."""

    shared_growth: float = 2.0
    """And this many times the spread of the same transfers when they are not slow."""

    other_way: float = 0.1
    """Share of sick cells below which the other direction of a link is healthy."""

    line_share: float = 0.8
    """Share of one pair's usual rate that all users of a shared link reach together at least."""

    healthy_inside: int = 3
    """Healthy cells inside a switch, that do not pass its only cable to the others, from which the cable is named and
    not the switch: three speak against the switch by 3.5 in the logarithm of the odds. Results are the same from 1 to
    10."""

    bouts_apart: float = 1.0
    """Times as long as two bouts together that must lie between them for them to be two findings and not one that comes
    and goes."""

    loss: float = 0.05
    """Share of the speed that the jobs concerned must lose: what slows nobody is not worth a night call."""

    slow_ns: int = 1_000_000_000
    """How long a place must be slow: a shorter dip is gone before anybody looks."""

    lead: float = 5.0
    """Logarithm of the odds by which a place leads its rival that leaves a fifth of the doubt."""

    broken_steps: int = 8
    """Unless it is clear that the place is broken: for so many steps,"""

    broken_long_steps: int = 4
    """or for half as many of a job with long steps,"""

    broken_ns: int = 15_000_000_000
    """if these take 15 s together,"""

    broken_share: float = 0.9
    """nearly all transfers through it"""

    broken_drop: float = 0.4
    """reach no more than this share of the usual rate."""

    most_places: int = 64
    """Places looked at, the most explaining first."""

    # Pieces that are held back behind the exporter
    queued_slowdown: float = 2.0
    """Usual steps that a step must take for its pauses to tell that a hop holds pieces back, (results on 200 opened and
    138 closed captures are the same from 1.7 to 3.0; at 1.5 one uplink more is found there, and one of 969 windows of
    healthy captures has a slow switch that is none)"""

    queued_steps: float = 4.0
    """and usual steps that fit into all those in which a hop stands out (the same from 3 to 5);"""

    queued_stretches: int = 4
    """stretches of such steps at most: where more come and go, the job's steps vary by themselves. Results are the same
    from 2 to 8."""

    queued_pauses: float = 8.0
    """Pauses that make up what it takes longer, at least: a slow hop holds back every piece, a GPU that computes
    pauses once or a few times in a step. Results are the same from 4 to 12."""

    queued_most: float = 0.3
    """Share of what a step takes longer that the worst hop must hold back (the same from 0.25 to 0.35; at 0.2 a slow
    GPU is taken for a card),"""

    queued_share: float = 0.15
    """share from which another one is as sick (the same from 0.1 to 0.2),"""

    queued_alike: float = 0.4
    """and share of the worst hop's (the same from 0.3 to 0.5)."""

    queued_nic_cost: float = 5.0
    """Log odds, in addition, against a card that also sends slowly where pieces wait behind the record: what it sends
    would reach the exporter slowly. Results are the same from 3 to 8."""

    # Hops that lag behind
    backlog_slowdown: float = 1.1
    """Usual steps that a step must take for changed rates to tell something (as `slowdown` of members),"""

    backlog_change: float = 0.5
    """natural logarithm by which a rate must have changed, either way (as `drop`)."""

    # What explains the cells
    sick_while: float = 0.7
    """Share of the cells through a sick place that are sick: a throttled line passes what it saved while idle."""

    small_share: float = 0.125
    """Share of the largest slow messages below which messages are small,"""

    small_sick_while: float = 0.5
    """and share of the cells of pairs with such messages that are sick then: their health speaks less for a place. At
    0.35 what is sick one after the other at two spines runs together; at 0.7 one NIC that receives slowly is not
    named."""

    small_witness: float = 2.0
    """What the small messages of a pair that are never slow speak against a place in all, as log odds: one throttle in
    seven saves less than an eighth of the messages that it slows down."""

    queued_sick_while: float = 0.25
    """The same for a card that only receives slowly: what it has not taken yet waits in the switch, behind the record,
    and small messages fit there. Results are the same from 0.2 to 0.35."""

    queued_witness: float = 0.5
    """Share of what small messages that are never slow speak against a place, by which they do so less against a card
    that only receives."""

    group_pairs: float = 0.5
    """Share of the pairs of a slow group that must be sick, and two at least: one sick hop is that of its two ends."""

    sick_by_chance: float = 0.02
    """Share of cells that are sick by chance, at least; jobs with more have a higher one."""

    sure: float = 3.0
    """Logarithm of the odds by which a place must beat chance, after all places and steps that were tried."""

    price: float = 4.0
    """Logarithm of the odds against a place's falling sick, or well, between two steps."""

    waits: float = 0.8
    """Share of the rate of a sick hop below which another hop of its ring is not merely paced by it."""

    same_score: float = 1e-6
    """Difference of scores below which two places explain the same."""

    # What speaks against each sort of place before anything is seen
    nic_cost: float = 0.0
    """Log odds. Cards and cables fail more often than switches, and a group has nothing in common but its name."""

    link_cost: float = 1.0
    """Log odds against a cable."""

    switch_cost: float = 2.0
    """Log odds against a switch."""

    group_cost: float = 4.0
    """Log odds against a group."""

    one_way_cost: float = 1.0
    """Log odds, in addition, against one direction of a cable alone."""

    sends_cost: float = 1.0
    """Log odds, in addition, against a card that only sends slowly. One that receives slowly looks the same where there
    is one peer only;"""

    receives_cost: float = 1.2
    """log odds, in addition, against that: senders are throttled more often."""

    resent_sends_cost: float = 5.0
    """The same two where bytes are sent again: exporters count at the sender or at its switch, and what is lost before
    they do is not counted twice,"""

    resent_receives_cost: float = 0.0
    """so the card that receives is the likelier one: a lead of 5 in the logarithm of the odds."""
