"""What a diagnosis of a job's logs says: outcome, symptom, stage, cause, suspects, the events that matter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "Cause",
    "CauseClass",
    "CountedLine",
    "EventHeat",
    "EventRole",
    "LogConclusion",
    "LogDiagnosis",
    "LogEvent",
    "LogInput",
    "LogLine",
    "Outcome",
    "Sign",
    "SignKind",
    "Stage",
    "Suspect",
    "Symptom",
]


class Outcome(StrEnum):
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time_limit"
    RUNNING = "running"
    UNKNOWN = "unknown"


class Symptom(StrEnum):
    LAUNCH_FAILURE = "launch_failure"
    CRASH = "crash"
    HANG = "hang"
    SLOW = "slow"
    NONE = "none"
    UNKNOWN = "unknown"


class Stage(StrEnum):
    LAUNCH = "launch"
    INIT = "init"
    DATA = "data"
    TRAIN = "train"
    EVAL = "eval"
    CHECKPOINT = "checkpoint"
    SHUTDOWN = "shutdown"
    UNKNOWN = "unknown"


class CauseClass(StrEnum):
    HARDWARE_GPU = "hardware.gpu"
    HARDWARE_NVLINK = "hardware.nvlink"
    HARDWARE_NIC = "hardware.nic"
    HARDWARE_NODE = "hardware.node"
    NETWORK = "network"
    STORAGE = "storage"
    FRAMEWORK = "framework"
    USER_CONFIG = "user.config"
    USER_CODE = "user.code"
    USER_DATA = "user.data"
    USER_RESOURCE = "user.resource"
    PLATFORM = "platform"
    NONE = "none"
    UNKNOWN = "unknown"


class EventRole(StrEnum):
    """`root` started it, `cascade` is what others said because of it, `symptom` is what could be seen of it."""

    ROOT = "root"
    CASCADE = "cascade"
    SYMPTOM = "symptom"


@dataclass(frozen=True, slots=True)
class LogInput:
    """What was read. `dropped` counts, by reason, what could not be used."""

    files: int
    lines: int
    ranks: int
    nodes: int
    bytes: int = 0
    dropped: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as it was written, `line` counted from 1."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class CountedLine(LogLine):
    """The first of `count` such lines, its `role` in the failure, and the entry of the fault library that knows it."""

    count: int
    role: str
    signature: str | None


@dataclass(frozen=True, slots=True)
class Cause:
    """`signature` is the library entry that decided, or None; `confidence` is 0..1."""

    cause_class: CauseClass
    signature: str | None = None
    confidence: float = 0.0
    summary: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank (or, where ranks are not known, a node or file) that differs from the others, and why."""

    rank: int | None
    node: str | None
    score: float
    why: str


class SignKind(StrEnum):
    """What the numbers of a run can show that no error line says."""

    HANG = "hang"
    SLOW = "slow"
    NAN = "nan"
    DIVERGED = "diverged"
    LOSS_SCALE = "loss_scale"


@dataclass(frozen=True, slots=True)
class Sign:
    """Something wrong that the run's own numbers show. `iteration` is where it began; `value` against `expected`.

    `lasts`: it was still so at the end of the logs.
    """

    kind: SignKind
    summary: str
    confidence: float
    iteration: int | None = None
    time_ns: int | None = None
    value: float | None = None
    expected: float | None = None
    lasts: bool = True
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True, slots=True)
class LogEvent:
    """All lines of one template that bear on the failure. `first_ns` is None where the lines carry no time."""

    template: str
    count: int
    ranks: tuple[int, ...]
    first_ns: int | None
    first_line: LogLine
    score: float
    role: EventRole
    signature: str | None = None
    before: tuple[LogLine, ...] = ()
    after: tuple[LogLine, ...] = ()


@dataclass(frozen=True, slots=True)
class EventHeat:
    """Counts of failure events per row (rank, node or file) and time bucket, for the heat-map.

    `start_ns` None: the lines carry no time and the buckets are equal shares of each file's lines.
    """

    rows: tuple[str, ...]
    start_ns: int | None
    bucket_ns: int
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class LogConclusion:
    """What the logs of a run come to: how it went, what went wrong, when and why."""

    input: LogInput
    outcome: Outcome
    symptom: Symptom
    stage: Stage
    iteration: int | None
    cause: Cause


@dataclass(frozen=True, slots=True)
class LogDiagnosis(LogConclusion):
    """`notes` are sentences on what could not be decided and on what was seen but is no alarm.

    `ranking` and `node_ranking` order ranks and nodes by suspicion also where nobody is certain: `suspects` are those
    that differ from the others enough to be named.
    """

    suspects: tuple[Suspect, ...] = ()
    events: tuple[LogEvent, ...] = ()
    notes: tuple[str, ...] = ()
    heat: EventHeat | None = None
    signs: tuple[Sign, ...] = ()
    ranking: tuple[Suspect, ...] = ()
    node_ranking: tuple[Suspect, ...] = ()
