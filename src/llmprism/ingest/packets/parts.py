"""RDMA messages put together from packets in any order, with holes.

A *part* is a run of packets of one message without a gap. A packet makes a part longer, joins two, or begins one; one
with both the First and the Last packet is a message and is written at once. The others wait, a few per queue pair, for
what is missing: it may come late (adaptive routing) or again (go-back-N). A part leaves unfinished only when its place
is needed or the capture ends, and then the packets around it decide as much as they can:

- the RETH of a WRITE's First says where the message ends, so nothing after it is glued to it;
- packets that are not the last of a message all carry one path MTU, so a hole inside a message has a known size;
- a hole of one packet holds no message boundary that is not seen: a message whose First alone is gone is exact too;
- known ends and beginnings of other messages bound a part on both sides (`S_FLOOR`, `S_LIMIT`).

What stays undecided is counted, never hidden: `C_ESTIMATED` where the missing packets could be shared out in another
way, or a Last is gone whose size nothing shows; `C_CUT` where the message began before the capture or ended after it,
and only what was seen counts. Messages of which no packet at all was seen are not invented: their packets are counted
as missing.
"""

from __future__ import annotations

from typing import Final

from llmprism.ingest.packets.compiled import inlined, outlined
from llmprism.ingest.packets.holes import distance, fill_holes
from llmprism.ingest.packets.layout import (
    C_CUT,
    C_ESTIMATED,
    C_MESSAGES,
    CURRENT,
    ENDED,
    MTU,
    NEXT,
    OPEN,
    PART_COUNT,
    PARTS_ROW,
    PORT,
    ROCE_PORT,
    S_BEGIN,
    S_BYTES,
    S_END,
    S_END_NS,
    S_FLAGS,
    S_FLOOR,
    S_LIMIT,
    S_PACKETS,
    S_SIZE,
    S_START_NS,
    UDP,
    Number,
)
from llmprism.ingest.packets.records import write_record
from llmprism.ingest.packets.work import Int64, PacketWork

__all__ = ["FIRST", "LAST", "PSN_BITS", "PSN_MASK", "add_packet", "close_messages", "continues"]

PSN_BITS: Final = 24
PSN_MASK: Final = (1 << PSN_BITS) - 1

FIRST: Final = 1
LAST: Final = 2
IN_USE: Final = 4
ESTIMATED: Final = 8
AT_START: Final = 16
"""Nothing was seen of this queue pair before: the message may have begun before the capture did."""

MAX_MESSAGE_PACKETS: Final = 1 << 22
"""2 GiB, the largest message of the specification, in packets of 512 bytes. More is a broken length."""

NONE: Final = -1


@inlined
def add_packet(
    flow: Int64, number: Number, position: Number, payload: Number, promised: Number, is_start: Number,
    time_ns: Number, work: PacketWork,
) -> None:  # fmt: skip
    """One packet that was not seen before, in order or late. `is_start`: the first one seen of this queue pair."""
    parts = work.parts[flow[PARTS_ROW]]
    if position == 0 and flow[OPEN] == 1 and _follows_on(parts[flow[CURRENT]], number):
        flow[MTU] = payload
        _grow(parts[flow[CURRENT]], payload, time_ns)
        return
    _add(flow, parts, number, position, payload, promised, is_start, time_ns, work)


@inlined
def _follows_on(part: Int64, number: Number) -> Number:
    return part[S_END] == number and part[S_FLAGS] != 0 and not part[S_FLAGS] & LAST


@inlined
def _grow(part: Int64, payload: Number, time_ns: Number) -> None:
    """By the next packet of the message, in order: what almost every packet is."""
    part[S_END] = (part[S_END] + 1) & PSN_MASK
    part[S_START_NS] = min(part[S_START_NS], time_ns)
    part[S_END_NS] = max(part[S_END_NS], time_ns)
    part[S_BYTES] += payload
    part[S_PACKETS] += 1


