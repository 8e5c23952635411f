"""Files as a real nfcapd writes them: NetFlow v5 packets are sent to it, and what it has written is taken when it ends.

NetFlow v5 counts milliseconds since the exporter's start and knows IPv4 addresses alone.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from running_service import free_port

__all__ = ["can_write_nfcapd", "write_nfcapd"]

HEADER: Final = struct.Struct("!HHIIIIBBH")
RECORD: Final = struct.Struct("!4s4s4sHHIIIIHHBBBBHHBBH")
PACKET_RECORDS: Final = 30
UPTIME_MS: Final = 1_000_000_000
"""The exporter's uptime at the end of a file: longer than any file."""

Row = tuple[int, int, str, str, int]
"""start_ns, end_ns, source and destination address, bytes."""


def can_write_nfcapd() -> bool:
    return shutil.which("nfcapd") is not None and shutil.which("nfdump") is not None


def write_nfcapd(rows: Sequence[Row], target: Path) -> None:
    """Raises OSError where nfcapd did not take all of them."""
    with tempfile.TemporaryDirectory(prefix="llmprism-nfcapd-") as name:
        folder, port = Path(name), free_port()
        command = ["nfcapd", "-l", name, "-p", str(port), "-b", "127.0.0.1", "-t", "3600", "-B", "8000000"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_bound(port)
            _send(rows, port)
        finally:
            process.terminate()
            process.wait(30)
        files = sorted(folder.glob("nfcapd.2*"))
        counted = _flows(files[0]) if files else 0
        if counted != len(rows):
            raise OSError(f"nfcapd wrote {counted} of {len(rows)} flows")
        shutil.move(files[0], target)


def _send(rows: Sequence[Row], port: int) -> None:
    end_ns = max(row[1] for row in rows)
    boot_ms = end_ns // 1_000_000 - UPTIME_MS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for number, first in enumerate(range(0, len(rows), PACKET_RECORDS)):
            part = rows[first : first + PACKET_RECORDS]
            seconds, rest = divmod(end_ns, 1_000_000_000)
            head = HEADER.pack(5, len(part), UPTIME_MS, seconds, rest, first, 0, 0, 0)
            out.sendto(head + b"".join(_record(row, boot_ms) for row in part), ("127.0.0.1", port))
            if number % 20 == 19:
                time.sleep(0.002)  # the receiver's buffer is all that keeps a burst
    time.sleep(1.0)


def _record(row: Row, boot_ms: int) -> bytes:
    start, end, src, dst, size = row
    first, last = start // 1_000_000 - boot_ms, -(-end // 1_000_000) - boot_ms
    ends = socket.inet_aton(src), socket.inet_aton(dst), b"\0\0\0\0"
    return RECORD.pack(*ends, 0, 0, 1 + size // 4096, size, first, last, 4791, 4791, 0, 0, 17, 0, 0, 0, 0, 0, 0)


def _wait_until_bound(port: int) -> None:
    """As Linux tells."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if f":{port:04X} " in Path("/proc/net/udp").read_text():
            return
        time.sleep(0.05)
    raise OSError("nfcapd does not listen")


def _flows(file: Path) -> int:
    """How many flows nfdump counts in a file."""
    found = subprocess.run(["nfdump", "-I", "-r", str(file)], capture_output=True, text=True, check=True)
    lines = dict(line.split(":", 1) for line in found.stdout.splitlines() if ":" in line)
    return int(lines["Flows"])
