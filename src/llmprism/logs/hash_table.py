"""A hash table from 64-bit keys to small ids, in two NumPy arrays, for numba kernels.

Open addressing with linear probing; a slot holds `key` and `id`, id -1 is empty. The table is grown by its owner
(`KeyTable.reserve`) before a kernel inserts, so kernels never allocate. Keys are hashes already, so the low bits of
the key are the slot.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int32, UInt64
from llmprism.kernel_cache import compiled

__all__ = ["KeyTable", "assign", "find", "insert"]


_FIRST_SLOTS = 1 << 12


@compiled
def insert(keys: UInt64, ids: Int32, key: np.uint64, value: int) -> None:
    """Put `key` with id `value`; the caller knows that it is absent and that there is room."""
    mask = np.uint64(keys.size - 1)
    slot = key & mask
    while ids[slot] != -1:
        slot = (slot + np.uint64(1)) & mask
    keys[slot] = key
    ids[slot] = value


@compiled
def find(keys: UInt64, ids: Int32, key: np.uint64) -> int:
    """The id of `key`, or -1."""
    mask = np.uint64(keys.size - 1)
    slot = key & mask
    while ids[slot] != -1:
        if keys[slot] == key:
            return int(ids[slot])
        slot = (slot + np.uint64(1)) & mask
    return -1


@compiled
def assign(keys: UInt64, ids: Int32, used: int, limit: int, query: UInt64, out: Int32, first: Int32) -> int:
    """Ids of all `query` keys into `out`; unknown ones get the next ids and `first[id - used]` their row.

    Returns the new number of keys. `first` must have room for as many new keys as there can be. Once `limit` keys
    are known, a new key gets id -1.
    """
    mask = np.uint64(keys.size - 1)
    start = used
    previous_key = np.uint64(0)
    previous_id = -1
    for row in range(query.size):
        key = query[row]
        if previous_id >= 0 and key == previous_key:
            out[row] = previous_id
            continue
        slot = key & mask
        while ids[slot] != -1 and keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        if ids[slot] == -1:
            if used >= limit:
                out[row] = -1
                continue
            keys[slot] = key
            ids[slot] = used
            first[used - start] = row
            used += 1
        out[row] = ids[slot]
        previous_key, previous_id = key, int(ids[slot])
    return used


@compiled
def _rehash(old_keys: UInt64, old_ids: Int32, keys: UInt64, ids: Int32) -> None:
    for slot in range(old_keys.size):
        if old_ids[slot] != -1:
            insert(keys, ids, old_keys[slot], old_ids[slot])


class KeyTable:
    """Keys in order of first sight: the first key seen has id 0. At most `limit` keys; later ones have id -1."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._keys: UInt64 = np.zeros(_FIRST_SLOTS, dtype=np.uint64)
        self._ids: Int32 = np.full(_FIRST_SLOTS, -1, dtype=np.int32)
        self.used = 0

    def reserve(self, more: int) -> None:
        """Make room for `more` new keys at a load of at most one half."""
        slots = self._keys.size
        while (self.used + more) * 2 > slots:
            slots *= 2
        if slots != self._keys.size:
            keys: UInt64 = np.zeros(slots, dtype=np.uint64)
            ids: Int32 = np.full(slots, -1, dtype=np.int32)
            _rehash(self._keys, self._ids, keys, ids)
            self._keys, self._ids = keys, ids

    def assign(self, query: UInt64) -> tuple[Int32, Int32]:
        """Ids of the keys, and for each key not seen before the first row that has it (in id order)."""
        self.reserve(min(query.size, self.limit - self.used))
        out: Int32 = np.empty(query.size, dtype=np.int32)
        first: Int32 = np.empty(query.size, dtype=np.int32)
        before = self.used
        self.used = int(assign(self._keys, self._ids, before, self.limit, query, out, first))
        return out, first[: self.used - before]

    def find(self, key: int) -> int:
        return int(find(self._keys, self._ids, np.uint64(key)))
