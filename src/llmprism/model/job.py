"""A recognised training job: who takes part, and its own transfers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmprism.arrays import Bool
from llmprism.model.clock import ClockCandidate, StepClock
from llmprism.model.flows import TransferTable

__all__ = ["Job", "JobState"]


class JobState(StrEnum):
    RUNNING = "running"
    STARTING = "starting"
    ENDED = "ended"
    CRASHED = "crashed"
    HUNG = "hung"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Job:
    """`members` are address ids, ascending; `transfers` holds what they sent to each other and nothing else.

    `bulk` marks the pairs of `transfers` that carry training traffic; the others carry control messages (None: all
    do). `clock` is the step clock that the job was recognised by, where its steps could be seen. `places` names the
    server of each member, empty where the topology does not know it. `outside_until_ns` is when the members last
    exchanged bulk traffic with somebody outside, storage mostly; 0 where they never did. `clock_candidates` are the
    rhythms that may be the step's, the best first (the one that `clock` follows): slower ones such as checkpoints and
    faster ones such as layers or micro-batches show as clearly at times. `slots` are the indices of the members' GPUs
    within their servers, -1 where the topology does not say; empty where it says nothing. `watched_until_ns` is when
    the window ends (0: not known): a silence up to then was seen.
    """

    id: str
    members: tuple[int, ...]
    servers: tuple[str, ...]
    confidence: float
    transfers: TransferTable
    bulk: Bool | None = None
    clock: StepClock | None = None
    places: tuple[str, ...] = ()
    outside_until_ns: int = 0
    clock_candidates: tuple[ClockCandidate, ...] = ()
    slots: tuple[int, ...] = ()
    watched_until_ns: int = 0