@outlined
def _add(
    flow: Int64, parts: Int64, number: Number, position: Number, payload: Number, promised: Number, is_start: Number,
    time_ns: Number, work: PacketWork,
) -> None:  # fmt: skip
    """Any other packet: a message of one packet, the beginning or the end of one, or one out of order."""
    if position == FIRST | LAST and flow[OPEN] == 0:
        _end_seen(flow, number)
        _write(flow, time_ns, time_ns, 1, payload, work)
        return
    if not position & LAST:
        flow[MTU] = payload
    index = _extended(flow, parts, number, position, payload, time_ns)
    if index == NONE:
        if flow[OPEN] == PART_COUNT:
            _make_room(flow, parts, work)
        index = _begun(flow, parts, number, position, payload, time_ns)
        if is_start and not position & FIRST:
            parts[index, S_FLAGS] |= AT_START
    part = parts[index]
    flow[CURRENT] = index
    if position & FIRST:
        part[S_SIZE] = promised
    if position & LAST:
        _end_seen(flow, number)
    if flow[OPEN] > 1:
        index = _joined(flow, parts, index, number, position)
        part = parts[index]
    if part[S_FLAGS] & (FIRST | LAST) == FIRST | LAST:
        _write_part(flow, part, _whole(flow, part), work)


@inlined
def continues(flow: Int64, number: Number, work: PacketWork) -> Number:
    """Whether an unfinished part ends right before this packet."""
    parts = work.parts[flow[PARTS_ROW]]
    for index in range(PART_COUNT if flow[OPEN] > 0 else 0):
        if parts[index, S_FLAGS] != 0 and parts[index, S_END] == number and not parts[index, S_FLAGS] & LAST:
            return True
    return False


@inlined
def _end_seen(flow: Int64, number: Number) -> None:
    after = (number + 1) & PSN_MASK
    if flow[ENDED] < 0 or distance(after, flow[ENDED], PSN_BITS) > 0:
        flow[ENDED] = after


@inlined
def _extended(flow: Int64, parts: Int64, number: Number, position: Number, payload: Number, time_ns: Number) -> Number:
    """The part that this packet follows or precedes, made longer by it; NONE where there is none."""
    if flow[OPEN] == 0:
        return NONE
    after = (number + 1) & PSN_MASK
    for step in range(PART_COUNT):
        index = (flow[CURRENT] + step) % PART_COUNT
        part = parts[index]
        flags = part[S_FLAGS]
        if flags == 0:
            continue
        if part[S_END] == number and not flags & LAST and not position & FIRST:
            part[S_END] = after
        elif part[S_BEGIN] == after and not flags & FIRST and not position & LAST:
            part[S_BEGIN] = number
        else:
            continue
        part[S_START_NS] = min(part[S_START_NS], time_ns)
        part[S_END_NS] = max(part[S_END_NS], time_ns)
        part[S_BYTES] += payload
        part[S_PACKETS] += 1
        part[S_FLAGS] |= position
        return index
    return NONE


@inlined
def _begun(flow: Int64, parts: Int64, number: Number, position: Number, payload: Number, time_ns: Number) -> Number:
    """A new part of this packet alone. There is a free place."""
    index = 0
    while parts[index, S_FLAGS] != 0:
        index += 1
    part = parts[index]
    part[S_BEGIN], part[S_END] = number, (number + 1) & PSN_MASK
    part[S_START_NS] = part[S_END_NS] = time_ns
    part[S_BYTES], part[S_PACKETS] = payload, 1
    part[S_SIZE] = part[S_FLOOR] = part[S_LIMIT] = NONE
    part[S_FLAGS] = IN_USE | position
    if flow[ENDED] >= 0 and distance(number, flow[ENDED], PSN_BITS) >= 0:
        part[S_FLOOR] = flow[ENDED]
    flow[OPEN] += 1
    return index


@inlined
def _joined(flow: Int64, parts: Int64, index: Number, number: Number, position: Number) -> Number:
    """Updates the other parts with what this packet means for them; joins the part with one that it now touches."""
    part = parts[index]
    result = index
    for other_index in range(PART_COUNT):
        other = parts[other_index]
        if other[S_FLAGS] == 0 or other_index == index:
            continue
        _bound(other, number, position)
        if _follows(part, other):
            _absorb(flow, part, other)
        elif _follows(other, part):
            _absorb(flow, other, part)
            part, result = other, other_index
    flow[CURRENT] = result
    return result


