from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.sim.meter import Connections, Records, close_idle, measure, new_meter

MS = 1_000_000


def records_of(
    transfers: list[tuple[int, int, int, int]], idle_ms: float = 0.5, active_s: float = 60.0, lanes: int = 2
) -> list[tuple[int, int, int, int]]:
    """(connection, start, end, bytes) of the records of (start, length, pause, bytes) transfers over one pair."""
    start = np.array([row[0] for row in transfers], dtype=np.int64)
    active = np.array([row[1] for row in transfers], dtype=np.int64)
    end = start + active + np.array([row[2] for row in transfers], dtype=np.int64)
    size = np.array([row[3] for row in transfers], dtype=np.int64)
    connections = Connections(
        np.zeros(1, dtype=np.int32), np.array([lanes], dtype=np.int32), np.array([1 << 20], dtype=np.int64)
    )
    meter = new_meter(lanes)
    out = Records(np.zeros(10_000, dtype=np.int32), *(np.zeros(10_000, dtype=np.int64) for _ in range(3)))
    pair = np.zeros(start.size, dtype=np.int32)
    idle, limit = int(idle_ms * MS), int(active_s * 1e9)
    result = []
    row = 0
    while row < start.size:
        row, count = measure(pair, start, end, size, active, row, connections, meter, out, idle, limit, np.uint64(7))
        result += list(zip(*(column[:count].tolist() for column in out), strict=True))
    _, count = close_idle(meter, out, 1 << 60, 0)
    return result + list(zip(*(column[:count].tolist() for column in out), strict=True))


sizes = st.integers(1, 30_000_000)
messages = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 8), st.sampled_from([0, 0, 3]), sizes), min_size=1, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(messages, st.sampled_from([0.1, 0.5, 15.0]), st.integers(1, 3))
def test_no_byte_is_lost_and_records_stay_inside_their_transfers(
    drawn: list[tuple[int, int, int, int]], idle_ms: float, lanes: int
) -> None:
    transfers, time = [], 0
    for gap, length, pause, size in drawn:
        time += gap * MS
        transfers.append((time, length * MS, pause * MS, size))
        time += (length + pause) * MS
    records = records_of(transfers, idle_ms, lanes=lanes)
    assert sum(record[3] for record in records) == sum(transfer[3] for transfer in transfers)
    assert all(start <= end for _, start, end, _ in records)
    assert min(start for _, start, _, _ in records) >= transfers[0][0]
    assert max(end for _, _, end, _ in records) <= time


def test_messages_back_to_back_become_one_record_per_connection() -> None:
    records = records_of([(0, MS, 0, 2 << 20), (MS + 100_000, MS, 0, 2 << 20)])
    assert len(records) == 2
    assert all(size == 2 << 20 for *_, size in records)


def test_a_pause_cuts_a_message() -> None:
    assert len(records_of([(0, MS, 5 * MS, 2 << 20)])) == 4


def test_a_long_idle_timeout_merges_across_pauses() -> None:
    assert len(records_of([(0, MS, 5 * MS, 2 << 20), (9 * MS, MS, 0, 2 << 20)], idle_ms=15)) == 2


def test_the_active_timeout_splits_long_records() -> None:
    transfers = [(i * 20 * MS, 20 * MS, 0, 160 << 20) for i in range(20)]
    assert len(records_of(transfers)) == 2
    assert len(records_of(transfers, active_s=0.1)) >= 8


def test_a_throttled_transfer_falls_into_bursts() -> None:
    records = records_of([(0, 100 * MS, 0, 4 << 20)])
    assert len(records) > 30
