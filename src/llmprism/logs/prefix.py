"""Where a line's text begins: the tags that launchers put before it are stepped over and hashed.

`12: ` (srun -l), `[rank3]:` and `[default3]:` (torchrun), `[1,3]<stdout>:` (mpirun), `(Worker pid=1, ip=10.0.0.1)`
(Ray), `[pod/name/container]` (kubectl), `stdout F` after a time (Kubernetes), `host:pid:tid [0]` (NCCL), `host
kernel:` and `host program[pid]:` (syslog), `host: ` and `host | ` (pdsh, docker compose, where the file is known to
have it), `10.0.0.1: ` (pdsh), and a rank in words: `[Rank 3]`, `(rank 3)`, `rank=3`, `rank 3:`. A time between tags
is read and stepped over too.

A rank may also stand behind the words of a logger (`INFO [logging.py:96:log_dist] [Rank 3] step 5`): those are looked
through without stepping over them. What a tag means is worked out once per tag in tags.py.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import UInt8
from llmprism.kernel_cache import compiled
from llmprism.logs.log_times import find_time
from llmprism.logs.masking import ESCAPE, HASH_PRIME, HASH_SEED, mix_bytes, skip_escape

__all__ = ["line_head"]


_KERNEL: UInt8 = np.frombuffer(b" kernel:", dtype=np.uint8)
_RANK_WORD: UInt8 = np.frombuffer(b"rank", dtype=np.uint8)
_GLOBAL_WORD: UInt8 = np.frombuffer(b"global", dtype=np.uint8)
_STD_WORDS: UInt8 = np.frombuffer(b"stdoutstderr", dtype=np.uint8)
_MAX_PREFIX_PIECES = 4
_MAX_PIECE_BYTES = 200
_HEADER_TOKENS = 10
_HEADER_BYTES = 160
"""How far the words of a logger are looked through for a rank."""


@compiled
def _digits(buf: UInt8, i: int, end: int) -> int:
    """The offset after the digits at `i`."""
    while i < end and 48 <= buf[i] <= 57:
        i += 1
    return i


@compiled
def _same_word(buf: UInt8, i: int, end: int, word: UInt8) -> bool:
    """Whether the letters of a lower-case word stand at `i`, in any case."""
    if i + word.size > end:
        return False
    same = True
    for k in range(word.size):
        same = same and (buf[i + k] | 32) == word[k]
    return same


@compiled
def _rank_tag(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`rank 3`, `Rank: 3`, `RANK=3`, `rank3`, `global_rank=3` at `i`: (after it, the byte that joins) or (i, 0)."""
    j = i
    if _same_word(buf, j, end, _GLOBAL_WORD):
        j += _GLOBAL_WORD.size + 1
    if not _same_word(buf, j, end, _RANK_WORD):
        return i, 0
    j += _RANK_WORD.size
    joined = 0
    if j < end and (buf[j] == 32 or buf[j] == 58 or buf[j] == 61 or buf[j] == 95 or buf[j] == 35):
        joined = int(buf[j])
        j += 1
        if j < end and buf[j] == 32:
            j += 1
    k = _digits(buf, j, end)
    if k == j or k - j > 7:
        return i, 0
    return k, joined


