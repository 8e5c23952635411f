"""Packets to flow records: the payload packets of one direction of one connection, cut at pauses.

Works on arrays only. A packet of the capture is 16 bytes of pcap header and the first 66 bytes of the frame (see
`capture`); a frame that the sender's kernel left whole for the network card to cut may be larger than 64 KB and then
has no length of its own, so the frame's length counts.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.capture import SNAP

__all__ = ["extract", "flow_records", "read_packets", "write_slice"]

Arrays = dict[str, NDArray[Any]]

PCAP_HEADER, RECORD_HEADER = 24, 16
COLUMNS = ("src", "dst", "sport", "dport")


def extract(folder: Path, gap_us: int, slice_ms: int = 0) -> Arrays:
    """Flow records of all leaves of a recorded run, written to `flows.npz`; the packets are removed."""
    paths = sorted(folder.glob("leaf*.pcap"))
    parts = [read_packets(path) for path in paths]
    packets = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    records = flow_records(packets, gap_us * 1000)
    np.savez_compressed(folder / "flows.npz", allow_pickle=False, **records)
    if slice_ms and len(packets["time"]):
        middle = int(np.median(packets["time"]))
        write_slice(paths, folder / "slice.pcap.gz", middle, middle + slice_ms * 1_000_000)
    for path in paths:
        path.unlink()
    return records


def _raw(path: Path) -> NDArray[np.uint8]:
    """One row per packet; an incomplete last one is left out."""
    size = RECORD_HEADER + SNAP
    raw = np.fromfile(path, np.uint8)[PCAP_HEADER:]
    rows: NDArray[np.uint8] = raw[: len(raw) // size * size].reshape(-1, size)
    if len(rows) and not (rows[:, 8:12].copy().view("<u4") == SNAP).all():
        raise ValueError(f"{path}: a packet was not recorded with {SNAP} bytes")
    return rows


def read_packets(path: Path) -> Arrays:
    """Time, addresses, ports and payload bytes of every packet of a capture."""
    rows = _raw(path)
    head = rows[:, :RECORD_HEADER].copy().view("<u4").astype(np.int64)
    frame = rows[:, RECORD_HEADER:]

    def number(at: int, size: int) -> NDArray[np.int64]:
        value = np.zeros(len(rows), np.int64)
        for i in range(size):
            value = (value << 8) | frame[:, at + i]
        return value

    length = number(16, 2)
    length = np.where(length == 0, head[:, 3] - 14, length)
    headers = (frame[:, 14] & 15).astype(np.int64) * 4 + (frame[:, 46] >> 4).astype(np.int64) * 4
    return {
        "time": head[:, 0] * 1_000_000_000 + head[:, 1],
        "src": number(26, 4),
        "dst": number(30, 4),
        "sport": number(34, 2),
        "dport": number(36, 2),
        "bytes": length - headers,
    }


def flow_records(packets: Arrays, gap_ns: int) -> Arrays:
    """Records cut where a connection's direction sends nothing for the gap."""
    keys = [packets["time"], *(packets[name] for name in reversed(COLUMNS))]
    order = np.lexsort(keys)
    order = order[packets["bytes"][order] > 0]
    sorted_ = {name: values[order] for name, values in packets.items()}
    if not len(order):
        empty = np.zeros(0, np.int64)
        return dict.fromkeys(("start_ns", "end_ns", *COLUMNS, "bytes", "packets"), empty)
    same = sorted_["time"][1:] - sorted_["time"][:-1] < gap_ns
    for name in COLUMNS:
        same &= sorted_[name][1:] == sorted_[name][:-1]
    first = np.r_[0, np.flatnonzero(~same) + 1]
    last = np.r_[first[1:], len(order)] - 1
    return {
        "start_ns": sorted_["time"][first],
        "end_ns": sorted_["time"][last],
        **{name: sorted_[name][first] for name in COLUMNS},
        "bytes": np.add.reduceat(sorted_["bytes"], first),
        "packets": last - first + 1,
    }


def write_slice(paths: list[Path], target: Path, begin_ns: int, end_ns: int) -> None:
    """The packets of a short time as one compressed pcap file, in the order of time."""
    kept = []
    for path in paths:
        rows = _raw(path)
        head = rows[:, :RECORD_HEADER].copy().view("<u4").astype(np.int64)
        times = head[:, 0] * 1_000_000_000 + head[:, 1]
        inside = (times >= begin_ns) & (times < end_ns)
        kept.append((times[inside], rows[inside]))
    times = np.concatenate([each[0] for each in kept])
    rows = np.concatenate([each[1] for each in kept])[np.argsort(times, kind="stable")]
    header = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP, 1)
    with gzip.open(target, "wb", compresslevel=9) as file:
        file.write(header + rows.tobytes())
