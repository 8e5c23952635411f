"""What a set of flow records can and cannot support, before anyone trusts a diagnosis made of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmprism.model.flows import InputCounts, Window

__all__ = ["Answer", "ClockOffset", "CongestedPair", "Fitness", "PacketFitness", "Question", "Suitability"]


class Question(StrEnum):
    JOBS = "jobs"
    PARALLELISM = "parallelism"
    STEPS = "steps"
    FAULTS = "faults"


class Suitability(StrEnum):
    YES = "yes"
    PARTLY = "partly"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the data answers a question, why, and what to change; `advice` is empty where nothing is missing."""

    question: Question
    verdict: Suitability
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
class CongestedPair:
    """Signs of trouble about the traffic from `src` to `dst`: CNPs and NAKs that came back, packets sent again."""

    src: str
    dst: str
    notifications: int
    negative: int
    retransmitted: int


@dataclass(frozen=True, slots=True)
class PacketFitness:
    """What the packets say where records were made of packets.

    `loss` is the share of the packets that the capture missed (gaps in sequence numbers that nothing filled). Of the
    RDMA `messages`, the sizes of `estimated` ones are not decided by the packets, and `cut` ones began before the
    capture or ended after it. `congested` names the pairs with most signs of congestion.
    """

    packets: int
    loss: float
    retransmitted: int
    messages: int
    estimated: int
    cut: int
    notifications: int
    negative: int
    congested: tuple[CongestedPair, ...]


@dataclass(frozen=True, slots=True)
class Fitness:
    """Measured properties of the records, and an answer per question.

    `typical_record_ns` is the duration that half of the bytes exceed; `folded_share` the share of the bytes in records
    too long to find steps in; `sampling` the factor that all sizes are a multiple of, or None; `packets` what
    packets said, or None where there were none; `unknown_share` the share of the bytes between addresses that the
    topology lacks, or None without one.
    """

    window: Window
    counts: InputCounts
    addresses: int
    pairs: int
    records_per_second: float
    bytes_per_second: float
    records_per_pair_and_second: float
    timestamp_resolution_ns: int
    typical_record_ns: int
    folded_share: float
    path_share: float
    port_share: float
    duplicate_share: float
    sampling: int | None
    packets: PacketFitness | None
    exporters: int
    clock_offsets: tuple[ClockOffset, ...]
    unknown_addresses: tuple[str, ...]
    unknown_share: float | None
    answers: tuple[Answer, ...]
