"""Hash tables of flows and addresses, in arrays with linear probing."""

from __future__ import annotations

import numpy as np

from llmprism.ingest.packets.compiled import allocating, inlined
from llmprism.ingest.packets.layout import (
    ADDRESS_COUNT,
    ADDRESS_FAMILY,
    ADDRESS_HIGH,
    ADDRESS_LOW,
    ENDED,
    FLOW_COUNT,
    HASH_SEED,
    KEY_WORD,
    LOWEST,
    MESSAGES,
    NEXT,
    P_FAMILY,
    P_SOURCE_HIGH,
    P_SOURCE_LOW,
    P_TARGET_HIGH,
    P_TARGET_LOW,
    PARTS_ROW,
    PARTS_ROWS,
    SOURCE_HIGH,
    SOURCE_ID,
    SOURCE_LOW,
    TARGET_HIGH,
    TARGET_ID,
    TARGET_LOW,
    Number,
)
from llmprism.ingest.packets.work import Int32, Int64, PacketWork

__all__ = ["address_id", "find_flow", "grow_addresses", "grow_flows"]


@inlined
def _mix(value: Number) -> Number:
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    return value


@inlined
def _flow_hash(
    seed: Number, source_high: Number, source_low: Number, target_high: Number, target_low: Number, word: Number
) -> Number:
    value = _mix(np.uint64(seed) + np.uint64(source_low) ^ np.uint64(source_high) * np.uint64(0x9E3779B97F4A7C15))
    value = _mix(value + np.uint64(target_low) ^ np.uint64(target_high) * np.uint64(0xC2B2AE3D27D4EB4F))
    return _mix(value + np.uint64(word))


@inlined
def find_flow(work: PacketWork, word: Number) -> Number:
    """The row of a flow, made if it is new. There is always room: the caller grows the tables before they fill."""
    flows, packet, state = work.flows, work.packet, work.state
    source_high, source_low = packet[P_SOURCE_HIGH], packet[P_SOURCE_LOW]
    target_high, target_low = packet[P_TARGET_HIGH], packet[P_TARGET_LOW]
    mask = np.uint64(flows.shape[0] - 1)
    row = np.int64(_flow_hash(state[HASH_SEED], source_high, source_low, target_high, target_low, word) & mask)
    while flows[row, KEY_WORD] != 0:
        if (
            flows[row, KEY_WORD] == word
            and flows[row, SOURCE_LOW] == source_low
            and flows[row, TARGET_LOW] == target_low
            and flows[row, SOURCE_HIGH] == source_high
            and flows[row, TARGET_HIGH] == target_high
        ):
            return row
        row = np.int64((np.uint64(row) + np.uint64(1)) & mask)
    flow = flows[row]
    flow[KEY_WORD] = word
    flow[SOURCE_HIGH], flow[SOURCE_LOW] = source_high, source_low
    flow[TARGET_HIGH], flow[TARGET_LOW] = target_high, target_low
    flow[SOURCE_ID] = address_id(work, source_high, source_low)
    flow[TARGET_ID] = address_id(work, target_high, target_low)
    flow[NEXT] = flow[LOWEST] = flow[ENDED] = -1
    if word >> 48 & 0xFF >= MESSAGES:
        flow[PARTS_ROW] = state[PARTS_ROWS]
        state[PARTS_ROWS] += 1
    state[FLOW_COUNT] += 1
    return row


@inlined
def address_id(work: PacketWork, high: Number, low: Number) -> Number:
    """The number of an address of the packet at hand, in the order in which they were first seen."""
    addresses, buckets, state, family = work.addresses, work.buckets, work.state, work.packet[P_FAMILY]
    mask = np.uint64(buckets.size - 1)
    place = _flow_hash(state[HASH_SEED], high, low, 0, 0, family) & mask
    while buckets[place] >= 0:
        row = buckets[place]
        if (
            addresses[row, ADDRESS_LOW] == low
            and addresses[row, ADDRESS_HIGH] == high
            and addresses[row, ADDRESS_FAMILY] == family
        ):
            return np.int64(row)
        place = (place + np.uint64(1)) & mask
    row = state[ADDRESS_COUNT]
    buckets[place] = row
    addresses[row, ADDRESS_HIGH], addresses[row, ADDRESS_LOW], addresses[row, ADDRESS_FAMILY] = high, low, family
    state[ADDRESS_COUNT] += 1
    return np.int64(row)


@allocating
def grow_flows(flows: Int64, capacity: Number, seed: Number) -> Int64:
    """The same flows in a larger table (`capacity` is a power of two)."""
    grown = np.zeros((capacity, flows.shape[1]), dtype=np.int64)
    mask = np.uint64(capacity - 1)
    for old in range(flows.shape[0]):
        if flows[old, KEY_WORD] != 0:
            flow = flows[old]
            row = (
                _flow_hash(
                    seed, flow[SOURCE_HIGH], flow[SOURCE_LOW], flow[TARGET_HIGH], flow[TARGET_LOW], flow[KEY_WORD]
                )
                & mask
            )
            while grown[row, KEY_WORD] != 0:
                row = (row + np.uint64(1)) & mask
            grown[row] = flow
    return grown


@allocating
def grow_addresses(addresses: Int64, count: Number, capacity: Number, seed: Number) -> tuple[Int64, Int32]:
    """The same addresses with room for `capacity`, and their buckets."""
    grown = np.zeros((capacity, addresses.shape[1]), dtype=np.int64)
    buckets = np.full(2 * capacity, -1, dtype=np.int32)
    mask = np.uint64(buckets.size - 1)
    for row in range(count):
        grown[row] = addresses[row]
        place = (
            _flow_hash(seed, grown[row, ADDRESS_HIGH], grown[row, ADDRESS_LOW], 0, 0, grown[row, ADDRESS_FAMILY]) & mask
        )
        while buckets[place] >= 0:
            place = (place + np.uint64(1)) & mask
        buckets[place] = row
    return grown, buckets
