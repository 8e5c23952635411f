"""NCCL flight-recorder dumps → how far each rank got in each process group.

PyTorch writes one dump per rank (`nccl_trace_rank_3`) when a collective times out: a pickled dictionary, or JSON. Only
containers, numbers and text are taken from a pickle: any other object in it ends the reading, so a dump can run
nothing. Of a dump the state of every process group is kept: the last collective enqueued and started.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from llmprism import limits

__all__ = ["FlightRecord", "is_flight_dump", "parse_flight_dump"]

_PICKLE_PROTOCOLS: Final = frozenset(range(2, 6))
_RANK_IN_NAME: Final = re.compile(r"(?:rank[-_]?|trace[-_]?|_)(\d{1,7})(?:\.\w+)*$")


@dataclass(frozen=True, slots=True)
class FlightRecord:
    """One process group of one rank; -1 where the dump does not say."""

    rank: int
    group: str
    enqueued: int
    started: int
    name: str
    """The operation that was under way, such as `nccl:all_reduce`."""


class _DataUnpickler(pickle.Unpickler):
    """Unpickles containers, numbers and text only."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a flight record")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError(f"no persistent objects: {pid!r}")


def is_flight_dump(head: bytes, name: str) -> bool:
    """Whether the first bytes of a file look like a dump."""
    if len(head) > 2 and head[0] == 0x80 and head[1] in _PICKLE_PROTOCOLS:
        return b"pg_status" in head or b"entries" in head or "trace" in name or "flight" in name
    return head.lstrip()[:1] == b"{" and (b'"pg_status"' in head or b'"collective_seq_id"' in head)


def parse_flight_dump(data: bytes, name: str) -> list[FlightRecord]:
    """The records of one dump; nothing where it is broken or not a dump."""
    found = _RANK_IN_NAME.search(name)
    if len(data) > limits.MAX_FLIGHT_DUMP_BYTES or not found:
        return []
    try:
        document = json.loads(data) if data.lstrip()[:1] == b"{" else _DataUnpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, ValueError, EOFError, TypeError, AttributeError, IndexError, KeyError):
        return []
    except (RecursionError, MemoryError, OverflowError):
        return []
    if not isinstance(document, dict):
        return []
    return _records(document, int(found[1]))


def _records(document: dict[Any, Any], rank: int) -> list[FlightRecord]:
    groups: dict[str, list[int]] = {}
    names: dict[str, str] = {}
    status = document.get("pg_status")
    for key, state in status.items() if isinstance(status, dict) else ():
        if isinstance(state, dict):
            groups[str(key)] = [_whole(state.get(f"last_{what}_collective")) for what in ("enqueued", "started")]
    entries = document.get("entries")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            _take_entry(entry, groups, names, from_entries=not isinstance(status, dict))
    return [FlightRecord(rank, group, counts[0], counts[1], names.get(group, "")) for group, counts in groups.items()]


def _take_entry(
    entry: dict[Any, Any], groups: dict[str, list[int]], names: dict[str, str], *, from_entries: bool
) -> None:
    group = str(entry.get("pg_id", "0"))
    number, state = _whole(entry.get("collective_seq_id")), entry.get("state")
    if number < 0 or entry.get("is_p2p") is True:
        return
    if from_entries:
        counts = groups.setdefault(group, [-1, -1])
        counts[0] = max(counts[0], number)
        if state in ("started", "completed"):
            counts[1] = max(counts[1], number)
    if state != "completed" and group not in names:
        names[group] = str(entry.get("profiling_name", ""))[:80]


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1
