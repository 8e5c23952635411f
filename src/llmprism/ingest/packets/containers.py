"""Headers of pcap and pcapng streams: byte order, clock, link types. Read once per file, section or interface."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Int64
from llmprism.errors import FormatError, LimitError
from llmprism.ingest.packets.decode import LINK_UNKNOWN, SUPPORTED_LINKS
from llmprism.ingest.packets.magic import PCAP_MAGICS, PCAPNG_MAGIC
from llmprism.ingest.packets.scan import INTERFACE, INTERFACE_WIDTH, MAX_PACKET_BYTES, SECTION_HEADER

__all__ = ["PCAP_HEADER_BYTES", "PcapHeader", "Section", "parse_pcap_header"]

PCAP_HEADER_BYTES: Final = 24
MAX_INTERFACES: Final = 4096
"""Interfaces of one pcapng section: the largest chassis has fewer ports."""

OPTION_END, OPTION_RESOLUTION, OPTION_OFFSET = 0, 9, 14
MICROSECONDS: Final = 6


@dataclass(frozen=True, slots=True)
class PcapHeader:
    big_endian: bool
    nanoseconds: bool
    link: int


def parse_pcap_header(head: bytes, name: str) -> PcapHeader:
    if len(head) < PCAP_HEADER_BYTES:
        raise FormatError(f"{name}: ends inside the pcap header (byte {len(head)} of {PCAP_HEADER_BYTES})")
    big_endian, nanoseconds = PCAP_MAGICS[head[:4]]
    (link,) = struct.unpack((">" if big_endian else "<") + "I", head[20:24])
    link &= 0x03FFFFFF
    if link not in SUPPORTED_LINKS:
        raise FormatError(
            f"{name}: link type {link} at byte 20 is not supported; expected Ethernet, Linux cooked or raw IP "
            f"({', '.join(map(str, SUPPORTED_LINKS))})"
        )
    return PcapHeader(big_endian, nanoseconds, link)


class Section:
    """The state of a pcapng stream that section and interface blocks set."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.big_endian = False
        self._rows: list[tuple[int, int, int, int]] = []

    def interfaces(self) -> Int64:
        return np.array(self._rows, dtype=np.int64).reshape(-1, INTERFACE_WIDTH)

    def block_length(self, head: bytes, offset: int) -> int:
        """Length of the section or interface block whose first 12 bytes these are; sets the byte order."""
        if head.startswith(PCAPNG_MAGIC):
            order = head[8:12]
            if order not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                raise FormatError(f"{self._name}: broken pcapng section at byte {offset}: no byte-order mark")
            self.big_endian = order == b"\x1a\x2b\x3c\x4d"
        (length,) = struct.unpack(self._order + "I", head[4:8])
        if length < 16 or length % 4 or length > MAX_PACKET_BYTES:
            raise FormatError(f"{self._name}: broken pcapng block at byte {offset}: its length is {length}")
        return int(length)

    def read_block(self, block: bytes, offset: int) -> None:
        kind = struct.unpack(self._order + "I", block[:4])[0]
        if kind == SECTION_HEADER:
            self._rows.clear()
        elif kind == INTERFACE:
            if len(self._rows) >= MAX_INTERFACES:
                raise LimitError(f"{self._name}: more than {MAX_INTERFACES} interfaces at byte {offset}")
            self._rows.append(self._interface(block))

    @property
    def _order(self) -> str:
        return ">" if self.big_endian else "<"

    def _interface(self, block: bytes) -> tuple[int, int, int, int]:
        link, _, snap = struct.unpack(self._order + "HHI", block[8:16])
        power, offset_seconds = MICROSECONDS, 0
        at = 16
        while at + 4 <= len(block) - 4:
            code, length = struct.unpack(self._order + "HH", block[at : at + 4])
            value = block[at + 4 : at + 4 + length]
            if code == OPTION_END:
                break
            if code == OPTION_RESOLUTION and len(value) == 1:
                power = value[0]
            if code == OPTION_OFFSET and len(value) == 8:
                (offset_seconds,) = struct.unpack(self._order + "q", value)
            at += 4 + (length + 3) // 4 * 4
        known = link if link in SUPPORTED_LINKS else LINK_UNKNOWN
        offset_ns = offset_seconds * 1_000_000_000 if abs(offset_seconds) < 1 << 33 else 0
        return known, power, offset_ns, snap
