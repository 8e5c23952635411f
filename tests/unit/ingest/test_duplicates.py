"""One transfer counts once, and two transfers count twice."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.ingest.duplicates import duplicate_rows
from llmprism.ingest.rules import RULES

SKEW_NS = RULES.clock_skew_ns

MS = 1_000_000


def dropped(rows: list[tuple[int, int, int, int, int]], skew_ns: int = SKEW_NS, exporters: bool = True) -> list[bool]:
    """Rows of one pair as (start, end, bytes, connection, exporter), sorted by start."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    assert (np.diff(table[:, 0]) >= 0).all()
    offsets = np.array([0, len(rows)], dtype=np.int64)
    exporter = table[:, 4].astype(np.int32) if exporters else None
    connection = table[:, 3].astype(np.uint64)
    start, end, size = (np.ascontiguousarray(table[:, column]) for column in range(3))
    return duplicate_rows(offsets, start, end, size, connection, exporter, skew_ns).tolist()


def test_two_exporters_with_skewed_clocks() -> None:
    assert dropped([(0, 10, 5, 1, 0), (2 * MS, 10 + 2 * MS, 5, 1, 1)]) == [False, True]


def test_two_equal_messages_seen_twice_stay_two() -> None:
    rows = [(0, 10, 5, 1, 0), (1 * MS, 1 * MS + 10, 5, 1, 1), (2 * MS, 2 * MS + 10, 5, 1, 0), (3 * MS, 3 * MS, 5, 1, 1)]
    assert dropped(rows) == [False, True, False, True]


def test_three_exporters() -> None:
    assert dropped([(0, 10, 5, 1, 0), (1, 11, 5, 1, 1), (2, 12, 5, 1, 2)]) == [False, True, True]


def test_other_bytes_connection_or_time_is_another_transfer() -> None:
    assert not any(dropped([(0, 10, 5, 1, 0), (1, 11, 6, 1, 1)]))
    assert not any(dropped([(0, 10, 5, 1, 0), (1, 11, 5, 2, 1)]))
    assert not any(dropped([(0, 10, 5, 1, 0), (SKEW_NS + 1, SKEW_NS + 1, 5, 1, 1)]))
    assert not any(dropped([(0, 10, 5, 1, 0), (0, 11 + SKEW_NS, 5, 1, 1)]))


def test_without_ports_only_the_very_same_times_are_one() -> None:
    assert not any(dropped([(0, 10, 5, 0, 0), (1, 11, 5, 0, 1)]))
    assert dropped([(0, 10, 5, 0, 0), (0, 10, 5, 0, 1)]) == [False, True]


def test_one_exporter_repeats_itself_only_with_ports() -> None:
    for exporters in (True, False):
        assert dropped([(0, 10, 5, 1, 0), (0, 10, 5, 2, 0), (0, 10, 5, 1, 0)], exporters=exporters) == [
            False,
            False,
            True,
        ]
        assert not any(dropped([(0, 10, 5, 0, 0), (0, 10, 5, 0, 0)], exporters=exporters))
        assert not any(dropped([(0, 10, 5, 1, 0), (0, 11, 5, 1, 0)], exporters=exporters))


def test_pairs_do_not_mix() -> None:
    ones = np.ones(2, dtype=np.int64)
    assert not duplicate_rows(
        np.array([0, 1, 2]), ones, ones, ones, np.ones(2, dtype=np.uint64), np.array([0, 1], dtype=np.int32), SKEW_NS
    ).any()


def test_no_rows() -> None:
    none = np.zeros(0, dtype=np.int64)
    for exporter in (None, none.astype(np.int32)):
        offsets, connection = np.zeros(1, dtype=np.int64), none.astype(np.uint64)
        assert not duplicate_rows(offsets, none, none, none, connection, exporter, SKEW_NS).size


@settings(max_examples=100, deadline=None)
@given(
    starts=st.lists(st.integers(0, 50), min_size=1, max_size=30),
    skews=st.lists(st.integers(-3, 3), min_size=1, max_size=3),
)
def test_every_transfer_is_kept_once_whatever_the_skew(starts: list[int], skews: list[int]) -> None:
    """All exporters see all transfers of one connection with equal sizes, each with a constant clock error."""
    starts = sorted(set(starts))
    rows = [
        ((100 + start + skew) * MS, (100 + start + skew) * MS + 7, 9, 1, exporter)
        for exporter, skew in enumerate([0, *skews])
        for start in starts
    ]
    result = dropped(sorted(rows), skew_ns=6 * MS)
    assert result.count(False) == len(starts)
