"""Signs of congestion between pairs of addresses, where packets were seen: a struct of arrays."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.arrays import Int64

__all__ = ["CongestionTable"]


@dataclass(frozen=True, slots=True)
class CongestionTable:
    """One row per directed pair with any sign, as (src, dst) names and counts of packets.

    `retransmitted` were sent again, `missing` were never seen by the capture. `notifications` are CNPs that src sent to
    dst, `negative` are NAKs: both complain about traffic in the other direction, from dst to src.
    """

    src: tuple[str, ...]
    dst: tuple[str, ...]
    retransmitted: Int64
    missing: Int64
    notifications: Int64
    negative: Int64