@inlined
def _follows(part: Int64, other: Int64) -> Number:
    """Whether `other` goes on in the same message right where `part` ends."""
    return part[S_END] == other[S_BEGIN] and not part[S_FLAGS] & LAST and not other[S_FLAGS] & FIRST


@inlined
def _bound(other: Int64, number: Number, position: Number) -> None:
    """A First ends what comes before it at the latest; after a Last begins what comes later at the earliest."""
    later = distance(other[S_BEGIN], number, PSN_BITS) > 0
    if position & FIRST and not later and not other[S_FLAGS] & LAST:
        nearer = other[S_LIMIT] < 0 or distance(number, other[S_LIMIT], PSN_BITS) < 0
        other[S_LIMIT] = number if nearer else other[S_LIMIT]
    if position & LAST and later and not other[S_FLAGS] & FIRST:
        _raise_floor(other, (number + 1) & PSN_MASK)


@inlined
def _raise_floor(part: Int64, number: Number) -> None:
    if part[S_FLOOR] < 0 or distance(number, part[S_FLOOR], PSN_BITS) > 0:
        part[S_FLOOR] = number


@inlined
def _absorb(flow: Int64, part: Int64, next_part: Int64) -> None:
    """`next_part` follows `part` in the same message. A hole between them counts one MTU a packet."""
    hole = distance(next_part[S_BEGIN], part[S_END], PSN_BITS)
    part[S_END] = next_part[S_END]
    part[S_START_NS] = min(part[S_START_NS], next_part[S_START_NS])
    part[S_END_NS] = max(part[S_END_NS], next_part[S_END_NS])
    part[S_BYTES] += next_part[S_BYTES] + hole * flow[MTU]
    part[S_PACKETS] += next_part[S_PACKETS]
    part[S_LIMIT] = next_part[S_LIMIT]
    part[S_FLAGS] |= next_part[S_FLAGS]
    next_part[S_FLAGS] = 0
    flow[OPEN] -= 1


@inlined
def _known_end(flow: Int64, part: Int64) -> Number:
    """The first PSN after a WRITE whose size is known; NONE where it is not, or where another message contradicts."""
    if part[S_SIZE] <= 0 or flow[MTU] <= 0:
        return NONE
    packets = (part[S_SIZE] + flow[MTU] - 1) // flow[MTU]
    if packets > MAX_MESSAGE_PACKETS or packets < distance(part[S_END], part[S_BEGIN], PSN_BITS):
        return NONE
    end = (part[S_BEGIN] + packets) & PSN_MASK
    if part[S_LIMIT] >= 0 and distance(part[S_LIMIT], end, PSN_BITS) < 0:
        return NONE
    return end


@inlined
def _whole(flow: Int64, part: Int64) -> Number:
    """The size of a message with First and Last: what the RETH says, if that fits the number of packets."""
    return part[S_SIZE] if _known_end(flow, part) == part[S_END] else part[S_BYTES]


@inlined
def _make_room(flow: Int64, parts: Int64, work: PacketWork) -> None:
    """Decides about the oldest part: it is joined over a hole with the next one, or written as it is."""
    index = _oldest(parts, NONE)
    next_index = _oldest(parts, index)
    part = parts[index]
    if next_index != NONE and _same_message(flow, part, parts[next_index]):
        hole = distance(parts[next_index, S_BEGIN], part[S_END], PSN_BITS)
        if hole > 1 and _known_end(flow, part) == NONE:
            part[S_FLAGS] |= ESTIMATED
        _forget(flow, part[S_END], parts[next_index, S_BEGIN])
        _absorb(flow, part, parts[next_index])
        if part[S_FLAGS] & (FIRST | LAST) == FIRST | LAST:
            _write_part(flow, part, _whole(flow, part), work)
        return
    end = _known_end(flow, part)
    if end != NONE and next_index != NONE and not parts[next_index, S_FLAGS] & FIRST:
        _raise_floor(parts[next_index], end)
    _write_part(flow, part, _decided(flow, part), work)


