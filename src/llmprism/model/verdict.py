"""Flows and logs of the same jobs read together: who is who, one clock, and one verdict per cause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmprism.model.finding import Finding
from llmprism.model.log import Cause, CountedLine, LogConclusion

__all__ = [
    "Contradiction",
    "HostClock",
    "LogJob",
    "LogQuote",
    "LogReading",
    "NamedSuspect",
    "Owner",
    "Seat",
    "Source",
    "Verdict",
]


class Source(StrEnum):
    """Which of the two a statement rests on."""

    FLOWS = "flows"
    LOGS = "logs"
    BOTH = "both"


class Owner(StrEnum):
    """Who has to act: who runs the cluster, who owns the job, or whoever is found to."""

    OPERATOR = "operator"
    JOB_OWNER = "job owner"
    FRAMEWORK = "framework"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Seat:
    """One rank (or node, where ranks are not known) of a log and the address it has in the flows; None: not matched."""

    rank: int | None
    node: str | None
    address: str | None
    confidence: float
    why: str


@dataclass(frozen=True, slots=True)
class HostClock:
    """What must be taken off the times in a host's logs to get flow time; known to `error_ns`, from `steps` steps.

    0 steps: nothing of this host could be compared, and the offset is that of the job's other hosts.
    """

    host: str
    offset_ns: int
    error_ns: int
    steps: int


@dataclass(frozen=True, slots=True)
class LogQuote(CountedLine):
    """A line of a log at its place in flow time; `time_ns` None: not known."""

    job: int
    rank: int | None
    address: str | None
    time_ns: int | None


@dataclass(frozen=True, slots=True)
class LogJob(LogConclusion):
    """The logs of one job: what they say alone, and which job of the flows they belong to (None: none).

    `iteration_shift` added to an iteration's number gives the index of its step in the flows. `unmatched` are members
    of the job that no rank was found for.
    """

    name: str
    job: str | None
    confidence: float
    why: str
    iteration_shift: int | None = None
    seats: tuple[Seat, ...] = ()
    unmatched: tuple[str, ...] = ()
    clocks: tuple[HostClock, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedSuspect:
    """A place that may be the cause, by both kinds of evidence."""

    address: str | None
    rank: int | None
    node: str | None
    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What the flows say, what the logs say instead, and which of them the verdict follows."""

    about: str
    flows: str
    logs: str
    believed: Source
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a finding came about. `quotes` are indices into the reading's quotes.

    `flows` is the finding that the flows alone gave, None where they gave none. `iteration` is the job's own count.
    """

    source: Source
    cause: Cause
    owner: Owner
    rank: int | None = None
    node: str | None = None
    iteration: int | None = None
    log_job: int | None = None
    suspects: tuple[NamedSuspect, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    quotes: tuple[int, ...] = ()
    flows: Finding | None = None


@dataclass(frozen=True, slots=True)
class LogReading:
    """`verdicts` has one entry per finding of the report, in the same order."""

    jobs: tuple[LogJob, ...]
    verdicts: tuple[Verdict, ...]
    quotes: tuple[LogQuote, ...] = ()
    notes: tuple[str, ...] = ()
