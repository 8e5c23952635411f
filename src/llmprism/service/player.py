"""Plays a capture back in real time: batches of records on their way to a service, as a collector would send them.

Records leave when they end. Times are moved so that the capture begins now, unless they are to be kept; with a speed
above 1 they are also squeezed, so that a step takes less time, only on request (`squeeze`); otherwise the records
come faster than their own clock runs. Needs none of the service's extras.
"""

from __future__ import annotations

import os
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb

from llmprism.errors import OutputError, UsageError
from llmprism.ingest.accept import TimeBounds, accept_flows
from llmprism.ingest.database import open_database
from llmprism.ingest.mapping import ColumnMapping

__all__ = ["Capture", "DirectoryTarget", "HttpTarget", "KafkaTarget", "Target", "play", "target_of"]

BATCH_NS: Final = 1_000_000_000
RETRIES: Final = 60
RETRY_S: Final = 1.0
MESSAGE_RECORDS: Final = 500
"""Records of one Kafka message: about 100 KB, a tenth of what brokers take by default."""

KEYS: Final = 64
"""Keys of Kafka messages: both directions of a pair have one key, and many pairs share it, so that messages are full
and more partitions than anybody has workers are still filled."""

_FOREVER: Final = 2**62


class Target(Protocol):
    """Where batches go. `file` is Parquet with `records` rows; it is the target's to keep or to remove."""

    def send(self, file: Path, number: int, records: int) -> None: ...


class DirectoryTarget:
    """Drops the batches as files: written next to their place, then named."""

    def __init__(self, folder: Path, producer: str) -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder")
        self._folder = folder
        self._producer = producer

    def send(self, file: Path, number: int, records: int) -> None:  # noqa: ARG002
        hidden = self._folder / f".{self._producer}-{number:06}.tmp"
        hidden.write_bytes(file.read_bytes())
        os.utime(hidden, (time.time() - 60, time.time() - 60))  # complete when it gets its name: need not settle
        hidden.replace(self._folder / f"{self._producer}-{number:06}.parquet")


class HttpTarget:
    """Pushes the batches to a service, numbered, so that one sent again after a lost answer is not counted twice."""

    def __init__(self, url: str, producer: str, token: str | None = None, retries: int = RETRIES) -> None:
        self._url = url.rstrip("/") + "/api/v1/flows"
        self._producer = producer
        self._token = token
        self._retries = retries
        self.shed = 0

    def send(self, file: Path, number: int, records: int) -> None:
        headers = {
            "content-type": "application/vnd.apache.parquet",
            "llmprism-producer": self._producer,
            "llmprism-sequence": str(number),
            "llmprism-records": str(records),
        }
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._url, file.read_bytes(), headers, method="POST")  # noqa: S310
        for attempt in range(self._retries + 1):
            reason = self._try(request)
            if reason is None:
                return
            if attempt < self._retries:
                time.sleep(RETRY_S)
        raise OutputError(f"{self._url}: {reason}")

    def _try(self, request: urllib.request.Request) -> str | None:
        """None when stored; a reason when it may be tried again; OutputError when that is of no use."""
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                answer.read()
        except urllib.error.HTTPError as error:
            if error.code not in (409, 429, 502, 503, 504):
                raise OutputError(f"{self._url}: {error.code} {error.read(500).decode(errors='replace')}") from None
            self.shed += error.code == 503
            return f"answered {error.code}"
        except OSError as error:
            return str(error)
        return None


class KafkaTarget:
    """Produces messages of newline-separated JSON, some hundred records each, keyed by pair: a pair stays in order."""

    def __init__(self, brokers: str, topic: str) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise UsageError("kafka needs: pip install 'llmprism[kafka]'") from None
        settings = {"bootstrap.servers": brokers, "enable.idempotence": True, "compression.type": "lz4"}
        self._producer: Any = confluent_kafka.Producer(settings)
        self._topic = topic

    def send(self, file: Path, number: int, records: int) -> None:  # noqa: ARG002
        text = file.with_suffix(".jsonl")
        pair = "least(src, dst) || ' ' || greatest(src, dst)"
        with open_database() as (connection, _):
            connection.execute(
                f"CREATE TEMP TABLE keyed AS SELECT *, hash({pair}) % {KEYS} AS key FROM read_parquet('{file}')"
            )
            counts = connection.execute("SELECT key, count(*) FROM keyed GROUP BY key ORDER BY key").fetchall()
            connection.execute("SET preserve_insertion_order = true")
            connection.execute(
                f"COPY (SELECT * EXCLUDE (key) FROM keyed ORDER BY key, end_ns) TO '{text}' (FORMAT json)"
            )
        lines = text.read_bytes().splitlines()
        first = 0
        for key, count in counts:
            for start in range(first, first + count, MESSAGE_RECORDS):
                message = b"\n".join(lines[start : min(start + MESSAGE_RECORDS, first + count)])
                self._producer.produce(self._topic, message, key=str(key))
                self._producer.poll(0)
            first += count
        text.unlink()
        if self._producer.flush(30):
            raise OutputError(f"kafka topic {self._topic}: messages were not delivered")


