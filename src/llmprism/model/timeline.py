"""Steps of a job and per-GPU events, as structs of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Int8, Int32, Int64
from llmprism.model.facts import JobFacts

__all__ = ["SETUP_FACTOR", "EventKind", "Events", "Steps", "Timeline"]

SETUP_FACTOR: Final = 2.0
"""Usual durations of a step. One that takes more, at the beginning of a job or after it was away, sets up: it compiles,
allocates and connects, and takes 3-20 times as long in real runs. The rules of the stages start from it."""


class EventKind(IntEnum):
    """What a GPU does during an event; `label` is the name the report uses."""

    COMPUTE = 0
    PP_SEND = 1
    PP_RECV = 2
    DP = 3
    EP = 4
    CP = 5
    IDLE = 6

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of a job in order. They do not overlap; `setup` marks the first, set-up step when it was seen.

    A pause between one step's end and the next step's first activity (checkpoint, evaluation) is inside no step.
    Nothing is sent for the next step before `end_ns`; but some members may be done with the step only later, while
    others have begun the next one, the last of them at `done_ns` (None: all are done at the end). `job_end_ns` is when
    the job had sent all of its last step, and sent no more (0: not seen).
    """

    start_ns: Int64
    end_ns: Int64
    setup: Bool
    done_ns: Int64 | None = None
    job_end_ns: int = 0

    @property
    def count(self) -> int:
        return int(self.start_ns.size)

    @property
    def duration_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    @property
    def over_ns(self) -> Int64:
        """When the last member was done with each step."""
        return self.end_ns if self.done_ns is None else self.done_ns

    def at(self, when_ns: Int64) -> Int64:
        """The step that holds each moment, -1 where none does; a moment between two steps that touch is the later's."""
        step = np.searchsorted(self.end_ns, when_ns, side="right")
        return _or_none(step, when_ns, self.start_ns)

    def up_to(self, when_ns: Int64) -> Int64:
        """As `at`, but a moment between two steps that touch is the earlier's: where something ended."""
        step = np.searchsorted(self.end_ns, when_ns, side="left")
        return _or_none(step, when_ns, self.start_ns)

    @classmethod
    def empty(cls) -> Steps:
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, np.zeros(0, dtype=np.bool_))


def _or_none(step: Int64, when_ns: Int64, start_ns: Int64) -> Int64:
    """The step, which is the first to end after the moment, where it has begun by then; else -1."""
    begin = np.append(start_ns, np.iinfo(np.int64).max)  # after the last step none begins
    return np.where(when_ns >= begin[step], step, -1)


@dataclass(frozen=True, slots=True)
class Events:
    """Per-GPU events sorted by (address, start_ns). `peer` is -1 where there is none, `step` -1 outside any step."""

    address: Int32
    step: Int32
    kind: Int8
    start_ns: Int64
    end_ns: Int64
    peer: Int32
    bytes: Int64

    @property
    def count(self) -> int:
        return int(self.address.size)

    @classmethod
    def empty(cls) -> Events:
        i32, i64 = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
        return cls(i32, i32, np.zeros(0, dtype=np.int8), i64, i64, i32, i64)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps of the job, the end of every step on every member, and per-GPU events.

    `member_end_ns[m, k]` is when member `m` (index into `Job.members`) finished its gradient synchronisation of step
    `k`, or -1 where it was not seen. `facts` are None where they have not been looked for.
    """

    steps: Steps
    member_end_ns: Int64
    events: Events
    confidence: float = 0.0
    notes: tuple[str, ...] = ()
    facts: JobFacts | None = None
