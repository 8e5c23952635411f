"""A stream of packets → batches of flow records, in bounded memory.

The stream is read in chunks into one buffer; the kernels of `scan.py` work on it in place and leave what is incomplete
for the next chunk. Flow and address tables grow up to a cap; beyond it all open flows are finished and the table
starts anew, which may cut a record but never loses bytes. Times, sizes and message boundaries come from the packets
alone, so the result does not depend on the chunks.
"""

from __future__ import annotations

import ipaddress
import secrets
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import numpy as np

from llmprism import limits
from llmprism.errors import FormatError, InputError, LimitError
from llmprism.ingest.packets import layout
from llmprism.ingest.packets.connection_tables import grow_addresses, grow_flows
from llmprism.ingest.packets.containers import (
    PCAP_HEADER_BYTES,
    PcapHeader,
    Section,
    parse_pcap_header,
)
from llmprism.ingest.packets.magic import PCAPNG_MAGIC, is_packets
from llmprism.ingest.packets.scan import MAX_PACKET_BYTES, close_flows, scan_pcap, scan_pcapng
from llmprism.ingest.packets.stats import PacketStats
from llmprism.ingest.packets.work import Int64, PacketWork
from llmprism.ingest.rules import RULES

__all__ = ["PacketReader"]


CHUNK_BYTES: Final = 8 << 20
"""Read at once: large enough that the calls cost nothing, small enough to stay near the processor's cache."""

BATCH_RECORDS: Final = 1 << 17
FIRST_FLOWS: Final = 1 << 12
FIRST_PARTS: Final = 1 << 8
FIRST_ADDRESSES: Final = 1 << 10