def target_of(text: str, producer: str, token: str | None = None) -> Target:
    """`http://…`, `kafka://brokers/topic`, or a folder."""
    if text.startswith(("http://", "https://")):
        return HttpTarget(text, producer, token)
    if text.startswith("kafka://"):
        brokers, _, topic = text.removeprefix("kafka://").partition("/")
        if not brokers or not topic:
            raise UsageError(f"{text}: expected kafka://BROKERS/TOPIC")
        return KafkaTarget(brokers, topic)
    return DirectoryTarget(Path(text), producer)


@dataclass(frozen=True, slots=True)
class Capture:
    """Usable records of some files, in one Parquet file ordered by end."""

    file: Path
    records: int
    first_ns: int
    last_ns: int


@contextmanager
def opened(paths: list[str], mapping: ColumnMapping | None = None, form: str | None = None) -> Iterator[Capture]:
    """The capture behind names and globs, for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="llmprism-") as folder:
        file = Path(folder) / "capture.parquet"
        bounds = TimeBounds(0, _FOREVER)
        accepted = accept_flows([Path(path) for path in paths], file, bounds, mapping=mapping, format=form)
        if not accepted.stored:
            raise UsageError(f"{paths[0]}: holds no usable record")
        yield Capture(file, accepted.stored, accepted.start_ns, accepted.end_ns)


def play(
    capture: Capture,
    target: Target,
    *,
    speed: float = 1.0,
    keep_times: bool = False,
    squeeze: bool = False,
    first_number: int = 0,
    lead_ns: int = 0,
    now_ns: Callable[[], int] = time.time_ns,
    sleep: Callable[[float], None] = time.sleep,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Sends the whole capture; returns the number after its last batch. `speed` 0: as fast as the target takes it.

    `lead_ns` of the capture's beginning are sent at once, as history. `progress` is called with (records sent, of so
    many).
    """
    begun = now_ns()
    pace = speed if squeeze and speed > 0 else 1.0
    offset = 0 if keep_times else begun - int((capture.first_ns + lead_ns) / pace)
    number, sent = first_number, 0
    with tempfile.TemporaryDirectory(prefix="llmprism-") as folder, open_database() as (connection, _):
        connection.execute(f"CREATE TEMP VIEW capture AS FROM read_parquet('{capture.file}')")
        low = capture.first_ns
        while low <= capture.last_ns:
            high = low + BATCH_NS
            file = Path(folder) / f"{number}-{uuid.uuid4().hex}.parquet"
            count = _cut(connection, file, low, high, offset, pace)
            due = (high - capture.first_ns - lead_ns) / 1e9 / speed if speed > 0 else 0.0
            wait = due - (now_ns() - begun) / 1e9
            if wait > 0:
                sleep(wait)
            if count:
                target.send(file, number, count)
                file.unlink(missing_ok=True)
                number += 1
            sent += count
            if progress is not None:
                progress(sent, capture.records)
            low = high
    return number


def _cut(connection: duckdb.DuckDBPyConnection, file: Path, low: int, high: int, offset: int, pace: float) -> int:
    """Writes the records that end in [low, high) with moved times; returns how many."""
    where = f"end_ns >= {low} AND end_ns < {high}"
    row = connection.execute(f"SELECT count(*) FROM capture WHERE {where}").fetchone()
    count = int(row[0]) if row else 0
    if count:
        moved = [f"(({name} / {pace!r})::BIGINT + {offset}) AS {name}" for name in ("start_ns", "end_ns")]
        if pace == 1.0:
            moved = [f"({name} + {offset}) AS {name}" for name in ("start_ns", "end_ns")]
        connection.execute(
            f"COPY (SELECT * REPLACE ({', '.join(moved)}) FROM capture WHERE {where} ORDER BY end_ns) "
            f"TO '{file}' (FORMAT parquet, COMPRESSION zstd)"
        )
    return count
