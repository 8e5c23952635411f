"""Who wrote a line: rank, local rank, node and process, from the tags before its text and from the file's name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

__all__ = ["Identity", "identity_of_file", "identity_of_prefix", "looks_host_prefixed"]


@dataclass(frozen=True, slots=True)
class Identity:
    """What is known of a writer; None: not known. `listed_rank`: `12: ` of `srun -l`, believed only when plausible."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    process: str | None = None
    listed_rank: int | None = None

    def over(self, other: Identity) -> Identity:
        """This identity, with what it does not know taken from `other`."""
        return Identity(
            self.rank if self.rank is not None else other.rank,
            self.local_rank if self.local_rank is not None else other.local_rank,
            self.node or other.node,
            self.process or other.process,
            self.listed_rank if self.listed_rank is not None else other.listed_rank,
        )


_LISTED: Final = re.compile(r"^\s*(\d{1,6}):(?=\s|$)")
_RANK: Final = re.compile(r"(?i)(?:^|[\s\[(<|,])(?:global[ _])?rank[ :=_#]? ?(\d{1,7})(?=[\]):,|>\s]|$)")
_ROLE_RANK: Final = re.compile(r"\[(?!rank)[A-Za-z_]*(\d+)\]:")
_MPI: Final = re.compile(r"\[\d+,(\d+)\]<\w+>:")
_WORKER: Final = re.compile(r"\((?:\w+\s+)?pid=(\d+)(?:,\s*ip=([\w.:-]+))?\)")
_POD: Final = re.compile(r"\[pod/([\w.-]+)")
_NCCL: Final = re.compile(r"(?:^|\s)([\w.-]+):(\d+):\d+ \[\d+\]")
_SYSLOG_HOST: Final = re.compile(r"\d\d:\d\d:\d\d\S*\s+([A-Za-z][\w.-]*)\s*(?:[\w./-]+\[\d+\]:\s*)?$")
_HOST: Final = re.compile(r"^\s*([A-Za-z][\w.-]*|(?:\d{1,3}\.){3}\d{1,3})(?:: | +\||:$)")

_FILE_RANK: Final = re.compile(r"(?:^|[^a-z])(?:rank|task|worker_rank|gpu_rank)[-_.]?(\d+)(?!\d)", re.IGNORECASE)
_FILE_LOCAL: Final = re.compile(r"(?:^|[^a-z])local[-_]?rank[-_.]?(\d+)", re.IGNORECASE)
_TORCHRUN_FOLDER: Final = re.compile(r"attempt_\d+/(\d+)/(?:stdout|stderr)")
"""`torchrun --log-dir` writes a folder per local rank."""

_FILE_NODE: Final = re.compile(
    r"(?:^|[^a-z0-9])((?:[a-z][a-z0-9]*-)*(?:node|host|worker|gpu|dgx|server|compute|nid|cn|trn|hgx)[-_]?[a-z]*-?\d+)",
    re.IGNORECASE,
)
_BARE_HOST: Final = re.compile(r"^[a-z][a-z]*[-_]?(?:[a-z0-9]+[-_])*\d+$", re.IGNORECASE)

_HOST_SHARE: Final = 0.5
"""Share of the first lines that must begin with `name: ` for the file to count as pdsh output."""


def identity_of_prefix(prefix: str) -> Identity:
    """The writer that the tags before the text name."""
    found = Identity()
    if match := _LISTED.match(prefix):
        found = replace(found, listed_rank=int(match[1]))
    elif match := _HOST.match(prefix):
        found = replace(found, node=match[1])
    if match := _RANK.search(prefix):
        found = replace(found, rank=int(match[1]))
    if match := _MPI.search(prefix):
        found = replace(found, rank=int(match[1]))
    elif match := _ROLE_RANK.search(prefix):
        found = replace(found, local_rank=int(match[1]))
    if match := _WORKER.search(prefix):
        found = replace(found, process=f"{match[2] or ''}:{match[1]}", node=match[2] or found.node)
    if match := _POD.search(prefix):
        found = replace(found, node=match[1])
    if match := _SYSLOG_HOST.search(prefix):
        found = replace(found, node=match[1])
    if match := _NCCL.search(prefix):
        found = replace(found, node=match[1], process=f"{match[1]}:{match[2]}")
    return found


def identity_of_file(name: str) -> Identity:
    """The writer that a file's name (with its folders) suggests."""
    path = PurePosixPath(name)
    stem = path.name
    while PurePosixPath(stem).suffix.lower() in {".gz", ".xz", ".zst", ".bz2", ".log", ".txt", ".out", ".err", ".json"}:
        stem = PurePosixPath(stem).stem
    local = _FILE_LOCAL.search(stem) or _TORCHRUN_FOLDER.search(name)
    rank = None if local else _FILE_RANK.search(stem)
    node = _FILE_NODE.search(stem)
    folder = next((m[1] for part in reversed(path.parts[:-1]) if (m := _FILE_NODE.search(part))), None)
    host = node[1] if node else folder
    if host is None and rank is None and _BARE_HOST.match(stem) and len(stem) <= 64 and not _is_run_name(stem):
        host = stem
    return Identity(
        rank=int(rank[1]) if rank else None,
        local_rank=int(local[1]) if local else None,
        node=host,
    )


def _is_run_name(stem: str) -> bool:
    return bool(
        re.match(r"(?i)(result|run|log|slurm|job|trial|r|ok|fail|cancel|odd|train|out|output|std\w+)[-_]?\w*$", stem)
    )


def looks_host_prefixed(head: str) -> bool:
    """Whether the first lines of a file begin with `host: ` or `host | ` (pdsh, clush, docker compose)."""
    lines = [line for line in head.splitlines()[:400] if line.strip()]
    if len(lines) < 8:
        return False
    hosts = [match[1] for line in lines if (match := _HOST.match(line))]
    numbered = [host for host in hosts if any(c.isdigit() for c in host)]
    return len(numbered) >= _HOST_SHARE * len(lines)
