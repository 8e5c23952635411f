"""Slurm's host lists: `node[00-03,7],login1` → names."""

from __future__ import annotations

import re
from typing import Final

from llmprism import limits
from llmprism.errors import LimitError, TopologyError

__all__ = ["expand_hostlist"]

_BRACKETS: Final = re.compile(r"^([^\[\]]*)\[([0-9,\-]+)\](.*)$")


def expand_hostlist(text: str, origin: str) -> list[str]:
    """All names of a host list, in order."""
    names: list[str] = []
    for part in _split(text):
        names += _expand(part, origin)
        if len(names) > limits.MAX_TOPOLOGY_NAMES:
            raise LimitError(f"{origin}: a host list of more than {limits.MAX_TOPOLOGY_NAMES} names")
    return names


def _split(text: str) -> list[str]:
    """At the commas that are outside brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", text.strip()) if part]


def _expand(part: str, origin: str) -> list[str]:
    match = _BRACKETS.match(part)
    if match is None:
        if "[" in part or "]" in part:
            raise TopologyError(f"{origin}: cannot read the host list {part[:60]!r}; expected a form like node[00-15]")
        return [part]
    prefix, ranges, suffix = match.groups()
    tails = _expand(suffix, origin) if suffix else [""]
    names: list[str] = []
    for piece in filter(None, ranges.split(",")):
        low, _, high = piece.partition("-")
        if not low.isdigit() or (high and not high.isdigit()):
            raise TopologyError(f"{origin}: cannot read the range {piece[:40]!r} in a host list")
        first, last = int(low), int(high or low)
        if (last - first + 1) * len(tails) > limits.MAX_TOPOLOGY_NAMES:
            raise LimitError(f"{origin}: a host list of more than {limits.MAX_TOPOLOGY_NAMES} names")
        names += [f"{prefix}{number:0{len(low)}d}{tail}" for number in range(first, last + 1) for tail in tails]
    return names
