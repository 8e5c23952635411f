"""Which logs, which clock, which address: every constant of that."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LogClockRules", "MatchRules", "SeatRules"]


@dataclass(frozen=True, slots=True)
class LogClockRules:
    """Iterations of a log laid over the steps of the flows."""

    least_steps: int = 6
    """Steps that both sides must see: fewer fit too many shifts."""

    most_steps: int = 1_024
    """Steps. Of longer runs the last that both may have seen are compared: a few hundred decide."""

    around_ns: int = 600 * 1_000_000_000
    """Nanoseconds. Iterations so long before and after the steps of the flows are compared: clocks may be off by
    minutes."""

    usual_offset_ns: int = 1_000_000_000
    """Nanoseconds. How far clocks of a cluster usually are apart, apart from zones, with or without NTP."""

    near_ns: int = 30 * 1_000_000_000
    """Nanoseconds. Clocks further apart than this, beyond whole zones, are believed only where the steps vary alike."""

    offset_price: float = 2.0
    """Nats for each factor e by which an offset is larger than usual. At 1 one of 86 real runs changes."""

    step_worth: float = 0.05
    """Nats for each step compared: a shift must not win because it compares few."""

    most_stride: int = 64
    """Steps of the flows per iteration that are looked for: accumulation over 64 is much."""

    same_pace: float = 0.1
    """Share of a step: where less is left of the durations, both are of one pace."""

    same_run: float = 0.5
    """Of how much steps vary: where less is left of the durations, the two vary together, as only one run does."""

    exact: float = 0.002
    """Share of a step that durations may differ by however evenly the steps run: their ends are measured as exactly."""

    least_rest: float = 1e-4
    """Share of a step: durations that differ by less are equal."""

    error_ns: int = 1_000_000_000
    """Nanoseconds. A log's time is never taken to be surer than this,"""

    unfitted_error_ns: int = 5 * 1_000_000_000
    """nor surer than this where the clocks could not be compared,"""

    most_error_ns: int = 60 * 1_000_000_000
    """and no fit makes it less sure than this."""


@dataclass(frozen=True, slots=True)
class MatchRules:
    """Which logs belong to which job: nats for and against, each as worth as such an agreement is among the jobs of
    one cluster, not of the world."""

    address: float = 5.0
    """Nats for each address of the job that a rank prints as its own, and against, for one of another job;"""

    address_cap: float = 15.0
    """at most so many of all of them."""

    host: float = 2.0
    """Nats for each host of the job, and for each of its addresses that a rank names as a peer;"""

    host_cap: float = 6.0
    """at most so many of all of them."""

    same_size: float = 1.5
    """Nats for as many ranks as the job has members; half of it where one is a multiple of the other."""

    other_size: float = -2.0
    """Nats where neither."""

    same_run: float = 6.0
    """Nats for steps that vary alike."""

    same_pace: float = 2.0
    """Nats for steps of the same length."""

    other_pace: float = -2.0
    """Nats where no shift gives the same length: the logs may count something else than steps."""

    same_time: float = 2.0
    """Nats where the log's iterations lie in the time of the flows,"""

    other_time: float = -5.0
    """and where they do not, whatever time zone its clock is in."""

    decided: float = 8.0
    """Nats that the clocks cannot turn: the same lengths of steps at the same time are worth as much. A bound of work:
    jobs further behind are not compared by their clocks."""

    given_together: float = 1.5
    """Nats beforehand: logs that somebody gives with flows mostly belong to a job of them."""

    least: float = 0.5
    """Nats below which the logs belong to no job."""

    most_zone_ns: int = 14 * 3600 * 1_000_000_000
    """Nanoseconds. The largest difference between local time and UTC."""


@dataclass(frozen=True, slots=True)
class SeatRules:
    """Which address a rank has. Confidences unless something else is said."""

    own_address: float = 0.97
    """The rank prints the address as its own; it can be that of another interface. At half of it the flows are believed
    against it in one of 86 real runs, wrongly."""

    host_alone: float = 0.95
    """Its host has one address in the flows."""

    host_and_slot: float = 0.9
    """Its host and its number there: the number can be that of another GPU."""

    host_and_order: float = 0.75
    """Its host, whose ranks are taken in order."""

    left_over: float = 0.8
    """The only rank and the only address that were left."""

    order_cap: float = 0.85
    """An order of ranks is never surer than this: timing tells groups of addresses apart, seldom single ones. At half
    of it one of 86 real runs has another place."""

    least_order: float = 0.25
    """An order less sure than this is not used."""

    block_order: float = 0.55
    """Weight of hosts filled one after the other: Slurm's and mpirun's default;"""

    listed_order: float = 0.8
    """where somebody gave the order of the hosts;"""

    cyclic_order: float = 0.15
    """of hosts in turn;"""

    text_order: float = 0.25
    """of hosts sorted as text (torchrun's rendezvous);"""

    address_order: float = 0.25
    """of addresses by their numbers, where no host is known;"""

    address_end_order: float = 0.15
    """of addresses by their last number first;"""

    layout_order: float = 0.6
    """of all orders together that stages and rings of the layout name: frameworks number ranks along them;"""

    most_orders: int = 128
    """Orders of the layout that are compared: of more, each would be less likely than `least_order`, whatever timing
    says. A ring names two for each of its members, and twice as many in pipelines."""

    no_order: float = 0.3
    """of the ranks being in none of these."""

    irregular: float = 0.05
    """How often stages, groups or rings are irregular in the true order: a factor on the weight of an order in which
    one of them is, and at most its inverse on that of one in which it is not."""

    numbered_names: float = 0.5
    """Factor on an order's weight where numbers in names of pods or hosts stand for ranks."""

    order_miss: float = 0.02
    """Factor on an order's weight for every rank that is known to be elsewhere. One that is known to be where the order
    has it counts as many times as there are members: that often it would not be there by chance."""

    most_known: int = 5
    """Ranks that count for or against an order in this way."""

    support_worth: float = 0.5
    """Nats for each standard deviation by which steps of ranks and addresses agree better than by chance: less than a
    normal law gives, for members' ends are not independent."""

    most_support: float = 6.0
    """Standard deviations that count."""

    least_steps: int = 12
    """Steps compared for that: the median difference of fewer is luck."""

    most_steps: int = 200
    """Steps and"""

    most_ranks: int = 512
    """ranks compared: 512 x 512 x 200 differences take some seconds."""
