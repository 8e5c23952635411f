"""Every constant that recognition decides by, in one place.

Each field says its unit, where the value comes from and the range that was tried without a change in which jobs are
found on all sources (`range`). The step clock's own constants are those of its method and stand in
`stats/byte_steps.py` and `recognize/clock.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["RULES", "RecognitionRules"]


@dataclass(frozen=True, slots=True)
class RecognitionRules:
    """Passed to every function of the package that decides anything."""

    # Which pairs carry messages, which links matter
    message_bytes: int = 32_768
    """Bytes. A pair whose largest transfer is smaller carries control messages: bootstrap and store messages are at
    most 16 KB in real captures, the smallest activation or bucket worth a network is several times larger."""

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

    fan_peers: int = 4
    """One-way links in one direction from which a node may be a server of many."""

    fan_share: float = 0.2
    """Of a node's bytes: what its one-way links beyond the largest in each direction carry, where it is one. A ring has
    one of each; a member that reads from many storage servers has them beside its training."""

    one_way: float = 0.05
    """Share of a link's bytes that flow back at most where it is one-way; acknowledgements and credits are below it."""

    hub_peers: int = 6
    """Peers from which a node may be a hub: rings, trees and pipelines give a training NIC two to five."""

    hub_factor: float = 2.0
    """And this many times the peers that its peers usually have: in an all-to-all everybody has as many."""


RULES: Final = RecognitionRules()
"""The rules as they are shipped."""