class PacketReader:
    """Reads one stream. Iterate over `batches()` to its end, then ask for `addresses()` and `stats()`.

    A batch is an int64 array with the columns `layout.OUT_*`; its addresses are row numbers of `addresses()`. `on_read`
    is called after every chunk.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        burst_gap_ns: int = RULES.burst_gap_ns,
        on_read: Callable[[], None] | None = None,
    ) -> None:
        self._on_read = on_read
        self._read_into: Callable[[memoryview], int | None] = stream.readinto  # type: ignore[attr-defined]
        self._name = name
        self._begin = self._end = 0
        self._offset = 0
        self._cut_off = False
        state = np.zeros(layout.STATE_WIDTH, dtype=np.int64)
        state[layout.BURST_GAP] = burst_gap_ns
        state[layout.HASH_SEED] = secrets.randbits(62)
        addresses, buckets = grow_addresses(
            np.zeros((0, layout.ADDRESS_WIDTH), dtype=np.int64), 0, FIRST_ADDRESSES, state[layout.HASH_SEED]
        )
        self._congestion: list[Int64] = []
        self._work = PacketWork(
            data=np.empty(CHUNK_BYTES + 2 * MAX_PACKET_BYTES, dtype=np.uint8),
            flows=np.zeros((FIRST_FLOWS, layout.FLOW_WIDTH), dtype=np.int64),
            parts=np.zeros((FIRST_PARTS, layout.PART_COUNT, layout.PART_WIDTH), dtype=np.int64),
            addresses=addresses,
            buckets=buckets,
            state=state,
            out=np.zeros((BATCH_RECORDS, layout.OUT_WIDTH), dtype=np.int64),
            packet=np.zeros(layout.PACKET_WIDTH, dtype=np.int64),
            counters=np.zeros(layout.COUNTER_WIDTH, dtype=np.int64),
        )

    def batches(self) -> Iterator[Int64]:
        """Finished records, as they finish."""
        self._fill()
        head = self._head(PCAP_HEADER_BYTES)
        if not head:
            raise InputError(f"{self._name}: is empty; expected a pcap or pcapng stream")
        if not is_packets(head):
            raise FormatError(f"{self._name}: not a packet capture: no pcap or pcapng magic number at byte 0")
        if head.startswith(PCAPNG_MAGIC):
            yield from self._blocks(Section(self._name))
        else:
            header = parse_pcap_header(head, self._name)
            self._begin += PCAP_HEADER_BYTES
            yield from self._packets(header)
        self._cut_off = self._begin < self._end
        yield from self._close()

    def addresses(self) -> list[str]:
        rows = self._work.addresses[: self._work.state[layout.ADDRESS_COUNT]].tolist()
        return [_address_text(high, low, family) for high, low, family in rows]

    def congestion(self) -> Int64:
        """Rows of (source, destination, retransmitted, missing, CNPs, NAKs), summed per directed pair of addresses."""
        rows = np.concatenate([*self._congestion, np.zeros((0, 6), dtype=np.int64)])
        pairs, group = np.unique(rows[:, :2], axis=0, return_inverse=True)
        sums = np.zeros((pairs.shape[0], 4), dtype=np.int64)
        np.add.at(sums, group, rows[:, 2:])
        return np.hstack((pairs, sums))

    def stats(self) -> PacketStats:
        count = [int(value) for value in self._work.counters]
        return PacketStats(
            packets=count[layout.C_PACKETS],
            decoded=count[layout.C_DECODED],
            not_ip=count[layout.C_NOT_IP],
            truncated=count[layout.C_TRUNCATED],
            fragments=count[layout.C_FRAGMENTS],
            other=count[layout.C_OTHER],
            malformed=count[layout.C_MALFORMED],
            retransmitted=count[layout.C_RETRANSMITTED],
            retransmitted_bytes=count[layout.C_RETRANSMITTED_BYTES],
            missing=count[layout.C_MISSING],
            acknowledgements=count[layout.C_ACKNOWLEDGEMENTS],
            congestion_notifications=count[layout.C_NOTIFICATIONS],
            negative_acknowledgements=count[layout.C_NEGATIVE],
            messages=count[layout.C_MESSAGES],
            estimated_messages=count[layout.C_ESTIMATED],
            cut_messages=count[layout.C_CUT],
            first_ns=count[layout.C_FIRST_NS],
            last_ns=count[layout.C_LAST_NS],
            cut_off=self._cut_off,
            bytes_read=self._offset + self._end,
        )

    def _packets(self, header: PcapHeader) -> Iterator[Int64]:
        def scan() -> tuple[int, int]:
            order, unit = header.big_endian, header.nanoseconds
            return scan_pcap(self._work, self._begin, self._end, order, unit, header.link)

        return self._scan_all(scan, None)

    def _blocks(self, section: Section) -> Iterator[Int64]:
        def scan() -> tuple[int, int]:
            return scan_pcapng(self._work, self._begin, self._end, section.big_endian, section.interfaces())

        return self._scan_all(scan, section)

    def _scan_all(self, scan: Callable[[], tuple[int, int]], section: Section | None) -> Iterator[Int64]:
        while True:
            self._begin, why = scan()
            if why == layout.NEED_BYTES:
                if not self._fill():
                    return
            elif why == layout.OUT_FULL:
                yield self._take()
            elif why == layout.GROW_FLOWS:
                yield from self._grow_flows()
            elif why == layout.GROW_ADDRESSES:
                self._grow_addresses()
            elif why == layout.GROW_PARTS:
                self._work = self._work._replace(parts=np.concatenate((self._work.parts, self._work.parts * 0)))
            elif why == layout.SPECIAL_BLOCK and section is not None:
                if not self._special_block(section):
                    return
            else:
                raise self._broken()

    def _special_block(self, section: Section) -> bool:
        """Reads a section or interface block; False where the stream ends inside it."""
        offset = self._offset + self._begin
        head = self._head(12)
        length = section.block_length(head, offset)
        if self._end - self._begin < length and not self._fill():
            return False
        block = self._head(length)
        if len(block) < length:
            return True
        section.read_block(block, offset)
        self._begin += length
        return True

    def _head(self, size: int) -> bytes:
        return self._work.data[self._begin : min(self._begin + size, self._end)].tobytes()

    def _fill(self) -> bool:
        """Moves the rest to the front and reads on; False at the end of the stream."""
        rest = self._end - self._begin
        self._work.data[:rest] = self._work.data[self._begin : self._end].copy()
        self._offset += self._begin
        self._begin, self._end = 0, rest
        try:
            count = self._read_into(self._work.data[rest : rest + CHUNK_BYTES].data)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(
                f"{self._name}: cannot be read beyond byte {self._offset + rest} of the (decompressed) packets "
                f"({error}); copy it again"
            ) from None
        self._end += count or 0
        if self._on_read is not None:
            self._on_read()
        return bool(count)

    def _take(self) -> Int64:
        count = int(self._work.state[layout.OUT_COUNT])
        self._work.state[layout.OUT_COUNT] = 0
        return self._work.out[:count].copy()

    def _grow_flows(self) -> Iterator[Int64]:
        work, state = self._work, self._work.state
        if work.flows.shape[0] < limits.MAX_PACKET_FLOWS:
            flows = grow_flows(work.flows, 2 * work.flows.shape[0], state[layout.HASH_SEED])
        else:
            yield from self._close()
            flows = np.zeros((FIRST_FLOWS, layout.FLOW_WIDTH), dtype=np.int64)
            work.parts[:] = 0
            state[layout.FLOW_COUNT] = state[layout.PARTS_ROWS] = 0
        self._work = work._replace(flows=flows)

    def _grow_addresses(self) -> None:
        work = self._work
        if work.addresses.shape[0] >= limits.MAX_PACKET_ADDRESSES:
            raise LimitError(
                f"{self._name}: more than {limits.MAX_PACKET_ADDRESSES:,} addresses; capture with a filter that leaves "
                "only the training network"
            )
        count, capacity = int(work.state[layout.ADDRESS_COUNT]), 2 * work.addresses.shape[0]
        addresses, buckets = grow_addresses(work.addresses, count, capacity, work.state[layout.HASH_SEED])
        self._work = work._replace(addresses=addresses, buckets=buckets)

    def _close(self) -> Iterator[Int64]:
        self._congestion.append(_evidence(self._work.flows))
        row = 0
        while row < self._work.flows.shape[0]:
            row = close_flows(self._work, row)
            yield self._take()

    def _broken(self) -> FormatError:
        offset = self._offset + self._begin
        return FormatError(
            f"{self._name}: broken packet record at byte {offset}: expected a header with at most "
            f"{MAX_PACKET_BYTES} captured bytes; the file is damaged from there on"
        )


def _evidence(flows: Int64) -> Int64:
    """The signs of trouble of all flows that have any."""
    signs = [layout.RETRANSMITTED, layout.MISSING, layout.NOTIFICATIONS, layout.NEGATIVE]
    troubled = flows[flows[:, signs].any(axis=1)]
    return troubled[:, [layout.SOURCE_ID, layout.TARGET_ID, *signs]]


def _address_text(high: int, low: int, family: int) -> str:
    if family == 4:
        return str(ipaddress.IPv4Address(low & 0xFFFFFFFF))
    mask = (1 << 64) - 1
    return str(ipaddress.IPv6Address((high & mask) << 64 | low & mask))
