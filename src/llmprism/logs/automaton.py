"""All patterns at once in one pass: a union automaton whose states are made when text first needs them.

Each pattern becomes a Thompson automaton; their union is walked as a set of states, and every set met becomes one state
of a deterministic table (a lazy DFA, as in RE2). A numba kernel runs over the table one byte at a time and comes back
only for a transition that has not been made yet. The states in which every unanchored pattern waits for its first byte
are part of every set and therefore left out of all of them, which keeps the sets small. Time is linear in the text;
memory is capped by forgetting the table when it is full. `matches` gives the ids of all patterns found in a text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.kernel_cache import compiled
from llmprism.logs.pattern import LINE_END, Choice, Node, Pattern, Repeat, Sequence, Symbol

__all__ = ["Automaton"]

MAX_STATES: Final = 20_000
"""States of the table before it is forgotten: about 10 MB."""


@compiled
def _run(
    text: NDArray[np.uint8],
    at: int,
    state: int,
    classes: NDArray[np.uint8],
    table: NDArray[np.int32],
    accepting: NDArray[np.bool_],
    hits: NDArray[np.int32],
    hit_count: int,
) -> tuple[int, int, int]:
    """Go on from `at`; stops at the end of the text, at a missing transition or when `hits` is full."""
    while at < text.size:
        following = table[state, classes[text[at]]]
        if following < 0:
            return at, state, hit_count
        at += 1
        state = following
        if accepting[state] and (hit_count == 0 or hits[hit_count - 1] != state):
            if hit_count == hits.size:
                return at, state, hit_count
            hits[hit_count] = state
            hit_count += 1
    return at, state, hit_count


class Automaton:
    """Which of these patterns occur in a text."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._edges: list[list[tuple[int, int]]] = []
        self._free: list[list[int]] = []
        self._accept: dict[int, int] = {}
        anchored: set[int] = set()
        floating: set[int] = set()
        for number, pattern in enumerate(patterns):
            first, last = self._build(pattern.root)
            self._accept[last] = number
            (anchored if pattern.at_start else floating).add(first)
        self._classes, self._samples = self._byte_classes()
        self._restart = self._closure(floating)
        self._restart_moves = [self._move(self._restart, sample) - self._restart for sample in self._samples]
        self._always = frozenset(self._accept[state] for state in self._restart if state in self._accept)
        self._start = frozenset(self._closure(anchored) - self._restart)
        self._forget()

    # ---- building the union

    def _state(self) -> int:
        self._edges.append([])
        self._free.append([])
        return len(self._edges) - 1

    def _build(self, node: Node) -> tuple[int, int]:
        match node:
            case Symbol(bits, _):
                first, last = self._state(), self._state()
                self._edges[first].append((bits, last))
            case Sequence(parts):
                first = last = self._state()
                for part in parts:
                    begin, end = self._build(part)
                    self._free[last].append(begin)
                    last = end
            case Choice(options):
                first, last = self._state(), self._state()
                for option in options:
                    begin, end = self._build(option)
                    self._free[first].append(begin)
                    self._free[end].append(last)
            case Repeat(part, least, most):
                first, last = self._repeat(part, least, most)
        return first, last

    def _repeat(self, part: Node, least: int, most: int | None) -> tuple[int, int]:
        first = last = self._state()
        for _ in range(least):
            begin, end = self._build(part)
            self._free[last].append(begin)
            last = end
        if most is None:
            begin, end = self._build(part)
            loop, out = self._state(), self._state()
            self._free[last].append(loop)
            self._free[loop] += [begin, out]
            self._free[end].append(loop)
            return first, out
        out = self._state()
        for _ in range(most - least):
            self._free[last].append(out)
            begin, end = self._build(part)
            self._free[last].append(begin)
            last = end
        self._free[last].append(out)
        return first, out

    def _byte_classes(self) -> tuple[NDArray[np.uint8], list[int]]:
        """Bytes that no pattern tells apart share a class; one sample byte stands for each class."""
        sets = {bits for edges in self._edges for bits, _ in edges}
        groups: dict[tuple[bool, ...], int] = {}
        classes = np.zeros(256, dtype=np.uint8)
        samples: list[int] = []
        ordered = sorted(sets)
        for byte in range(256):
            signature = tuple(bool(bits >> byte & 1) for bits in ordered)
            if signature not in groups:
                groups[signature] = len(samples)
                samples.append(byte)
            classes[byte] = groups[signature]
        return classes, samples

    def _closure(self, states: Iterable[int]) -> set[int]:
        seen = set(states)
        todo = list(seen)
        while todo:
            for following in self._free[todo.pop()]:
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return seen

    def _move(self, states: Iterable[int], byte: int) -> set[int]:
        return self._closure(to for state in states for bits, to in self._edges[state] if bits >> byte & 1)

    # ---- the table of states met so far

    def _forget(self) -> None:
        self._table = np.full((256, len(self._samples)), -1, dtype=np.int32)
        self._accepting = np.zeros(256, dtype=np.bool_)
        self._sets: list[frozenset[int]] = []
        self._ids: dict[frozenset[int], int] = {}
        self._found: list[frozenset[int]] = []
        self._intern(self._start)

    def _intern(self, states: frozenset[int]) -> int:
        number = self._ids.get(states)
        if number is not None:
            return number
        number = len(self._sets)
        if number == self._table.shape[0]:
            self._table = np.concatenate([self._table, np.full_like(self._table, -1)])
            self._accepting = np.concatenate([self._accepting, np.zeros_like(self._accepting)])
        self._sets.append(states)
        self._ids[states] = number
        found = frozenset(self._accept[state] for state in states if state in self._accept)
        self._found.append(found)
        self._accepting[number] = bool(found)
        return number

    def _advance(self, state: int, byte_class: int) -> int:
        """Make the missing transition; the number of the state it leads to."""
        moved = self._move(self._sets[state], self._samples[byte_class]) - self._restart
        following = frozenset(moved | self._restart_moves[byte_class])
        if len(self._sets) >= MAX_STATES:
            self._forget()
            return self._intern(following)
        number = self._intern(following)
        self._table[state, byte_class] = number
        return number

    def matches(self, text: bytes) -> set[int]:
        """Ids (positions in the list given) of the patterns that occur in the text."""
        array: NDArray[np.uint8] = np.frombuffer(text + bytes([LINE_END]), dtype=np.uint8)
        hits = np.empty(64, dtype=np.int32)
        found: set[int] = set(self._found[0] | self._always)
        at, state = 0, 0
        while True:
            at, state, hit_count = _run(array, at, state, self._classes, self._table, self._accepting, hits, 0)
            for hit in hits[:hit_count].tolist():
                found |= self._found[hit]
            found |= self._found[state]
            if at >= array.size:
                break
            if hit_count < hits.size:
                state = self._advance(state, int(self._classes[array[at]]))
                at += 1
                found |= self._found[state]
        return found
