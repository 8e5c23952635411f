"""A function over many items, shared with copies of this process.

Threads of one Python process take turns wherever they run Python, and wait for each other when they need memory. A
forked process sees everything that this one holds, without a copy, and has an interpreter and a memory of its own; only
what the function returns has to travel. Items are taken from a pipe, one by one, by whichever process is free.

For the command line only: a process with many threads, such as a service, must not fork. A copy that dies costs time,
not results: what it did not hand back is computed here.
"""

from __future__ import annotations

import os
import pickle
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

__all__ = ["forked_map"]

T = TypeVar("T")
R = TypeVar("R")

_NUMBER: Final = struct.Struct("=I")

PIPE_BYTES: Final = 1 << 16
"""What a pipe holds at least on Linux; more items than fit are handed out in runs of neighbours."""


class _Copy(NamedTuple):
    """A copy of this process, and the pipe from which its results are read."""

    process: int
    results: int


def forked_map(
    function: Callable[[T], R],
    items: Sequence[T],
    size: Callable[[T], int],
    progress: Callable[[float], None] = lambda _share: None,
    *,
    processes: int = 2,
) -> list[R]:
    """The results in the order of the items; those with the largest size begin. This process is one of `processes`."""
    copies = min(processes, len(items)) - 1
    if copies < 1 or not hasattr(os, "fork"):
        return [function(item) for item in items]
    order = sorted(range(len(items)), key=lambda index: -size(items[index]))
    run = -(-len(order) * _NUMBER.size // PIPE_BYTES)
    runs = [order[first : first + run] for first in range(0, len(order), run)]
    tickets = _filled_pipe(len(runs))
    begun: list[_Copy] = []
    results: dict[int, R] = {}
    try:
        for _ in range(copies):
            begun.append(_copy(function, items, runs, tickets, begun))
        for index in _taken(tickets, runs):
            results[index] = function(items[index])
            progress(min((copies + 1) * len(results) / len(items), 1.0))
        for copy in begun:
            results |= _received(copy.results)
    finally:
        os.close(tickets)
        for copy in begun:
            os.close(copy.results)
        for copy in begun:
            os.waitpid(copy.process, 0)
    return [results[index] if index in results else function(items[index]) for index in range(len(items))]


def _filled_pipe(count: int) -> int:
    """A pipe that holds the numbers below `count`, and then ends."""
    read, write = os.pipe()
    os.write(write, b"".join(map(_NUMBER.pack, range(count))))
    os.close(write)
    return read


def _copy(
    function: Callable[[T], R], items: Sequence[T], runs: Sequence[Sequence[int]], tickets: int, others: Sequence[_Copy]
) -> _Copy:
    """Starts a copy, which works until no ticket is left; `others` are those begun before, whose pipes it must not hold
    open."""
    results, to_parent = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the bar of progress has one, and no lock here
        process = os.fork()
    if process == 0:
        for pipe in (results, *(other.results for other in others)):
            os.close(pipe)
        _work_and_exit(function, items, runs, tickets, to_parent)
    os.close(to_parent)
    return _Copy(process, results)


def _taken(tickets: int, runs: Sequence[Sequence[int]]) -> Iterator[int]:
    """The items that fall to this process."""
    while ticket := os.read(tickets, _NUMBER.size):
        yield from runs[_NUMBER.unpack(ticket)[0]]


def _work_and_exit(
    function: Callable[[T], R], items: Sequence[T], runs: Sequence[Sequence[int]], tickets: int, to_parent: int
) -> None:
    """A copy. It ends here, whatever happens: the first process meets an error again and raises it."""
    status = 1
    try:
        results = {index: function(items[index]) for index in _taken(tickets, runs)}
        with os.fdopen(to_parent, "wb") as file:
            pickle.dump(results, file, protocol=pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _received(pipe: int) -> dict[int, R]:
    """What a copy has computed; nothing where it died."""
    with os.fdopen(os.dup(pipe), "rb") as file:
        try:
            found: dict[int, R] = pickle.load(file)  # noqa: S301 - written by a copy of this very process
        except (EOFError, pickle.UnpicklingError):
            return {}
    return found