@compiled
def _closed_rank(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`[Rank 3]`, `(rank 3)`, `<rank=3>`, with or without a colon after it: (after it, end of the tag)."""
    k, _ = _rank_tag(buf, i + 1, end)
    if k == i + 1 or k >= end or (buf[k] != 93 and buf[k] != 41 and buf[k] != 62):
        return i, i
    return (k + 2 if k + 1 < end and buf[k + 1] == 58 else k + 1), k


@compiled
def _open_rank(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`rank 3:`, `rank=3 `, `Rank 3 | `, `rank3[pid]`: (after it, end of the tag). A rank in a sentence is none."""
    k, joined = _rank_tag(buf, i, end)
    if k == i:
        return i, i
    if joined == 0 and k < end and buf[k] == 91:
        return k, k
    if k < end and (buf[k] == 58 or buf[k] == 124):
        return k + 1, k
    if joined == 61 and (k == end or buf[k] == 32 or buf[k] == 44):
        return min(k + 1, end), k
    if k + 2 < end and buf[k] == 32 and (buf[k + 1] == 124 or buf[k + 1] == 45) and buf[k + 2] == 32:
        return k + 2, k
    return i, i


@compiled
def _is_header_token(buf: UInt8, i: int, end: int) -> bool:
    """Whether the token `buf[i:end]` is a logger's: a level, a place in code, `key=value`, `-`, `|`; no prose."""
    upper = True
    for k in range(i, end):
        c = buf[k]
        if c == 61:
            return True
        if c == 58 and k + 1 < end and 48 <= buf[k + 1] <= 57:
            return True
        if not (65 <= c <= 90 or c == 45 or c == 124 or c == 58 or c == 44 or c == 46 or 48 <= c <= 57):
            upper = False
    return upper


@compiled
def _rank_at_close(buf: UInt8, start: int, close: int) -> int:
    """Where `rank=3` begins that ends at the bracket `close` (`[olmo.util:158, rank=3]`), or `close`."""
    k = close
    while k > start and 48 <= buf[k - 1] <= 57:
        k -= 1
    if k == close or close - k > 7 or not (buf[k - 1] == 61 or buf[k - 1] == 58 or buf[k - 1] == 32):
        return close
    word = k - 1 - _RANK_WORD.size
    if (
        word <= start
        or not _same_word(buf, word, close, _RANK_WORD)
        or not (buf[word - 1] == 32 or buf[word - 1] == 44)
    ):
        return close
    return word


@compiled
def _is_named_logger(buf: UInt8, i: int, end: int, stop: int) -> bool:
    """Whether the token `buf[i:end]` stands between dashes: a logger's name as Python's `%(name)s` prints it."""
    before = i >= 3 and buf[i - 1] == 32 and buf[i - 2] == 45 and buf[i - 3] == 32
    return before and end + 2 < stop and buf[end] == 32 and buf[end + 1] == 45 and buf[end + 2] == 32


@compiled
def _header_rank(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """A rank behind the words of a logger: (start, end) of the tag, or (i, i)."""
    at = i
    stop = min(end, i + _HEADER_BYTES)
    for _ in range(_HEADER_TOKENS):
        while at < stop and buf[at] == 32:
            at += 1
        if at >= stop:
            break
        if buf[at] == 91:
            after, tag_end = _closed_rank(buf, at, end)
            if after > at:
                return at, tag_end
            opened = at
            while at < stop and buf[at] != 93:
                at += 1
            if at < stop and _rank_at_close(buf, opened, at) < at:
                return _rank_at_close(buf, opened, at), at
            at += 1
            continue
        if (buf[at] | 32) == 114 or (buf[at] | 32) == 103:
            after, tag_end = _open_rank(buf, at, end)
            if after > at:
                return at, tag_end
        token_end = at
        while token_end < stop and buf[token_end] != 32:
            token_end += 1
        if not (_is_header_token(buf, at, token_end) or _is_named_logger(buf, at, token_end, stop)):
            break
        at = token_end
    return i, i


@compiled
def _bracket_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`[rank3]:`, `[default3]:`, `[3]:`, `[1,3]<stdout>:`, `[pod/name/container] `: (after it, end of the tag)."""
    after, tag_end = _closed_rank(buf, i, end)
    if after > i:
        return after, tag_end
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
    """`(RayTrainWorker pid=123, ip=10.0.0.1) `, `(rank 3) `: (after it, end of the tag)."""
    after, tag_end = _closed_rank(buf, i, end)
    if after > i:
        return after, tag_end
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
    """`host: ` of pdsh and `host | ` of docker compose; looked for only in files that are known to have it."""
    j = i
    while j < end and j - i < 64:
        c = buf[j]
        if not ((97 <= c <= 122) or (65 <= c <= 90) or (48 <= c <= 57) or c == 45 or c == 46 or c == 95):
            break
        j += 1
    if j > i and j + 1 < end and buf[j] == 58 and buf[j + 1] == 32:
        return j + 2, j
    k = j
    while k < end and buf[k] == 32:
        k += 1
    if j > i and k > j and k < end and buf[k] == 124:
        return k + 1, j
    return i, i


@compiled
def _address_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`10.0.0.1: ` of pdsh where hosts are listed by their addresses: (after it, end of the address)."""
    j = i
    for part in range(4):
        k = _digits(buf, j, end)
        if k == j or k - j > 3 or k >= end or buf[k] != (46 if part < 3 else 58):
            return i, i
        j = k + 1
    return (j, j - 1) if j == end or buf[j] == 32 else (i, i)


@compiled
def _numbered_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`12: ` of srun -l, or an address of pdsh: (after it, end of the tag)."""
    j = _digits(buf, i, end)
    if j - i <= 6 and j + 1 < end and buf[j] == 58 and buf[j + 1] == 32:
        return j + 1, j
    if j - i <= 6 and j + 1 == end and buf[j] == 58:
        return end, j
    return _address_piece(buf, i, end)


@compiled
def _stream_piece(buf: UInt8, i: int, end: int) -> int:
    """The offset after `stdout F ` or `stderr P ` of a Kubernetes log at `i`, else `i`."""
    if i + 8 > end or buf[i] != 115 or buf[i + 6] != 32 or (buf[i + 7] != 70 and buf[i + 7] != 80):
        return i
    if _same_word(buf, i, end, _STD_WORDS[:6]) or _same_word(buf, i, end, _STD_WORDS[6:]):
        return min(i + 9, end)
    return i


@compiled
def _program_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`host program[pid]: ` of a syslog, after its time: (after it, end of the host)."""
    j = i
    while j < end and j - i < 64 and buf[j] != 32:
        j += 1
    k = j + 1
    while k < end and k - j < 40 and buf[k] != 91 and buf[k] != 32 and buf[k] != 58:
        k += 1
    if j == i or k <= j + 1 or k >= end or buf[k] != 91:
        return i, i
    digits_end = _digits(buf, k + 1, end)
    if digits_end > k + 1 and digits_end + 1 < end and buf[digits_end] == 93 and buf[digits_end + 1] == 58:
        return digits_end + 2, j
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
def _syslog_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    after, tag_end = _kernel_piece(buf, i, end)
    return (after, tag_end) if after > i else _program_piece(buf, i, end)


@compiled
def _piece(buf: UInt8, i: int, end: int, first: bool, host_prefix: bool) -> tuple[int, int]:
    """One tag of the prefix at `i`: (offset after it, end of the part that identifies); (i, i) where there is none."""
    c = buf[i]
    if 48 <= c <= 57:
        after, tag_end = _numbered_piece(buf, i, end) if first else (i, i)
        return (after, tag_end) if after > i else _nccl_piece(buf, i, end)
    if c == 91 or c == 60:
        return _bracket_piece(buf, i, end) if c == 91 else _closed_rank(buf, i, end)
    if c == 40:
        return _worker_piece(buf, i, end)
    if first and host_prefix:
        after, tag_end = _host_piece(buf, i, end)
        if after > i:
            return after, tag_end
    if (97 <= c <= 122) or (65 <= c <= 90):
        if (c | 32) == 114 or (c | 32) == 103:
            after, tag_end = _open_rank(buf, i, end)
            if after > i:
                return after, tag_end
        return _nccl_piece(buf, i, end)
    return i, i


@compiled
def line_head(buf: UInt8, i: int, end: int, host_prefix: bool) -> tuple[int, int, np.uint64, int]:
    """(offset of the text, end of the last tag, hash of the tags, time in ns or 0). A time between tags is skipped."""
    tags = np.uint64(0)
    time_ns = 0
    pieces = 0
    text = i
    while pieces < _MAX_PREFIX_PIECES:
        while i < end and (buf[i] == 32 or buf[i] == 9 or buf[i] == ESCAPE):
            i = skip_escape(buf, i, end) if buf[i] == ESCAPE else i + 1
        if i >= end:
            break
        after, tag_end = _piece(buf, i, end, pieces == 0, host_prefix)
        if after == i and time_ns != 0:
            after, tag_end = _syslog_piece(buf, i, end)
        if after > i:
            if tags == np.uint64(0):
                tags = HASH_SEED
            tags = mix_bytes(buf, i, tag_end, tags) * HASH_PRIME
            i = after
            text = i
            pieces += 1
            continue
        if time_ns == 0:
            found, time_start, time_end = find_time(buf, i, end)
            time_ns = found
            if found != 0 and time_start - i <= 1:
                i = time_end
                if i < end and buf[i] == 32:
                    i = _stream_piece(buf, i + 1, end)
                text = i
                continue
        break
    start, tag_end = _header_rank(buf, text, end)
    if tag_end > start:
        if tags == np.uint64(0):
            tags = HASH_SEED
        return text, tag_end, mix_bytes(buf, start, tag_end, tags) * HASH_PRIME, time_ns
    return text, text, tags, time_ns
