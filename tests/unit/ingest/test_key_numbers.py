"""Keys are numbered in the order of their coming, however they come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.ingest import key_numbers
from llmprism.ingest.key_numbers import KeyNumbers

KEYS = st.integers(0, 5) | st.integers(2**64 - 3, 2**64 - 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(KEYS, min_size=1, max_size=12), max_size=5), st.integers(0, 5))
def test_numbers_follow_the_coming(blocks: list[list[int]], hashed_from: int) -> None:
    """Blocks may be sorted at first and hashed later, when a large one has come."""
    numbers, known, row = KeyNumbers(), dict[int, tuple[int, int]](), 0
    with pytest.MonkeyPatch.context() as patch:
        for place, block in enumerate(blocks):
            if place == hashed_from:
                patch.setattr(key_numbers, "SMALL_TABLE", 0)
            start_ns = np.arange(row, row + len(block))
            row += len(block)
            found = numbers.number(np.array(block, dtype=np.uint64), start_ns)
            for key, time in zip(block, start_ns.tolist(), strict=True):
                known.setdefault(key, (len(known), time))
            assert found.tolist() == [known[key][0] for key in block]
            assert found.dtype == np.int32
    assert numbers.keys.tolist() == list(known)
    assert numbers.times.tolist() == [time for _, time in known.values()]
    assert numbers.numbers_of(numbers.keys[::-1]).tolist() == list(range(len(known)))[::-1]


def test_the_table_grows() -> None:
    """More keys than the first table has places, some of them equal in all low bits."""
    keys = np.concatenate([np.arange(150_000, dtype=np.uint64), np.arange(100_000, dtype=np.uint64) << np.uint64(40)])
    numbers = KeyNumbers()
    first = numbers.number(keys, np.arange(keys.size))
    again = numbers.number(keys[::-1].copy(), np.zeros(keys.size, dtype=np.int64))
    np.testing.assert_array_equal(first, np.concatenate([np.arange(150_000), [0], np.arange(150_000, 249_999)]))
    np.testing.assert_array_equal(again, first[::-1])
    np.testing.assert_array_equal(numbers.keys, np.delete(keys, 150_000))
