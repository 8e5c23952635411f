"""Builds packets and capture files for the tests: dpkt for the common headers, struct for what it does not know."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

import dpkt

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0, 1, 2, 4
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 6, 7, 8, 10
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = 12, 13, 14, 15, 16
ACKNOWLEDGE = 17
CNP = 0x81
EXTENSION_BYTES = {3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4}


def ethernet(payload: bytes, kind: int = 0x0800, vlans: Iterable[int] = ()) -> bytes:
    tags = b"".join(struct.pack(">HH", tag, 7) for tag in vlans)
    return b"\x02" * 6 + b"\x04" * 6 + tags + struct.pack(">H", kind) + payload


def ipv4(source: str, target: str, protocol: int, payload: bytes, length: int | None = None) -> bytes:
    packet = dpkt.ip.IP(src=socket.inet_aton(source), dst=socket.inet_aton(target), p=protocol, data=payload, ttl=9)
    packet.len = 20 + len(payload)
    data = bytes(packet)
    return data if length is None else data[:2] + struct.pack(">H", length) + data[4:]


def ipv6(source: str, target: str, protocol: int, payload: bytes) -> bytes:
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, target)
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 9) + addresses + payload


def udp(sport: int, dport: int, payload: bytes) -> bytes:
    return struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload


def tcp(sport: int, dport: int, sequence: int, payload: bytes, flags: int = 0x10) -> bytes:
    return bytes(dpkt.tcp.TCP(sport=sport, dport=dport, seq=sequence & 0xFFFFFFFF, flags=flags, data=payload))


def tcp_frame(sequence: int, size: int, source: str = "10.0.0.1", target: str = "10.0.0.2", flags: int = 0x10) -> bytes:
    return ethernet(ipv4(source, target, 6, tcp(4000, 5000, sequence, b"x" * size, flags)))


def roce(
    opcode: int,
    queue_pair: int,
    number: int,
    payload: int = 0,
    promised: int = 0,
    syndrome: int = 0,
    source: str = "10.0.0.1",
    target: str = "10.0.0.2",
) -> bytes:
    """An IPv4 packet with BTH, RETH or AETH where the operation has one, `payload` bytes and the ICRC."""
    base = struct.pack(">BBHII", opcode, 0x40, 0xFFFF, queue_pair, number & 0xFFFFFF)
    if opcode in (WRITE_FIRST, WRITE_ONLY, READ_REQUEST):
        extension = struct.pack(">QII", 0x1000, 0xABCD, promised)
    elif opcode == CNP:
        extension = b"\0" * 16
    else:
        extension = (bytes([syndrome]) + b"\0" * 31)[: EXTENSION_BYTES.get(opcode & 31, 0)]
    return ipv4(source, target, 17, udp(50_000 + queue_pair % 100, 4791, base + extension + b"d" * payload + b"\0" * 4))


def write_message(queue_pair: int, first: int, size: int, mtu: int = 1024, **ends: str) -> list[bytes]:
    """All packets of an RDMA WRITE of `size` bytes, the first with packet number `first`."""
    return _message((WRITE_ONLY, WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST), queue_pair, first, size, mtu, ends)


def send_message(queue_pair: int, first: int, size: int, mtu: int = 1024, **ends: str) -> list[bytes]:
    return _message((SEND_ONLY, SEND_FIRST, SEND_MIDDLE, SEND_LAST), queue_pair, first, size, mtu, ends)


def read_response(queue_pair: int, first: int, size: int, mtu: int = 1024, **ends: str) -> list[bytes]:
    return _message((READ_ONLY, READ_FIRST, READ_MIDDLE, READ_LAST), queue_pair, first, size, mtu, ends)


def _message(
    codes: tuple[int, int, int, int], queue_pair: int, first: int, size: int, mtu: int, ends: dict[str, str]
) -> list[bytes]:
    only, begin, middle, last = codes
    count = max(1, -(-size // mtu))
    packets = []
    for index in range(count):
        share = min(mtu, size - index * mtu)
        code = {0: begin, count - 1: last}.get(index, middle) if count > 1 else only
        packets.append(roce(code, queue_pair, first + index, share, promised=size, **ends))
    return packets


def gre(kind: int, payload: bytes, sequence: bool = False) -> bytes:
    head = struct.pack(">HH", 0x1000 if sequence else 0, kind)
    return head + (struct.pack(">I", 77) if sequence else b"") + payload


def erspan2(frame: bytes) -> bytes:
    mirrored = gre(0x88BE, struct.pack(">II", 0x1000_0064, 5) + frame, sequence=True)
    return ethernet(ipv4("192.0.2.1", "192.0.2.2", 47, mirrored))


def erspan3(frame: bytes, platform: bool = False) -> bytes:
    header = struct.pack(">III", 0x2000_0064, 123_456, 1 if platform else 0) + (b"\0" * 8 if platform else b"")
    return ethernet(ipv4("192.0.2.1", "192.0.2.2", 47, gre(0x22EB, header + frame, sequence=True)))


def vxlan(frame: bytes) -> bytes:
    return ethernet(ipv4("192.0.2.1", "192.0.2.2", 17, udp(12_345, 4789, b"\x08\0\0\0\0\0\x07\0" + frame)))


Timed = tuple[int, bytes]


def pcap(
    frames: Iterable[Timed], *, link: int = 1, big: bool = False, nano: bool = True, snap: int = 1 << 18, wire: int = 0
) -> bytes:
    """A pcap file of (time in ns, frame); `wire` overrides the length on the wire."""
    order = ">" if big else "<"
    out = [struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snap, link)]
    for time_ns, frame in frames:
        fraction = time_ns % 10**9 if nano else time_ns % 10**9 // 1000
        captured = frame[:snap]
        out.append(
            struct.pack(order + "IIII", time_ns // 10**9, fraction, len(captured), wire or len(frame)) + captured
        )
    return b"".join(out)


def pcapng(frames: Iterable[Timed], *, link: int = 1, big: bool = False, resolution: int | None = 9) -> bytes:
    """A pcapng file with one section, an unused first interface, and all frames on the second."""
    order = ">" if big else "<"

    def block(kind: int, body: bytes) -> bytes:
        body += b"\0" * (-len(body) % 4)
        size = struct.pack(order + "I", 12 + len(body))
        return struct.pack(order + "I", kind) + size + body + size

    options = b"" if resolution is None else struct.pack(order + "HHBxxxHH", 9, 1, resolution, 0, 0)
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    out = [block(0x0A0D0D0A, section), block(1, struct.pack(order + "HHI", 147, 0, 0))]
    out += [block(1, struct.pack(order + "HHI", link, 0, 0) + options), block(5, b"\0" * 12)]
    for time_ns, frame in frames:
        if resolution is None:
            ticks = time_ns // 1000
        elif resolution >= 128:
            ticks = (time_ns << (resolution - 128)) // 10**9
        else:
            ticks = time_ns * 10**resolution // 10**9
        head = struct.pack(order + "IIIII", 1, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
        out.append(block(6, head + frame))
    return b"".join(out)
