"""How many cores and how much memory this process may use: its affinity, its container's quotas, what is free."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["available_cores", "free_bytes", "resident_bytes", "room_bytes"]

_CGROUP: Final = Path("/sys/fs/cgroup")
"""The control group of this process as its container sees it (version 2). Elsewhere these files are absent."""

SPARED: Final = 0.1
"""Of the free memory, left to others."""


def available_cores() -> int:
    """Cores that this process may run on, or fewer where its container may use less of their time; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _text(_CGROUP / "cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit() and int(quota[1]) > 0:
        cores = min(cores, max(int(quota[0]) // int(quota[1]), 1))
    return max(cores, 1)


def free_bytes() -> int:
    """Memory that may still be taken without harm to others, of the machine and of the container."""
    sizes = dict(line.split(":", 1) for line in _text(Path("/proc/meminfo")).splitlines() if ":" in line)
    free = int(sizes["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in sizes else 1 << 30
    limit, taken = _text(_CGROUP / "memory.max").strip(), _text(_CGROUP / "memory.current").strip()
    if limit.isdigit() and taken.isdigit():
        free = min(free, int(limit) - int(taken))
    return max(int(free * (1.0 - SPARED)), 0)


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not say."""
    fields = _text(Path("/proc/self/statm")).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def room_bytes(limit: int | None) -> int:
    """Memory that this process and its copies may still take: below the limit, where there is one, and free."""
    free = free_bytes()
    return free if limit is None else min(free, max(limit - resident_bytes(), 0))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
