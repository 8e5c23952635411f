"""Results of reading packets, apart from the kernels that do it.

Most runs read no packets: this module, `magic` and `layout` are all that they import of this package.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PacketStats"]


@dataclass(frozen=True, slots=True)
class PacketStats:
    """What became of every packet, and the evidence of trouble on the way.

    Of the RDMA `messages`, those whose packets do not decide their size are `estimated_messages`, and those that the
    start or the end of the capture cut are `cut_messages`; the size of all others is exact.
    """

    packets: int
    decoded: int
    not_ip: int
    truncated: int
    fragments: int
    other: int
    malformed: int
    retransmitted: int
    retransmitted_bytes: int
    missing: int
    acknowledgements: int
    congestion_notifications: int
    negative_acknowledgements: int
    messages: int
    estimated_messages: int
    cut_messages: int
    first_ns: int
    last_ns: int
    cut_off: bool
    bytes_read: int
