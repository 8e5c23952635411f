"""Which GPUs of a server are tensor-parallel peers: every constant of that.

Each field says its unit, where the value comes from, and what changed when it was tried otherwise
(`benchmarks/stage_rules.py`). Where a field of 6e1c8c6 says nothing of that, half and twice its value changed none of
22 small jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

Level = tuple[tuple[float, float, float], ...]

__all__ = ["PeerRules"]


@dataclass(frozen=True, slots=True)
class PeerRules:
    """Signs of peers and what is known before they are seen."""

    # Signs
    least_steps: int = 5
    """Steps before timing can tell."""

    compared_servers: int = 4
    """Servers that the members of a pair are compared with."""

    finest_ns: float = 2_000.0
    """Differences below two microseconds are those of time stamps."""

    stamp_error: float = 0.28
    """Units of the time stamps: median deviation of the difference of two times that were each rounded to the unit (a
    normal spread of the root of a sixth, times 0.67)."""

    least_messages: int = 5
    """Messages of a GPU to the next stage before they are compared one by one with another's."""

    compared_messages: int = 512
    """Messages of a GPU that are compared, spread over the window: a mean needs no more."""

    compared_share: float = 0.8
    """Share of these that count, the nearest: one in ten and more may have lost its counterpart. A mean and not a
    median, because time stamps of a millisecond make most differences zero."""

    usual_servers: int = 6
    """Servers of a stage that show how far apart GPUs send which are no peers."""

    # Hypotheses
    cells: int = 24
    """Servers (and stages) that are looked at: all are cut alike."""

    ends_of_replicas: Level = ((0.9, 0.0, 0.15), (0.1, 1.0, 1.0))
    """Where the level of a sign lies: (share, centre, width) of Student distributions with three degrees of freedom.
    Members of one group end together; where every rail of the group runs a ring of its own, some rails end later."""

    share_together: float = 0.05
    """Share of the messages of two GPUs of a server that begin in the same moment, from which on they begin together:
    0.1 to 0.98 of 15 sharded random jobs without delays of their hosts, 0.01 to 0.1 and more of another simulator's,
    below 0.01 in seven random jobs whose hosts are late by 0.1 to 3 ms."""

    rails_together: float = 0.8
    """How often rails of one collective do: always in two simulators; held to be less sure of real hosts."""

    peers_together: float = 0.5
    """How often rails of tensor groups do: half of the random jobs have processes with delays of their own."""

    ends_of_rails: Level = ((0.6, 0.0, 0.15), (0.4, 0.7, 0.7))
    """The same as `ends_of_replicas` for rails that are seen to begin together: queues of their own keep the ends of
    one collective 0 to 0.8 farther apart in most sharded random jobs, and 2.4 in one."""

    ends_of_others: Level = ((0.7, 2.5, 1.5), (0.3, 0.3, 0.3))
    """Different groups end 2 to 7 units (factors of e) farther apart than members of one; where nothing disturbs them,
    hardly farther."""

    groups_apart_ns: tuple[float, float] = (1e4, 3e7)
    """By how much different groups end apart, all orders of magnitude between these equally likely: 20 us to 0.7 ms in
    another simulator, 3 to 7 ms in ours, 55 ms in real captures."""

    most_hidden: float = 0.9
    """Most that this is held to be hidden by how far apart members of one group end: some groups are farther apart."""

    sends_of_peers: Level = ((0.85, -4.0, 2.5), (0.15, 0.0, 0.3))
    """Peers hand on their activations at the same moments; where each has a process of its own, or contexts keep step
    over servers, no closer than replicas."""

    sends_of_others: Level = ((0.95, 0.0, 0.12), (0.05, 0.0, 0.6))
    """Replicas are as far apart as on different servers: within 0.28 in 44 of 45 random jobs. Tensor groups that fill
    their servers are below -0.5 in 146 of 160, and most others keep step with contexts or experts elsewhere."""

    alone_sends_of_peers: Level = ((0.9, -5.0, 3.0), (0.1, 0.0, 0.7))
    """Where there is no other server to compare with, moments of a step (two logarithms, added) are compared with what
    each GPU varies by itself."""

    alone_sends_of_others: Level = ((1.0, -0.3, 0.8),)
    """Where there is no other server to compare with: what all replicas have in common makes them closer than
    chance."""

    ends_spread: float = 0.7
    """Units (factors of e): spread of the ends of members' gradients among the pairs of one class."""

    sends_spread: float = 0.3
    """Units (factors of e): spread of how far apart they hand on messages; 0.05 to 0.4 in random jobs of replicas."""

    alone_sends_spread: float = 1.0
    """Units (factors of e): spread of the moments at which they hand on activations, without another server."""

    farthest: float = 12.0
    """Deviations beyond this say no more."""

    as_seen: float = 1.0
    """Log odds, before anything is measured, that groups are the rails that are seen. Nothing is known before of
    sharded training, whose shards may go over all GPUs: with as much for that, 4 of 955 random jobs with tensor groups
    were said to have none at 0.83 to 0.89, though no record tells. Tried 0.5 to 2 on 22 small jobs: 2 changes 1."""

    partly_seen: float = 5.0
    """What is added to them where records join some GPUs of a server to a group: GPUs that exchange gradients over the
    network have no NVLink, and records would join all of a group. One in 150: bridges between some of the GPUs."""

    partly_peers: float = -1.0
    """Log odds that a server holds several tensor-parallel groups: most hold one or none."""
