"""Settings of logs: the section `[job_logs]` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["JobLogSettings", "KafkaLogSettings"]


@dataclass(frozen=True, slots=True)
class KafkaLogSettings:
    """Log lines from Kafka: JSON objects with the line, its job and its writer (a rank, a pod, a host) under the fields
    named here, or plain text whose key is `job/writer`."""

    brokers: str
    topic: str
    group: str = "llmprism-logs"
    job: str = "job"
    writer: str = "writer"
    text: str = "message"


@dataclass(frozen=True, slots=True)
class JobLogSettings:
    """Logs of jobs, which explain findings: `POST /api/v1/logs`, `folders` that are followed (a folder per job) and
    `kafka` topics. The last `writer_mb` of every writer and `total_mb` of all are kept for `keep_h` hours; what matches
    `redact` (RE2) is blotted out before. Of several workers each keeps as much, and whoever leads follows `folders`."""

    enabled: bool = False
    folders: tuple[str, ...] = ()
    writer_mb: float = 8.0
    total_mb: float = 512.0
    keep_h: float = 24.0
    max_body_mb: float = 16.0
    redact: tuple[str, ...] = ()
    kafka: tuple[KafkaLogSettings, ...] = ()
