"""How a packet capture begins."""

from __future__ import annotations

from typing import Final

__all__ = ["PCAPNG_MAGIC", "PCAP_MAGICS", "is_packets"]

PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
PCAP_MAGICS: Final = {
    b"\xd4\xc3\xb2\xa1": (False, False),
    b"\xa1\xb2\xc3\xd4": (True, False),
    b"\x4d\x3c\xb2\xa1": (False, True),
    b"\xa1\xb2\x3c\x4d": (True, True),
}
"""First bytes of a pcap file → (big endian, nanoseconds)."""


def is_packets(head: bytes) -> bool:
    """Whether a file that starts like this is a packet capture."""
    return head[:4] in PCAP_MAGICS or head.startswith(PCAPNG_MAGIC)
