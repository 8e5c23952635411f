"""Headers of one packet: link layer, tunnels, IP, down to the transport header.

Peels in a loop, outermost first: Ethernet with VLAN tags, Linux cooked, raw IP; GRE, ERSPAN I/II/III, VXLAN and IP in
IP lead back to the top of the loop. What counts is the innermost packet. Every read is checked against the end of the
captured bytes, every loop has a bound. Lengths come from the IP headers (from the wire length where those say 0, as
segmentation offload beyond 64 KB does), so a snapped or truncated mirror loses no bytes.
"""

from __future__ import annotations

from typing import Final

from llmprism.ingest.packets.compiled import inlined
from llmprism.ingest.packets.layout import (
    P_END,
    P_FAMILY,
    P_LENGTH,
    P_PAYLOAD,
    P_PROTOCOL,
    P_SOURCE_HIGH,
    P_SOURCE_LOW,
    P_TARGET_HIGH,
    P_TARGET_LOW,
    UDP,
    VXLAN_PORT,
    Number,
)
from llmprism.ingest.packets.loads import big16, big32, big64, byte
from llmprism.ingest.packets.work import Bytes, Int64

__all__ = [
    "FRAGMENT",
    "LINK_UNKNOWN",
    "MALFORMED",
    "NOT_IP",
    "OK",
    "SUPPORTED_LINKS",
    "TRUNCATED",
    "decode",
]


OK: Final = 0
NOT_IP: Final = 1
TRUNCATED: Final = 2
FRAGMENT: Final = 3
MALFORMED: Final = 4

LINK_UNKNOWN: Final = -1
LINK_NULL: Final = 0
LINK_ETHERNET: Final = 1
LINK_RAW_BSD: Final = 12
LINK_RAW_OPENBSD: Final = 14
LINK_RAW: Final = 101
LINK_LOOP: Final = 108
LINK_COOKED: Final = 113
LINK_IPV4: Final = 228
LINK_IPV6: Final = 229
LINK_COOKED2: Final = 276
SUPPORTED_LINKS: Final = (
    LINK_NULL, LINK_ETHERNET, LINK_RAW_BSD, LINK_RAW_OPENBSD, LINK_RAW, LINK_LOOP, LINK_COOKED, LINK_IPV4, LINK_IPV6,
    LINK_COOKED2,
)  # fmt: skip

ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_IPV6: Final = 0x86DD
ETHERTYPE_BRIDGING: Final = 0x6558
ETHERTYPE_ERSPAN: Final = 0x88BE
ETHERTYPE_ERSPAN3: Final = 0x22EB
GRE: Final = 47
IP_IN_IP: Final = 4
IPV6_IN_IP: Final = 41
MAX_VLAN_TAGS: Final = 4
MAX_TUNNELS: Final = 6
MAX_EXTENSIONS: Final = 8


@inlined
def decode(data: Bytes, begin: Number, captured: Number, wire: Number, link: Number, packet: Int64) -> Number:
    """Fills `packet` for the `captured` bytes at `begin`; returns OK or why not."""
    end = begin + captured
    wire_end = begin + max(wire, captured)
    at, kind = _link(data, begin, end, link)
    for _ in range(MAX_TUNNELS):
        if at < 0:
            return TRUNCATED if kind == TRUNCATED else NOT_IP
        if kind == ETHERTYPE_IPV4:
            status = _ipv4(data, at, end, wire_end, packet)
        elif kind == ETHERTYPE_IPV6:
            status = _ipv6(data, at, end, wire_end, packet)
        else:
            return NOT_IP
        if status != OK:
            return status
        packet[P_END] = end
        inner = packet[P_PAYLOAD]
        protocol = packet[P_PROTOCOL]
        if protocol == GRE:
            at, kind = _gre(data, inner, end)
        elif protocol == IP_IN_IP:
            at, kind = inner, ETHERTYPE_IPV4
        elif protocol == IPV6_IN_IP:
            at, kind = inner, ETHERTYPE_IPV6
        elif protocol == UDP and inner + 16 <= end and big16(data, inner + 2) == VXLAN_PORT:
            at, kind = _ethernet(data, inner + 16, end)
        else:
            return OK
    return MALFORMED


@inlined
def _link(data: Bytes, at: Number, end: Number, link: Number) -> tuple[Number, Number]:
    """(offset of what follows the link header, its ethertype); offset -1 where there is nothing to follow."""
    if link == LINK_ETHERNET:
        return _ethernet(data, at, end)
    if link == LINK_COOKED:
        return _tags(data, at + 14, end)
    if link == LINK_COOKED2:
        if at + 20 > end:
            return -1, TRUNCATED
        return at + 20, big16(data, at)
    if link == LINK_UNKNOWN:
        return -1, NOT_IP
    if link in (LINK_NULL, LINK_LOOP):
        at += 4
    return _by_version(data, at, end)


