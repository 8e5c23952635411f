"""A Kafka topic whose messages hold newline-separated JSON records, read by a consumer group.

Messages are gathered for a second into one file and become one batch. A message that does not begin as a JSON object is
counted and left out, so that one that looks like another format cannot spoil the batch. The offsets are saved in the
store with the batch's records; the group's own offsets are committed afterwards and only serve the cluster's lag
displays. On start and on every assignment the partitions are set to the store's offsets, so a crash between the two
changes nothing. An error ends `run`; its supervisor starts it again, and it reads on from the stored offsets.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from llmprism.errors import LLMPrismError, StoreError
from llmprism.service.config import KafkaSettings
from llmprism.service.intake import Intake, Payload, QueueFullError
from llmprism.service.sources.directory import mapping_of
from llmprism.service.sources.topic_reader import TopicReader
from llmprism.service.store import Store

__all__ = ["KafkaSource"]

log = logging.getLogger(__name__)

POLL_S: Final = 0.2


class KafkaSource(TopicReader):
    """Flow records of a topic, gathered into batches of the intake."""

    def __init__(
        self, settings: KafkaSettings, store: Store, intake: Intake, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(settings, f"kafka:{settings.topic}", "kafka")
        self._settings = settings
        self._store = store
        self._intake = intake
        self._mapping = mapping_of(settings.map)
        self._now_s = now_s

    def _subscribe(self, consumer: Any) -> None:
        consumer.subscribe([self._settings.topic], on_assign=self._on_assign)

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        known = self._store.positions(self.name)
        for partition in partitions:
            if str(partition.partition) in known:
                partition.offset = int(known[str(partition.partition)]) + 1
        consumer.assign(partitions)

    def _turn(self, consumer: Any, stop: threading.Event) -> None:
        self._gather(consumer, stop)

    def _gather(self, consumer: Any, stop: threading.Event) -> None:
        file = self._store.folder / "bodies" / f"{uuid.uuid4().hex}.jsonl"
        offsets: dict[int, int] = {}
        until = self._now_s() + self._settings.batch_s
        messages = lines = 0
        with file.open("wb") as target:
            while self._now_s() < until and messages < self._settings.batch_messages and not stop.is_set():
                for message in consumer.consume(1000, POLL_S):
                    if message.error():
                        self.trouble = str(message.error())
                        continue
                    self.trouble = ""
                    offsets[message.partition()] = message.offset()
                    messages += 1
                    text = self._text(message.value(), self.name)
                    target.write(text)
                    lines += text.count(b"\n")
        if not lines:
            file.unlink(missing_ok=True)
            if offsets:
                self._store.add_counts(self.name, (), _positions(offsets), time.time_ns())
            return
        self._commit(consumer, file, offsets, lines, stop)

    def _text(self, value: bytes | None, source: str) -> bytes:
        """The lines of a message, each ended; nothing where it does not begin as a JSON object, which is counted."""
        text = (value or b"").strip()
        if text.startswith(b"{"):
            return text + b"\n"
        if text:
            self._intake.count(source, "received", "", 1)
            self._intake.count(source, "dropped", "unreadable", 1)
        return b""

    def _commit(self, consumer: Any, file: Path, offsets: dict[int, int], lines: int, stop: threading.Event) -> None:
        payload = Payload(
            self.name, file, file.stat().st_size, _positions(offsets), self._mapping, "jsonl", records=lines
        )
        try:
            self._intake.put(payload, wait=True).result()
        except (QueueFullError, StoreError):
            if not stop.is_set():
                raise
            return
        except LLMPrismError as error:
            log.warning("kafka batch refused", extra={"source": self.name, "why": str(error)})
        consumer.commit(
            offsets=[
                self._kafka.TopicPartition(self._settings.topic, partition, offset + 1)
                for partition, offset in offsets.items()
            ],
            asynchronous=True,
        )


def _positions(offsets: dict[int, int]) -> tuple[tuple[str, str], ...]:
    return tuple((str(partition), str(offset)) for partition, offset in sorted(offsets.items()))
