from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from llmprism.logs.log_times import YEARLESS_END_NS, find_time, set_year, year_of


def ns(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 10**9  # type: ignore[misc,arg-type]


def found(text: str) -> int:
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    return int(find_time(data, 0, data.size)[0])


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("[2026-11-15 02:26:43] x", ns(2026, 11, 15, 2, 26, 43)),
        ("2026-11-15T02:26:43Z x", ns(2026, 11, 15, 2, 26, 43)),
        ("2026-11-15T02:26:43+02:00 x", ns(2026, 11, 15, 0, 26, 43)),
        ("2023-05-03 23:31:15,179 name INFO: x", ns(2023, 5, 3, 23, 31, 15) + 179_000_000),
        ("2026/11/15 02:26:43 x", ns(2026, 11, 15, 2, 26, 43)),
        ("[NeMo I 2025-09-30 09:59:42 calc:228] x", ns(2025, 9, 30, 9, 59, 42)),
        ("ENDING TIMING RUN AT 2023-07-30 03:37:44 PM", ns(2023, 7, 30, 15, 37, 44)),
        (':::MLLOG {"namespace": "", "time_ms": 1690729737399, "key": "x"}', 1_690_729_737_399 * 10**6),
        ("slurmstepd: error: *** STEP 1.1 ON n CANCELLED AT 2023-07-30T11:09:01 ***", ns(2023, 7, 30, 11, 9, 1)),
        ("no time here 12:34 and 2026 not", 0),
        ("2026-13-45 99:99:99 x", 0),
        ("", 0),
    ],
)
def test_times_are_read(text: str, when: int) -> None:
    assert found(text) == when


@pytest.mark.parametrize(
    "text", ["[E1115 02:26:43.5 a.cpp:1] x", "E1115 02:26:43.5 521 x", "Nov 15 02:26:43 host kernel: x"]
)
def test_times_without_a_year_get_one_later(text: str) -> None:
    when = np.array([found(text)], dtype=np.int64)
    assert 0 < when[0] < YEARLESS_END_NS
    moved = set_year(when, 2026)
    assert abs(int(moved[0]) - ns(2026, 11, 15, 2, 26, 43)) < 10**9
    assert year_of(int(moved[0])) == 2026


def test_three_digit_months_and_days() -> None:
    moved = set_year(np.array([found("[E511 01:46:13.8 x")], dtype=np.int64), 2025)
    assert int(moved[0]) // 10**9 == ns(2025, 5, 11, 1, 46, 13) // 10**9
