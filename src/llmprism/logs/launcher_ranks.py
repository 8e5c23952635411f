"""Which ranks run where, as launchers print it before the processes begin.

torchrun's agent prints for its node `global_ranks=[4, 5, 6, 7]`, the ranks of its processes in the order of their local
ranks; DeepSpeed's launcher prints the ranks of all hosts (`global_rank_mapping`). After a restart they print it again,
and the last one holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from llmprism.logs.joblog import JobLog

__all__ = ["hosts_of_ranks", "ranks_of_nodes"]

_MAX_RANK: Final = 10_000_000
_GLOBAL_RANKS: Final = re.compile(r"\bglobal_ranks=\[(\d{1,9}(?:, ?\d{1,9}){0,255})\]")
_MAPPING: Final = re.compile(r"global_rank_mapping=defaultdict\(")
_HOST: Final = re.compile(r"'([^']{1,253})': \[(\d{1,9}(?:, ?\d{1,9}){0,255})\]")


def ranks_of_nodes(log: JobLog, texts: dict[int, list[str]], ranks: dict[int, int]) -> None:
    """Adds to `ranks` (by writer) those of the writers of a file in which torchrun says which ranks its node has.

    A writer is known by its local rank; where the node has one process, all lines of its file are that rank's."""
    of_file: dict[int, list[int]] = {}
    for number, lines in texts.items():
        for text in lines:
            if match := _GLOBAL_RANKS.search(text):
                of_file[log.writers[number].file] = _numbers(match[1])
    if _overlap(of_file.values()):
        return
    for number, writer in enumerate(log.writers):
        listed = of_file.get(writer.file)
        if listed is None or number in ranks:
            continue
        local = writer.identity.local_rank
        local = log.file_identity[writer.file].local_rank if local is None else local
        if local is None and len(listed) == 1:
            local = 0
        if local is not None and local < len(listed):
            ranks[number] = listed[local]


def hosts_of_ranks(texts: dict[int, list[str]]) -> dict[int, str]:
    """Rank → host, where DeepSpeed's launcher says so."""
    found: dict[int, str] = {}
    for lines in texts.values():
        for text in lines:
            if _MAPPING.search(text):
                found |= {rank: match[1] for match in _HOST.finditer(text) for rank in _numbers(match[2])}
    return found


def _numbers(text: str) -> list[int]:
    return [number for part in text.split(",") if (number := int(part)) < _MAX_RANK]


def _overlap(lists: Iterable[list[int]]) -> bool:
    """Whether two nodes claim one rank: the files are of several jobs or attempts, and nothing is known."""
    everybody = [rank for ranks in lists for rank in ranks]
    return len(everybody) != len(set(everybody))