@inlined
def _oldest(parts: Int64, after: Number) -> Number:
    """The part in use with the lowest PSN, or with the lowest above that of part `after`; NONE where there is none."""
    best = NONE
    for index in range(PART_COUNT):
        if parts[index, S_FLAGS] == 0 or index == after:
            continue
        begin = parts[index, S_BEGIN]
        if after != NONE and distance(begin, parts[after, S_BEGIN], PSN_BITS) < 0:
            continue
        if best == NONE or distance(begin, parts[best, S_BEGIN], PSN_BITS) < 0:
            best = index
    return best


@inlined
def _same_message(flow: Int64, part: Int64, next_part: Int64) -> Number:
    """Whether only a hole parts these two. A known end or a known beginning between them says no."""
    if part[S_FLAGS] & LAST or next_part[S_FLAGS] & FIRST:
        return False
    if part[S_LIMIT] >= 0 and distance(part[S_LIMIT], next_part[S_BEGIN], PSN_BITS) <= 0:
        return False
    if next_part[S_FLOOR] >= 0 and distance(next_part[S_FLOOR], part[S_END], PSN_BITS) >= 0:
        return False
    end = _known_end(flow, part)
    return end == NONE or distance(next_part[S_END], end, PSN_BITS) <= 0


@inlined
def _decided(flow: Int64, part: Int64) -> Number:
    """The size of a part that will not be completed; marks and counts what is not decided by the packets."""
    end = _known_end(flow, part)
    if end != NONE and (part[S_LIMIT] >= 0 or distance(flow[NEXT], end, PSN_BITS) >= 0):
        _forget(flow, part[S_END], end)
        return part[S_SIZE]
    size = part[S_BYTES]
    if not part[S_FLAGS] & FIRST:
        before = distance(part[S_BEGIN], part[S_FLOOR], PSN_BITS) if part[S_FLOOR] >= 0 else 0
        size += before * flow[MTU]
        _forget(flow, part[S_FLOOR], part[S_BEGIN])
        if before != 1 or flow[MTU] == 0:
            part[S_FLAGS] |= ESTIMATED
    if not part[S_FLAGS] & LAST:
        behind = distance(part[S_LIMIT], part[S_END], PSN_BITS) if part[S_LIMIT] >= 0 else 0
        size += behind * flow[MTU]
        _forget(flow, part[S_END], part[S_LIMIT])
        part[S_FLAGS] |= ESTIMATED
    return size


@inlined
def _forget(flow: Int64, first: Number, after: Number) -> None:
    """The packets of this range are accounted for; should they still come, they are no news."""
    if first >= 0 and after >= 0 and distance(after, first, PSN_BITS) > 0:
        fill_holes(flow, first, after, PSN_BITS)


@inlined
def _write_part(flow: Int64, part: Int64, size: Number, work: PacketWork) -> None:
    flags = part[S_FLAGS]
    begun_before = flags & AT_START and not flags & FIRST and part[S_FLOOR] < 0
    goes_on = not flags & LAST and part[S_END] == flow[NEXT] and size != part[S_SIZE]
    if begun_before or goes_on:
        work.counters[C_CUT] += 1
    elif flags & ESTIMATED:
        work.counters[C_ESTIMATED] += 1
    _write(flow, part[S_START_NS], part[S_END_NS], part[S_PACKETS], size, work)
    part[S_FLAGS] = 0
    flow[OPEN] -= 1


@inlined
def _write(flow: Int64, start_ns: Number, end_ns: Number, packets: Number, size: Number, work: PacketWork) -> None:
    if size <= 0:
        return
    write_record(work, flow, start_ns, end_ns, (flow[PORT], ROCE_PORT), UDP, size, packets)
    work.counters[C_MESSAGES] += 1


@inlined
def close_messages(flow: Int64, work: PacketWork) -> None:
    """Writes all parts: the capture ends, or the queue pair was set up anew. At most PART_COUNT records."""
    while flow[OPEN] > 0:
        _make_room(flow, work.parts[flow[PARTS_ROW]], work)
