"""Times as logs write them → nanoseconds since the Unix epoch, as numba kernels.

Forms: `2026-11-15 02:26:43`, `2026-11-15T02:26:43.125Z`, `2026/11/15 02:26:43,125`, with AM/PM; glog and c10d
`E1115 02:26:43.125`; syslog and dmesg -T `Nov 15 02:26:43`; MLLOG `"time_ms": 1690729737399`. Times without a zone are
taken as UTC: all lines of one cluster share the error. Forms without a year get YEARLESS (1972) and are put in the
right year later by `set_year`. 0 means: no time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Int64, UInt8
from llmprism.kernel_cache import compiled
from llmprism.units import SECOND

__all__ = ["YEARLESS_END_NS", "find_time", "set_year", "year_of"]


_DAY_SECONDS: Final = 86_400
YEARLESS: Final = 1972
"""A leap year before any log, so that `29 February` without a year has a place."""

YEARLESS_END_NS: Final = 3 * 366 * _DAY_SECONDS * SECOND
"""Every time below this came from a form without a year."""

_SEARCH_BYTES: Final = 110
"""How far into the text a time is looked for: Slurm's cancel line has it after some 60 bytes."""

_MONTHS: UInt8 = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", dtype=np.uint8)


@compiled
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 (Hinnant's civil-to-days)."""
    y = year - (1 if month <= 2 else 0)
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return int(era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468)


@compiled
def _number(buf: UInt8, i: int, digits: int) -> int:
    """The number of exactly these digits at `i`, or -1. The caller has checked the room."""
    value = 0
    for k in range(i, i + digits):
        if not (48 <= buf[k] <= 57):
            return -1
        value = value * 10 + int(buf[k]) - 48
    return value


@compiled
def _clock(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`HH:MM:SS[.,fraction][ AM| PM]` at `i`: (ns within the day, offset after it); (-1, i) where there is none."""
    if i + 8 > end or buf[i + 2] != 58 or buf[i + 5] != 58:
        return -1, i
    hour, minute, second = _number(buf, i, 2), _number(buf, i + 3, 2), _number(buf, i + 6, 2)
    if hour < 0 or minute < 0 or second < 0 or hour > 23 or minute > 59 or second > 60:
        return -1, i
    j = i + 8
    fraction = 0
    if j + 1 < end and (buf[j] == 46 or buf[j] == 44) and 48 <= buf[j + 1] <= 57:
        j += 1
        scale = 100_000_000
        while j < end and 48 <= buf[j] <= 57:
            fraction += (int(buf[j]) - 48) * scale
            scale //= 10
            j += 1
    if j + 2 < end and buf[j] == 32 and buf[j + 2] == 77:
        if buf[j + 1] == 80 and hour < 12:
            hour += 12
        elif buf[j + 1] == 65 and hour == 12:
            hour = 0
    return (hour * 3600 + minute * 60 + second) * 1_000_000_000 + fraction, j


@compiled
def _iso(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`YYYY-MM-DD HH:MM:SS` and its relatives at `i`, zone applied: (ns, offset after it) or (0, i)."""
    if i + 19 > end or (buf[i + 4] != 45 and buf[i + 4] != 47) or buf[i + 7] != buf[i + 4]:
        return 0, i
    year, month, day = _number(buf, i, 4), _number(buf, i + 5, 2), _number(buf, i + 8, 2)
    if year < 2000 or year > 2199 or month < 1 or month > 12 or day < 1 or day > 31:
        return 0, i
    separator = buf[i + 10]
    if separator != 32 and separator != 84 and separator != 95 and separator != 45:
        return 0, i
    ns, j = _clock(buf, i + 11, end)
    if ns < 0:
        return 0, i
    shift = 0
    if j < end and buf[j] == 90:
        j += 1
    elif j + 6 <= end and (buf[j] == 43 or buf[j] == 45) and buf[j + 3] == 58:
        hours, minutes = _number(buf, j + 1, 2), _number(buf, j + 4, 2)
        if hours >= 0 and minutes >= 0:
            shift = (hours * 3600 + minutes * 60) * (1 if buf[j] == 43 else -1)
            j += 6
    return (_days(year, month, day) * 86400 - shift) * 1_000_000_000 + ns, j


@compiled
def _glog(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`E1115 02:26:43.125`, and `E511 ...` (May 11) of some builds, at `i`: (ns in YEARLESS, offset) or (0, i)."""
    if i + 13 > end:
        return 0, i
    c = buf[i]
    if c != 73 and c != 87 and c != 69 and c != 70 and c != 68:
        return 0, i
    digits = 0
    while digits < 5 and 48 <= buf[i + 1 + digits] <= 57:
        digits += 1
    if digits == 4:
        month, day = _number(buf, i + 1, 2), _number(buf, i + 3, 2)
    elif digits == 3:
        month, day = _number(buf, i + 1, 1), _number(buf, i + 2, 2)
    else:
        return 0, i
    if buf[i + 1 + digits] != 32 or month < 1 or month > 12 or day < 1 or day > 31:
        return 0, i
    ns, j = _clock(buf, i + 2 + digits, end)
    if ns < 0:
        return 0, i
    return _days(1972, month, day) * 86_400_000_000_000 + ns, j


@compiled
def _syslog(buf: UInt8, i: int, end: int, months: UInt8) -> tuple[int, int]:
    """`Nov 15 02:26:43` at `i`: (ns in YEARLESS, offset after it) or (0, i)."""
    if i + 15 > end or buf[i + 3] != 32 or buf[i + 6] != 32:
        return 0, i
    month = 0
    for m in range(12):
        if buf[i] == months[3 * m] and buf[i + 1] == months[3 * m + 1] and buf[i + 2] == months[3 * m + 2]:
            month = m + 1
    day = _number(buf, i + 5, 1) if buf[i + 4] == 32 else _number(buf, i + 4, 2)
    if month == 0 or day < 1 or day > 31:
        return 0, i
    ns, j = _clock(buf, i + 7, end)
    if ns < 0:
        return 0, i
    return _days(1972, month, day) * 86_400_000_000_000 + ns, j


@compiled
def _mllog(buf: UInt8, i: int, end: int) -> int:
    """The value of `"time_ms": ` of an MLLOG line in ns, or 0."""
    stop = min(end, i + 80)
    while i + 11 < stop:
        if buf[i] == 116 and buf[i + 5] == 109 and buf[i + 6] == 115 and buf[i + 7] == 34 and buf[i + 8] == 58:
            j = i + 9
            while j < end and buf[j] == 32:
                j += 1
            value = 0
            digits = 0
            while j < end and 48 <= buf[j] <= 57 and digits < 14:
                value = value * 10 + int(buf[j]) - 48
                digits += 1
                j += 1
            return value * 1_000_000 if digits == 13 else 0
        i += 1
    return 0


@compiled
def find_time(buf: UInt8, i: int, end: int) -> tuple[int, int, int]:
    """The first time in the text at `i`: (ns, where it begins, where it ends incl. a closing bracket) or (0, i, i).

    A glog time is said to begin two bytes later than it does, because its letter is the level and stays in the text.
    """
    if i >= end:
        return 0, i, i
    if buf[i] == 58 and i + 8 < end and buf[i + 1] == 58 and buf[i + 3] == 77 and buf[i + 4] == 76:
        return _mllog(buf, i, end), end, end
    j = i + 1 if buf[i] == 91 else i
    if j < end:
        ns, after = _glog(buf, j, end)
        if ns != 0:
            return ns, i + 2, after
        ns, after = _syslog(buf, j, end, _MONTHS)
        if ns == 0 and j + 4 < end and buf[j + 3] == 32:
            ns, after = _syslog(buf, j + 4, end, _MONTHS)
        if ns != 0:
            return ns, i, after
    stop = min(end - 18, i + 110)
    while j < stop:
        if buf[j] == 50 and 48 <= buf[j + 1] <= 49 and (buf[j + 4] == 45 or buf[j + 4] == 47):
            ns, after = _iso(buf, j, end)
            if ns != 0:
                if after < end and buf[after] == 93 and j == i + 1:
                    after += 1
                return ns, j, after
        j += 1
    return 0, i, i


def year_of(time_ns: int) -> int:
    return int(np.datetime64(time_ns, "ns").astype("datetime64[Y]").astype(np.int64)) + 1970


def set_year(time_ns: Int64, year: int) -> Int64:
    """Times of the forms without a year, moved from YEARLESS to `year`; the others as they are."""
    without = (time_ns > 0) & (time_ns < YEARLESS_END_NS)
    if not without.any():
        return time_ns
    dates = time_ns[without].astype("datetime64[ns]")
    days = (dates.astype("datetime64[D]") - np.datetime64("1972-01-01", "D")).astype(np.int64)
    months = dates.astype("datetime64[M]")
    month = (months - np.datetime64("1972-01", "M")).astype(np.int64)
    in_month = (dates - months.astype("datetime64[ns]")).astype(np.int64)
    del days
    target = (np.datetime64(f"{year}-01", "M") + month.astype("timedelta64[M]")).astype("datetime64[ns]")
    moved = time_ns.copy()
    moved[without] = target.astype(np.int64) + in_month
    return moved
