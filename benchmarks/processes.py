"""The processes that a process started, and what they used, as Linux tells."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["children_of", "command_of", "cpu_seconds", "descendants", "memory_mb"]

_TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything; empty where the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def cpu_seconds(pid: int) -> float:
    """User and system time of a process itself."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICK if fields else 0.0


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    """All processes below one, in any order."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        fields = _stat(int(folder.name)) if folder.name.isdigit() else []
        if fields:
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, rest = [], [pid]
    while rest:
        below = children.get(rest.pop(), [])
        found += below
        rest += below
    return found


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def memory_mb(pid: int) -> int:
    """Resident memory; 0 where the process has gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1000 for line in text.splitlines() if line.startswith("VmRSS")), 0)
