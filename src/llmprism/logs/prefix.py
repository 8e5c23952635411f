"""Where a line's text begins: the tags that launchers put before it are stepped over and hashed.

`12: ` (srun -l), `[rank3]:` and `[default3]:` (torchrun), `[1,3]<stdout>:` (mpirun), `(Worker pid=1, ip=10.0.0.1)`
(Ray), `[pod/name/container]` (kubectl), `host:pid:tid [0]` (NCCL), `host kernel:` (syslog), `host: ` (pdsh, where the
file is known to have it). A time between tags is read and stepped over too. What a tag means is worked out once per
tag in tags.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.kernel_cache import compiled
from llmprism.logs.clock import find_time
from llmprism.logs.masking import mix_bytes, skip_escape

__all__ = ["line_head"]

UInt8 = NDArray[np.uint8]

_ESCAPE = 27
_HASH_SEED = np.uint64(0xCBF29CE484222325)
_HASH_PRIME = np.uint64(0x9E3779B97F4A7C15)
_KERNEL: UInt8 = np.frombuffer(b" kernel:", dtype=np.uint8)
_MAX_PREFIX_PIECES = 4
_MAX_PIECE_BYTES = 200


@compiled
def _digits(buf: UInt8, i: int, end: int) -> int:
    """The offset after the digits at `i`."""
    while i < end and 48 <= buf[i] <= 57:
        i += 1
    return i


@compiled
def _bracket_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`[rank3]:`, `[default3]:`, `[3]:`, `[1,3]<stdout>:`, `[pod/name/container] `: (after it, end of the tag)."""
    j = i + 1
    if j + 4 < end and buf[j] == 112 and buf[j + 1] == 111 and buf[j + 2] == 100 and buf[j + 3] == 47:
        while j < end and buf[j] != 93 and j - i < _MAX_PIECE_BYTES:
            j += 1
        return (j + 1, j) if j < end and buf[j] == 93 else (i, i)
    while j < end and ((97 <= buf[j] <= 122) or (65 <= buf[j] <= 90) or buf[j] == 95) and j - i < 32:
        j += 1
    k = _digits(buf, j, end)
    if k == j or k - j > 7 or k >= end:
        return i, i
    if buf[k] == 44:
        k2 = _digits(buf, k + 1, end)
        if k2 > k + 1 and k2 + 1 < end and buf[k2] == 93 and buf[k2 + 1] == 60:
            tag_end = k2
            while k2 < end and buf[k2] != 62 and k2 - tag_end < 16:
                k2 += 1
            if k2 + 1 < end and buf[k2] == 62 and buf[k2 + 1] == 58:
                return k2 + 2, tag_end
        return i, i
    if k + 1 < end and buf[k] == 93 and buf[k + 1] == 58:
        return k + 2, k
    return i, i


@compiled
def _worker_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`(RayTrainWorker pid=123, ip=10.0.0.1) `: (after it, end of the tag)."""
    j = i + 1
    seen = False
    while j < end and j - i < _MAX_PIECE_BYTES and buf[j] != 41:
        if j + 4 < end and buf[j] == 112 and buf[j + 1] == 105 and buf[j + 2] == 100 and buf[j + 3] == 61:
            seen = True
        j += 1
    if seen and j < end and buf[j] == 41:
        return j + 1, j
    return i, i


@compiled
def _nccl_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`host:pid:tid [device] `: (after it, end of `host:pid`)."""
    j = i
    colon_1 = colon_2 = -1
    stop = min(end, i + _MAX_PIECE_BYTES)
    while j < stop and buf[j] != 32:
        if buf[j] == 58:
            colon_1, colon_2 = colon_2, j
        j += 1
    if colon_1 <= i or j + 3 >= end or buf[j + 1] != 91:
        return i, i
    if _digits(buf, colon_1 + 1, end) != colon_2 or colon_2 == colon_1 + 1:
        return i, i
    if _digits(buf, colon_2 + 1, end) != j or j == colon_2 + 1:
        return i, i
    k = _digits(buf, j + 2, end)
    if k > j + 2 and k < end and buf[k] == 93:
        return k + 1, colon_2
    return i, i


@compiled
def _host_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`host: ` of pdsh and its like; asked for only in files that are known to have it."""
    j = i
    while j < end and j - i < 64:
        c = buf[j]
        if not ((97 <= c <= 122) or (65 <= c <= 90) or (48 <= c <= 57) or c == 45 or c == 46 or c == 95):
            break
        j += 1
    if j > i and j + 1 < end and buf[j] == 58 and buf[j + 1] == 32:
        return j + 2, j
    return i, i


@compiled
def _kernel_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`host kernel: ` of a syslog, after its time: (the offset of `kernel`, end of the host)."""
    j = i
    while j < end and j - i < 64 and buf[j] != 32:
        j += 1
    if j == i or j + 8 >= end:
        return i, i
    for k in range(_KERNEL.size):
        if buf[j + k] != _KERNEL[k]:
            return i, i
    return j + 1, j


@compiled
def _piece(buf: UInt8, i: int, end: int, first: bool, host_prefix: bool) -> tuple[int, int]:
    """One tag of the prefix at `i`: (offset after it, end of its telling part); (i, i) where there is none."""
    c = buf[i]
    if 48 <= c <= 57:
        if first:
            j = _digits(buf, i, end)
            if j - i <= 6 and j + 1 < end and buf[j] == 58 and buf[j + 1] == 32:
                return j + 1, j
            if j - i <= 6 and j + 1 == end and buf[j] == 58:
                return end, j
        return _nccl_piece(buf, i, end)
    if c == 91:
        return _bracket_piece(buf, i, end)
    if c == 40:
        return _worker_piece(buf, i, end)
    if first and host_prefix:
        after, tag_end = _host_piece(buf, i, end)
        if after > i:
            return after, tag_end
    if (97 <= c <= 122) or (65 <= c <= 90):
        return _nccl_piece(buf, i, end)
    return i, i


@compiled
def line_head(buf: UInt8, i: int, end: int, host_prefix: bool) -> tuple[int, np.uint64, int]:
    """(offset of the text, hash of the tags, time in ns or 0). A time between tags is stepped over."""
    tags = np.uint64(0)
    time_ns = 0
    pieces = 0
    text = i
    while pieces < _MAX_PREFIX_PIECES:
        while i < end and (buf[i] == 32 or buf[i] == 9 or buf[i] == _ESCAPE):
            i = skip_escape(buf, i, end) if buf[i] == _ESCAPE else i + 1
        if i >= end:
            break
        after, tag_end = _piece(buf, i, end, pieces == 0, host_prefix)
        if after == i and time_ns != 0:
            after, tag_end = _kernel_piece(buf, i, end)
        if after > i:
            if tags == np.uint64(0):
                tags = _HASH_SEED
            tags = mix_bytes(buf, i, tag_end, tags) * _HASH_PRIME
            i = after
            text = i
            pieces += 1
            continue
        if time_ns == 0:
            found, time_start, time_end = find_time(buf, i, end)
            time_ns = found
            if found != 0 and time_start - i <= 1:
                i = time_end
                text = i
                continue
        break
    return text, tags, time_ns
