"""Names for the columns of the integer arrays that the packet kernels share.

The kernels keep all state in a few two-dimensional int64 arrays (one row per flow, per address, per finished record),
so that a flow's state sits together in memory and nothing is a Python object.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Number: TypeAlias = Any
"""An integer or truth value inside a kernel: compiled, Python's and NumPy's are the same; mypy tells them apart."""

# One row per flow: a TCP or UDP connection and direction, or the messages to one RDMA queue pair.
SOURCE_HIGH: Final = 0
SOURCE_LOW: Final = 1
TARGET_HIGH: Final = 2
TARGET_LOW: Final = 3
KEY_WORD: Final = 4
"""Family, protocol, ports (or queue pair) in one word; 0 marks a free row."""
SOURCE_ID: Final = 5
TARGET_ID: Final = 6
START: Final = 7
END: Final = 8
BYTES: Final = 9
PACKETS: Final = 10
"""Packets of the record that is open; 0: none is."""
NEXT: Final = 11
"""The next TCP sequence number or PSN in order; -1: none seen yet."""
HOLES: Final = 12
"""HOLE_COUNT pairs (first missing, first not missing): numbers that were skipped and may still come."""
HOLE_COUNT: Final = 8
HOLE_CURSOR: Final = 28
MTU: Final = 29
"""Payload of the packets of this queue pair that are not the last of a message; 0: not known yet."""
PORT: Final = 30
RETRANSMITTED: Final = 31
MISSING: Final = 32
NOTIFICATIONS: Final = 33
NEGATIVE: Final = 34
PARTS_ROW: Final = 35
"""RDMA only: where the parts of this queue pair's messages are."""
OPEN: Final = 36
"""RDMA only: how many parts are in use."""
CURRENT: Final = 37
"""RDMA only: the part that grew last; almost every packet belongs to it."""
LOWEST: Final = 38
"""RDMA only: the lowest PSN seen, as long as lower ones may still come; -1: no longer."""
ENDED: Final = 39
"""RDMA only: the PSN after the highest end of a message that was seen; -1: none was."""
FLOW_WIDTH: Final = 40

# PART_COUNT parts per RDMA queue pair: runs of packets of one message that is not complete.
PART_COUNT: Final = 8
S_BEGIN: Final = 0
"""PSN of the first packet."""
S_END: Final = 1
"""PSN after the last packet."""
S_START_NS: Final = 2
S_END_NS: Final = 3
S_BYTES: Final = 4
S_PACKETS: Final = 5
S_SIZE: Final = 6
"""What the RETH says about the message; -1: not known."""
S_FLAGS: Final = 7
"""0 marks a free part; IN_USE and what is known about it."""
S_FLOOR: Final = 8
"""The message begins at this PSN or later, because another one ended there; -1: not known."""
S_LIMIT: Final = 9
"""The message ends before this PSN, because another one begins there; -1: not known."""
PART_WIDTH: Final = 10

# One row per address.
ADDRESS_HIGH: Final = 0
ADDRESS_LOW: Final = 1
ADDRESS_FAMILY: Final = 2
ADDRESS_WIDTH: Final = 3

# One row per finished record.
OUT_START: Final = 0
OUT_END: Final = 1
OUT_SOURCE: Final = 2
OUT_TARGET: Final = 3
OUT_SPORT: Final = 4
OUT_DPORT: Final = 5
OUT_PROTOCOL: Final = 6
OUT_BYTES: Final = 7
OUT_PACKETS: Final = 8
OUT_WIDTH: Final = 9

# The decoded headers of the packet at hand.
P_SOURCE_HIGH: Final = 0
P_SOURCE_LOW: Final = 1
P_TARGET_HIGH: Final = 2
P_TARGET_LOW: Final = 3
P_FAMILY: Final = 4
P_PROTOCOL: Final = 5
P_PAYLOAD: Final = 6
"""Offset of the transport header."""
P_LENGTH: Final = 7
"""Length of transport header and payload on the wire, whatever was captured of it."""
P_END: Final = 8
"""Offset of the end of the captured bytes."""
PACKET_WIDTH: Final = 9

# Scalars that outlive a call.
FLOW_COUNT: Final = 0
ADDRESS_COUNT: Final = 1
OUT_COUNT: Final = 2
BURST_GAP: Final = 3
HASH_SEED: Final = 4
"""Random per run, so that nobody can write packets that all fall into one place of the tables."""
PARTS_ROWS: Final = 5
STATE_WIDTH: Final = 6

# Counters.
C_PACKETS: Final = 0
C_DECODED: Final = 1
C_NOT_IP: Final = 2
C_TRUNCATED: Final = 3
C_FRAGMENTS: Final = 4
C_OTHER: Final = 5
C_MALFORMED: Final = 6
C_RETRANSMITTED: Final = 7
C_MISSING: Final = 8
C_ACKNOWLEDGEMENTS: Final = 9
C_NOTIFICATIONS: Final = 10
C_NEGATIVE: Final = 11
C_FIRST_NS: Final = 12
C_LAST_NS: Final = 13
C_RETRANSMITTED_BYTES: Final = 14
C_MESSAGES: Final = 15
C_ESTIMATED: Final = 16
"""Messages of which so much was lost that the packets do not decide their size."""
C_CUT: Final = 17
"""Messages that the start or the end of the capture cut."""
COUNTER_WIDTH: Final = 18

# What a scan returns.
NEED_BYTES: Final = 0
OUT_FULL: Final = 1
GROW_FLOWS: Final = 2
GROW_ADDRESSES: Final = 3
GROW_PARTS: Final = 4
SPECIAL_BLOCK: Final = 5
BROKEN: Final = 6

TCP: Final = 6
UDP: Final = 17
ROCE_PORT: Final = 4791
VXLAN_PORT: Final = 4789
MESSAGES: Final = 254
"""Stands for the protocol in the key of RDMA SEND and WRITE messages."""
RESPONSES: Final = 255
"""The same for RDMA READ responses, which count their packets apart."""
