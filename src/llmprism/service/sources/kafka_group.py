"""A Kafka topic read by several workers in one consumer group.

As `kafka`, with one batch per partition and its range of offsets as position: `first:end`, where `first` is the stored
position that the partition was read from. The store takes a batch only where that is still its position. When Kafka
takes a partition away, what was gathered of it is forgotten: its next owner reads it again from the stored position.
An owner that finds its partition empty says so every second, so that windows do not wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from llmprism.errors import LLMPrismError, StoreError
from llmprism.ingest.accept import Accepted
from llmprism.service.config import KafkaSettings, WorkerSettings
from llmprism.service.intake import Intake, Payload, QueueFullError
from llmprism.service.sources.kafka import POLL_S, KafkaSource
from llmprism.service.workers.shared_store import UNREAD, SharedStore

__all__ = ["KafkaGroupSource"]

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
REGISTER_S: Final = 30.0
"""How often new partitions of the topic are looked for."""

METADATA_S: Final = 10.0


@dataclass(slots=True)
class _Gathered:
    """What was read of a partition since its last batch: the offsets from `first` up to `end`."""

    path: Path
    file: BinaryIO
    first: int
    end: int
    lines: int = 0


class KafkaGroupSource(KafkaSource):
    """`run` in a thread of its own until `stop` is set. `partitions` are those that this worker reads now."""

    def __init__(
        self,
        settings: KafkaSettings,
        workers: WorkerSettings,
        store: SharedStore,
        intake: Intake,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings, store, intake, now_s)
        self._shared = store
        self._session_ms = int(workers.session_s * 1000)
        self._next: dict[int, int] = {}
        self._gathered: dict[int, _Gathered] = {}
        self._ended: set[int] = set()
        self._stale: set[int] = set()
        self._registered_s = float("-inf")
        self._stop = threading.Event()

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(sorted(self._next))

    def run(self, stop: threading.Event) -> None:
        self._stop = stop
        try:
            super().run(stop)
        finally:
            self._forget(list(self._gathered))

    def _options(self) -> dict[str, Any]:
        beat_ms = max(self._session_ms // 5, 200)
        session = {"session.timeout.ms": self._session_ms, "heartbeat.interval.ms": beat_ms}
        return {**session, "enable.partition.eof": True}

    def _subscribe(self, consumer: Any) -> None:
        consumer.subscribe(
            [self._settings.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def _turn(self, consumer: Any, stop: threading.Event) -> None:
        """One batch of every partition that has something. While the store or the disk is away, nothing moves."""
        try:
            self._go_back(consumer)
            self._register(consumer)
            self._gather(consumer, stop)
            self._tell()
        except (StoreError, OSError) as error:
            if str(error) != self.trouble:
                log.error("kafka waits for the store", extra={"source": self.name, "reason": str(error)})
            self.trouble = str(error)
            self._stale.update(self._next)
            self._forget(list(self._gathered))
            stop.wait(RETRY_S)

    def _go_back(self, consumer: Any) -> None:
        """Reads partitions again from where the store stands, of which messages were read and not stored. Until that
        has succeeded nothing of them is taken: a batch must hold all messages of its range."""
        for partition in sorted(self._stale):
            position = self._next[partition]
            offset = self._kafka.OFFSET_BEGINNING if position == UNREAD else position
            try:
                consumer.seek(self._kafka.TopicPartition(self._settings.topic, partition, offset))
            except self._kafka.KafkaException as error:
                self.trouble = f"partition {partition} cannot be read again ({error})"
                continue
            log.warning("partition is read again", extra={"source": self._name(partition), "position": position})
            self._stale.discard(partition)

    def _name(self, partition: int) -> str:
        return f"{self.name}/{partition}"

    def _register(self, consumer: Any) -> None:
        if self._now_s() - self._registered_s < REGISTER_S:
            return
        try:
            topic = consumer.list_topics(self._settings.topic, METADATA_S).topics[self._settings.topic]
        except (self._kafka.KafkaException, KeyError) as error:
            self.trouble = f"the topic cannot be looked up ({error})"
            return
        if topic.partitions:
            self._shared.register(self._name(partition) for partition in topic.partitions)
            self._registered_s = self._now_s()

    # -- whose partitions ---------------------------------------------------------------------------------------

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        """Reads on from the store's positions; asks until the store answers, for nothing can be read without it."""
        while not self._stop.is_set():
            try:
                known = self._shared.take_over(self._name(one.partition) for one in partitions)
                break
            except StoreError as error:
                self.trouble = str(error)
                self._stop.wait(RETRY_S)
        else:
            return
        for one in partitions:
            position = known[self._name(one.partition)]
            self._next[one.partition] = position
            self._stale.discard(one.partition)
            one.offset = self._kafka.OFFSET_BEGINNING if position == UNREAD else position
        self.trouble = ""
        log.info("partitions taken", extra={"source": self.name, "partitions": sorted(self._next)})
        consumer.assign(partitions)

    def _on_revoke(self, _consumer: Any, partitions: list[Any]) -> None:
        gone = [one.partition for one in partitions]
        log.info("partitions given up", extra={"source": self.name, "partitions": sorted(gone)})
        self._forget(gone)
        for partition in gone:
            self._next.pop(partition, None)
            self._ended.discard(partition)
            self._stale.discard(partition)

    def _forget(self, partitions: list[int]) -> None:
        for partition in partitions:
            gathered = self._gathered.pop(partition, None)
            if gathered is not None:
                gathered.file.close()
                gathered.path.unlink(missing_ok=True)

    # -- batches ------------------------------------------------------------------------------------------------

    def _gather(self, consumer: Any, stop: threading.Event) -> None:
        until = self._now_s() + self._settings.batch_s
        messages = 0
        while self._now_s() < until and messages < self._settings.batch_messages and not stop.is_set():
            for message in consumer.consume(1000, POLL_S):
                if message.error():
                    self._on_event(message)
                elif message.partition() in self._next and message.partition() not in self._stale:
                    self._keep(message)
                    messages += 1
        self._commit_all(consumer, stop)

    def _on_event(self, message: Any) -> None:
        if message.error().code() == self._kafka.KafkaError._PARTITION_EOF:
            if message.partition() in self._next and message.partition() not in self._stale:
                self._ended.add(message.partition())
            self.trouble = ""
        else:
            self.trouble = str(message.error())

    def _keep(self, message: Any) -> None:
        partition = message.partition()
        self._ended.discard(partition)
        gathered = self._gathered.get(partition)
        if gathered is None:
            path = self._store.folder / "bodies" / f"{uuid.uuid4().hex}.jsonl"
            gathered = _Gathered(path, path.open("wb"), self._next[partition], 0)
            self._gathered[partition] = gathered
        missing = message.offset() - max(gathered.first, gathered.end)
        if missing > 0 and gathered.first != UNREAD:
            self._miss(partition, missing)
        self.trouble = ""
        text = self._text(message.value(), self._name(partition))
        gathered.file.write(text)
        gathered.lines += text.count(b"\n")
        gathered.end = message.offset() + 1

    def _miss(self, partition: int, offsets: int) -> None:
        """Offsets that were skipped: the topic's retention was too short for us, or they hold no messages."""
        log.warning("offsets skipped", extra={"source": self._name(partition), "offsets": offsets})
        self._intake.count(self._name(partition), "skipped_offsets", "", offsets)

    def _commit_all(self, consumer: Any, stop: threading.Event) -> None:
        waiting: list[tuple[int, int, Future[Accepted]]] = []
        try:
            for partition, gathered in sorted(self._gathered.items()):
                gathered.file.close()
                span = ((str(partition), f"{gathered.first}:{gathered.end}"),)
                if not gathered.lines:
                    gathered.path.unlink(missing_ok=True)
                    self._shared.add_counts(self._name(partition), (), span)
                    self._next[partition] = gathered.end
                    continue
                size = gathered.path.stat().st_size
                payload = Payload(
                    self._name(partition), gathered.path, size, span, self._mapping, "jsonl", records=gathered.lines
                )
                waiting.append((partition, gathered.end, self._intake.put(payload, wait=True)))
            self._gathered.clear()
            for partition, end, future in waiting:
                self._settle(partition, end, future)
        except (QueueFullError, StoreError):
            if not stop.is_set():
                raise
            return
        offsets = [self._kafka.TopicPartition(self._settings.topic, partition, end) for partition, end, _ in waiting]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=True)

    def _settle(self, partition: int, end: int, future: Future[Accepted]) -> None:
        try:
            future.result()
        except StoreError:
            raise
        except LLMPrismError as error:
            log.warning("kafka batch refused", extra={"source": self._name(partition), "why": str(error)})
        self._next[partition] = end

    # -- what others have to know -------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Says which partitions are empty. Where the store stands elsewhere, it is right: another was quicker."""
        stored = self._shared.positions_of(self._name(partition) for partition in self._next)
        empty: dict[str, int] = {}
        for partition, position in list(self._next.items()):
            truth = stored.get(self._name(partition), UNREAD)
            if truth != position:
                self._next[partition] = truth
                self._ended.discard(partition)
                self._stale.add(partition)
            elif partition in self._ended:
                empty[self._name(partition)] = position
        if empty:
            self._shared.affirm_empty(empty)
