"""Wrappers that collectors put around every line are taken off before anything looks at the text.

Colours and other escape sequences are cut out of a block in place. Lines in JSON (docker's `{"log": ..., "time": ...}`,
fluent-bit, structured loggers) become `TIME [rankN]: [pod/NAME] text` with the text unescaped: the same form that the
other prefixes have. A line break inside a JSON text becomes a carriage return, which ends a line but not a line number,
so that numbers still count lines of the file. Lines without a text field stay as they are.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from llmprism.arrays import Int64, UInt8
from llmprism.kernel_cache import compiled
from llmprism.logs.masking import skip_escape

__all__ = ["is_json_wrapped", "strip_escapes", "unwrap_json"]


_TEXT, _TIME, _RANK, _NODE, _MORE = range(5)
_FIELDS: Final = (
    (_TEXT, ("log", "message", "msg", "MESSAGE", "textPayload", "body", "line", "event")),
    (_TIME, ("time", "timestamp", "@timestamp", "ts", "asctime", "datetime", "date")),
    (_RANK, ("rank", "global_rank", "RANK", "process_index")),
    (_NODE, ("pod_name", "hostname", "host", "node", "node_name", "_HOSTNAME", "nodename", "pod")),
    (_MORE, ("exc_info", "exception", "stack_trace", "traceback", "exc_text", "stack")),
)
"""Names of fields by what they hold: docker, fluent-bit, Cloud Logging, journald, structlog, python-json-logger."""

_KEY_BYTES: Final = 16
_JSON_SHARE: Final = 0.6
"""Share of the first lines that must be JSON with a text for the file to be unwrapped."""

_HEAD_LINES: Final = 50


def _field_table() -> tuple[UInt8, Int64, Int64]:
    names = [(name.encode(), kind) for kind, words in _FIELDS for name in words]
    table = np.zeros((len(names), _KEY_BYTES), dtype=np.uint8)
    for row, (name, _) in enumerate(names):
        table[row, : len(name)] = np.frombuffer(name, dtype=np.uint8)
    return table, np.array([len(name) for name, _ in names]), np.array([kind for _, kind in names])


_NAMES, _SIZES, _KINDS = _field_table()


def is_json_wrapped(head: bytes) -> bool:
    """Whether the first whole lines of a file are JSON objects that carry a text."""
    lines = [line for line in head.split(b"\n")[:_HEAD_LINES] if line.strip()]
    if len(lines) > 1 and len(head) > len(lines[0]) and not head.endswith(b"\n"):
        lines = lines[:-1]
    texts = set(_FIELDS[_TEXT][1])
    good = 0
    for line in lines:
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        good += isinstance(entry, dict) and any(isinstance(entry.get(name), str) for name in texts)
    return bool(lines) and good >= _JSON_SHARE * len(lines)


@compiled
def strip_escapes(buf: UInt8, size: int) -> int:
    """Cut escape sequences out of `buf[:size]` in place; the new size."""
    used = 0
    i = 0
    while i < size:
        if buf[i] == 27:
            end = i + 1
            while end < size and buf[end] != 10 and end - i < 4096:
                end += 1
            i = skip_escape(buf, i, end)
            continue
        buf[used] = buf[i]
        used += 1
        i += 1
    return used


@compiled
def _string_end(buf: UInt8, i: int, end: int) -> int:
    """The offset of the quote that closes the string whose first byte is at `i`."""
    while i < end and buf[i] != 34:
        i += 2 if buf[i] == 92 else 1
    return min(i, end)


@compiled
def _kind(buf: UInt8, start: int, end: int, names: UInt8, sizes: Int64, kinds: Int64) -> int:
    for row in range(sizes.size):
        if sizes[row] != end - start:
            continue
        same = True
        for k in range(end - start):
            if buf[start + k] != names[row, k]:
                same = False
                break
        if same:
            return int(kinds[row])
    return -1


@compiled
def _find_fields(
    buf: UInt8,
    i: int,
    end: int,
    names: UInt8,
    sizes: Int64,
    kinds: Int64,
    spans: Int64,
) -> None:
    """Where the values of known fields lie, `spans[kind] = start, end`; the first of a kind counts."""
    spans[:] = -1
    while i < end:
        if buf[i] != 34:
            i += 1
            continue
        key_start, key_end = i + 1, _string_end(buf, i + 1, end)
        i = key_end + 1
        while i < end and buf[i] == 32:
            i += 1
        if i >= end or buf[i] != 58:
            continue
        i += 1
        while i < end and buf[i] == 32:
            i += 1
        if i >= end:
            break
        kind = _kind(buf, key_start, key_end, names, sizes, kinds)
        if buf[i] == 34:
            start, stop = i + 1, _string_end(buf, i + 1, end)
            i = stop + 1
            if kind >= 0 and spans[kind, 0] < 0:
                spans[kind, 0], spans[kind, 1] = start, stop
        elif 48 <= buf[i] <= 57:
            start = i
            while i < end and 48 <= buf[i] <= 57:
                i += 1
            if kind == _RANK and spans[kind, 0] < 0:
                spans[kind, 0], spans[kind, 1] = start, i


@compiled
def _hex(buf: UInt8, i: int, end: int) -> int:
    if i + 4 > end:
        return 63
    value = 0
    for k in range(i, i + 4):
        c = int(buf[k])
        digit = c - 48 if 48 <= c <= 57 else (c | 32) - 87 if 97 <= (c | 32) <= 102 else 0
        value = value * 16 + digit
    return value


@compiled
def _copy(buf: UInt8, start: int, end: int, out: UInt8, used: int) -> int:
    count = min(end - start, out.size - used)
    for k in range(count):
        out[used + k] = buf[start + k]
    return used + max(count, 0)


@compiled
def _put_code(value: int, out: UInt8, used: int) -> int:
    """One character of `\\uXXXX` as UTF-8; halves of surrogate pairs become `?`."""
    if used + 3 > out.size:
        return used
    if value < 0x80:
        out[used] = value
        return used + 1
    if value < 0x800:
        out[used], out[used + 1] = 0xC0 | value >> 6, 0x80 | value & 63
        return used + 2
    if 0xD800 <= value < 0xE000:
        out[used] = 63
        return used + 1
    out[used], out[used + 1], out[used + 2] = 0xE0 | value >> 12, 0x80 | value >> 6 & 63, 0x80 | value & 63
    return used + 3


@compiled
def _put_text(buf: UInt8, i: int, end: int, out: UInt8, used: int, head_start: int, head_end: int) -> int:
    """The unescaped string; after an inner line break the head of the line (`out[head_start:head_end]`) again."""
    while i < end and used < out.size:
        c = int(buf[i])
        if c != 92 or i + 1 >= end:
            out[used] = c
            used += 1
            i += 1
            continue
        c = int(buf[i + 1])
        i += 2
        if c == 110 or c == 114:
            if i < end and buf[i] != 92:
                out[used] = 13
                used = _copy(out, head_start, head_end, out, used + 1)
        elif c == 116:
            out[used] = 9
            used += 1
        elif c == 117:
            used = _put_code(_hex(buf, i, end), out, used)
            i += 4
        else:
            out[used] = c
            used += 1
    return used


@compiled
def _put_head(buf: UInt8, spans: Int64, out: UInt8, used: int, tags: UInt8) -> int:
    """`TIME [rankN]: [pod/NAME] `, each where the line has it."""
    if spans[_TIME, 0] >= 0 and buf[spans[_TIME, 0]] == 50:
        used = _copy(buf, spans[_TIME, 0], spans[_TIME, 1], out, used)
        used = _copy(tags, 13, 14, out, used)
    if spans[_RANK, 0] >= 0:
        used = _copy(tags, 0, 5, out, used)
        used = _copy(buf, spans[_RANK, 0], spans[_RANK, 1], out, used)
        used = _copy(tags, 5, 8, out, used)
    if spans[_NODE, 0] >= 0:
        used = _copy(tags, 8, 13, out, used)
        used = _copy(buf, spans[_NODE, 0], spans[_NODE, 1], out, used)
        used = _copy(tags, 14, 16, out, used)
    return used


_TAGS: UInt8 = np.frombuffer(b"[rank]: [pod/ ] ", dtype=np.uint8)


@compiled
def _unwrap(
    buf: UInt8,
    size: int,
    out: UInt8,
    tags: UInt8,
    names: UInt8,
    sizes: Int64,
    kinds: Int64,
    spans: Int64,
) -> int:
    at = used = 0
    while at < size:
        end = at
        while end < size and buf[end] != 10:
            end += 1
        start = at
        while start < end and buf[start] == 32:
            start += 1
        spans[_TEXT, 0] = -1
        if start < end and buf[start] == 123:
            _find_fields(buf, start, end, names, sizes, kinds, spans)
        if spans[_TEXT, 0] < 0:
            used = _copy(buf, at, end, out, used)
        else:
            head = used
            used = _put_head(buf, spans, out, used, tags)
            head_end = used
            used = _put_text(buf, spans[_TEXT, 0], spans[_TEXT, 1], out, used, head, head_end)
            if spans[_MORE, 0] >= 0 and used < out.size:
                out[used] = 13
                used = _copy(out, head, head_end, out, used + 1)
                used = _put_text(buf, spans[_MORE, 0], spans[_MORE, 1], out, used, head, head_end)
        if end < size and used < out.size:
            out[used] = 10
            used += 1
        at = end + 1
    return used


def unwrap_json(buf: UInt8, size: int, out: UInt8) -> int:
    """The lines of `buf[:size]` without their JSON into `out`, which should have twice the room; the bytes used."""
    spans = np.empty((len(_FIELDS), 2), dtype=np.int64)
    return int(_unwrap(buf, size, out, _TAGS, _NAMES, _SIZES, _KINDS, spans))
