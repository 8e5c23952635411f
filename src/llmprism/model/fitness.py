"""What a set of flow records can and cannot support, before anyone trusts a diagnosis made of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmprism.model.flows import InputCounts, Window

__all__ = ["Answer", "ClockOffset", "Fitness", "Question", "Verdict"]


class Question(StrEnum):
    JOBS = "jobs"
    PARALLELISM = "parallelism"
    STEPS = "steps"
    FAULTS = "faults"


class Verdict(StrEnum):
    YES = "yes"
    PARTLY = "partly"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the data answers a question, why, and what to change; `advice` is empty where nothing is missing."""

    question: Question
    verdict: Verdict
    why: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far the clock of one exporter is ahead of another's, from transfers that both report."""

    exporter: str
    reference: str
    offset_ns: int
    transfers: int


@dataclass(frozen=True, slots=True)
class Fitness:
    """Measured properties of the records, and a verdict per question.

    `typical_record_ns` is the duration that half of the bytes exceed; `folded_share` the share of the bytes in records
    longer than a step can be told from; `sampling` the factor that all sizes are a multiple of, or None; `loss` the
    share of packets that the capture missed, or None where there were no packets; `unknown_share` the share of the
    bytes between addresses that the topology lacks, or None without one.
    """

    window: Window
    counts: InputCounts
    addresses: int
    pairs: int
    records_per_second: float
    records_per_pair_and_second: float
    timestamp_resolution_ns: int
    typical_record_ns: int
    folded_share: float
    path_share: float
    port_share: float
    duplicate_share: float
    sampling: int | None
    loss: float | None
    clock_offsets: tuple[ClockOffset, ...]
    unknown_addresses: tuple[str, ...]
    unknown_share: float | None
    answers: tuple[Answer, ...]
