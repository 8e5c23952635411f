"""A recognised training job: who takes part, and its own transfers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
    """`members` are address ids, ascending; `transfers` holds this job's training transfers and nothing else."""

    id: str
    members: tuple[int, ...]
    servers: tuple[str, ...]
    confidence: float
    transfers: TransferTable