@inlined
def _by_version(data: Bytes, at: Number, end: Number) -> tuple[Number, Number]:
    """Bare IP: the first four bits tell the version."""
    if at >= end:
        return -1, TRUNCATED
    version = byte(data, at) >> 4
    if version == 4:
        return at, ETHERTYPE_IPV4
    if version == 6:
        return at, ETHERTYPE_IPV6
    return -1, NOT_IP


@inlined
def _ethernet(data: Bytes, at: Number, end: Number) -> tuple[Number, Number]:
    return _tags(data, at + 12, end)


@inlined
def _tags(data: Bytes, at: Number, end: Number) -> tuple[Number, Number]:
    """The ethertype at `at`, past any VLAN tags."""
    for _ in range(MAX_VLAN_TAGS + 1):
        if at + 2 > end:
            return -1, TRUNCATED
        kind = big16(data, at)
        if kind not in (0x8100, 0x88A8, 0x9100):
            return at + 2, kind
        at += 4
    return -1, NOT_IP


@inlined
def _ipv4(data: Bytes, at: Number, end: Number, wire_end: Number, packet: Int64) -> Number:
    if at + 20 > end:
        return TRUNCATED
    header = (byte(data, at) & 15) * 4
    if byte(data, at) >> 4 != 4 or header < 20:
        return MALFORMED
    total = big16(data, at + 2)
    if total == 0:
        total = wire_end - at
    if total < header:
        return MALFORMED
    if big16(data, at + 6) & 0x1FFF:
        return FRAGMENT
    packet[P_SOURCE_HIGH] = packet[P_TARGET_HIGH] = 0
    packet[P_SOURCE_LOW] = big32(data, at + 12)
    packet[P_TARGET_LOW] = big32(data, at + 16)
    packet[P_FAMILY] = 4
    packet[P_PROTOCOL] = byte(data, at + 9)
    packet[P_PAYLOAD] = at + header
    packet[P_LENGTH] = total - header
    return OK


@inlined
def _ipv6(data: Bytes, at: Number, end: Number, wire_end: Number, packet: Int64) -> Number:
    if at + 40 > end:
        return TRUNCATED
    if byte(data, at) >> 4 != 6:
        return MALFORMED
    length = big16(data, at + 4)
    if length == 0:
        length = wire_end - at - 40
    protocol = byte(data, at + 6)
    inner = at + 40
    for _ in range(MAX_EXTENSIONS):
        if protocol not in (0, 43, 44, 60):
            break
        if inner + 8 > end:
            return TRUNCATED
        if protocol == 44 and big16(data, inner + 2) & 0xFFF8:
            return FRAGMENT
        size = 8 if protocol == 44 else (byte(data, inner + 1) + 1) * 8
        protocol = byte(data, inner)
        inner += size
        length -= size
    if length < 0 or inner > end:
        return TRUNCATED
    packet[P_SOURCE_HIGH], packet[P_SOURCE_LOW] = big64(data, at + 8), big64(data, at + 16)
    packet[P_TARGET_HIGH], packet[P_TARGET_LOW] = big64(data, at + 24), big64(data, at + 32)
    packet[P_FAMILY] = 6
    packet[P_PROTOCOL] = protocol
    packet[P_PAYLOAD] = inner
    packet[P_LENGTH] = length
    return OK


@inlined
def _gre(data: Bytes, at: Number, end: Number) -> tuple[Number, Number]:
    """What a GRE header carries; for ERSPAN the mirrored Ethernet frame."""
    if at + 4 > end:
        return -1, TRUNCATED
    flags = byte(data, at)
    kind = big16(data, at + 2)
    inner = at + 4
    for bit in (0x80, 0x20, 0x10):
        if flags & bit:
            inner += 4
    if kind == ETHERTYPE_BRIDGING:
        return _ethernet(data, inner, end)
    if kind == ETHERTYPE_ERSPAN:
        # Type II has a sequence number and a header of its own; type I has neither.
        return _ethernet(data, inner + 8 if flags & 0x10 else inner, end)
    if kind == ETHERTYPE_ERSPAN3:
        if inner + 12 > end:
            return -1, TRUNCATED
        platform_header = 8 if byte(data, inner + 11) & 1 else 0
        return _ethernet(data, inner + 12 + platform_header, end)
    return inner, kind
