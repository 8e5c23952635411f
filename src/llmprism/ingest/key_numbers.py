"""Numbers 64-bit keys 0, 1, 2, … in the order in which they come, a block of rows at a time.

Large blocks go through an open hash table in a kernel, the block of a small input through a sort; the numbers are the
same. The place of a key in the table depends on a factor that nobody can know beforehand, so that keys cannot be chosen
to fall into one place.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np

from llmprism.arrays import Int32, Int64, UInt64
from llmprism.ingest.record_order import SMALL_TABLE
from llmprism.kernel import compiled_kernel

__all__ = ["KeyNumbers", "Keys"]

Keys = UInt64

_FIRST_SLOTS: Final = 1 << 16
"""Places of the first table: small enough for a core's cache while keys are few."""


class KeyNumbers:
    """The keys seen so far: a key's number is its place among them."""

    def __init__(self) -> None:
        self._keys: Keys = np.zeros(0, dtype=np.uint64)
        self._times: Int64 = np.zeros(0, dtype=np.int64)
        self._count = 0
        self._slots: Int32 | None = None
        self._factor = np.uint64(secrets.randbits(64) | 1)

    @property
    def keys(self) -> Keys:
        return self._keys[: self._count]

    @property
    def times(self) -> Int64:
        """When the first row of each key starts."""
        return self._times[: self._count]

    def number(self, keys: Keys, start_ns: Int64) -> Int32:
        """The numbers of these rows' keys; new keys are remembered."""
        if self._slots is None and keys.size <= SMALL_TABLE:
            return self._by_sorting(keys, start_ns)
        return self._by_hashing(keys, start_ns)

    def numbers_of(self, keys: Keys) -> Int64:
        """The numbers of keys that have been seen before."""
        order = np.argsort(self.keys)
        return order[np.searchsorted(self.keys, keys, sorter=order)]

    def _by_sorting(self, keys: Keys, start_ns: Int64) -> Int32:
        known = self._count
        distinct, first, inverse = np.unique(np.concatenate([self.keys, keys]), return_index=True, return_inverse=True)
        by_coming = np.argsort(first)
        number = np.empty(distinct.size, dtype=np.int32)
        number[by_coming] = np.arange(distinct.size, dtype=np.int32)
        self._keys, self._count = distinct[by_coming], distinct.size
        self._times = np.concatenate([self.times[:known], start_ns[first[by_coming[known:]] - known]])
        return number[inverse[known:]]

    def _by_hashing(self, keys: Keys, start_ns: Int64) -> Int32:
        numbers, first_rows = np.empty(keys.size, dtype=np.int32), np.empty(keys.size, dtype=np.int32)
        slots = self._grown(_FIRST_SLOTS) if self._slots is None else self._slots
        row = 0
        while row < keys.size:
            row, count = _number_keys(keys, row, slots, self._factor, self._keys, self._count, numbers, first_rows)
            self._times[self._count : count] = start_ns[first_rows[: count - self._count]]
            self._count = count
            if row < keys.size:
                slots = self._grown(2 * slots.size)
        return numbers

    def _grown(self, slot_count: int) -> Int32:
        """A larger table of the same keys; it takes half as many keys as it has places."""
        while slot_count < 4 * self._count:
            slot_count *= 2
        room = slot_count // 2 - self._count
        self._keys = np.concatenate([self.keys, np.zeros(room, dtype=np.uint64)])
        self._times = np.concatenate([self.times, np.zeros(room, dtype=np.int64)])
        self._slots = np.full(slot_count, -1, dtype=np.int32)
        _fill_slots(self._slots, self._factor, self.keys)
        return self._slots


@compiled_kernel
def _number_keys(
    keys: Keys,
    first: int,
    slots: Int32,
    factor: np.uint64,
    known: Keys,
    count: int,
    numbers: Int32,
    first_rows: Int32,
) -> tuple[int, int]:
    """Numbers the rows from `first` on until there is no room for a new key; (rows done, keys known).

    Writes the rows at which new keys come to `first_rows`.
    """
    before = count
    for row in range(first, keys.size):
        slot = _slot_of(keys[row], slots, factor, known)
        number = slots[slot]
        if number < 0:
            if count == known.size:
                return row, count
            number = count
            known[count], slots[slot], first_rows[count - before] = keys[row], count, row
            count += 1
        numbers[row] = number
    return keys.size, count


@compiled_kernel
def _fill_slots(slots: Int32, factor: np.uint64, known: Keys) -> None:
    for number in range(known.size):
        slots[_slot_of(known[number], slots, factor, known)] = number


@compiled_kernel
def _slot_of(key: np.uint64, slots: Int32, factor: np.uint64, known: Keys) -> int:
    """The place of the key, or the empty one where it belongs. `slots` are a power of two, never all taken."""
    slot = np.int64((key * factor) >> np.uint64(32)) & (slots.size - 1)
    while slots[slot] >= 0 and known[slots[slot]] != key:
        slot = (slot + 1) & (slots.size - 1)
    return int(slot)
