"""Batches of flow records on their way into the store: a bounded queue and one thread that empties it.

Payloads (files on disk) of one source that wait together become one batch: one Parquet segment, one transaction. A
payload that cannot be read is refused alone. While the store does not answer or the disk is full, the batch at hand is
tried again until it succeeds; the queue fills, and the sources wait (directory, Kafka) or turn clients away (HTTP). So
nothing that was acknowledged is lost, and nothing is acknowledged before it is committed.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from llmprism.errors import LLMPrismError, StoreError
from llmprism.ingest.accept import Accepted, TimeBounds, accept_flows
from llmprism.ingest.mapping import ColumnMapping
from llmprism.service.config import Config
from llmprism.service.database import sync_file
from llmprism.service.store import Batch, Store
from llmprism.service.windows import SECOND

__all__ = ["Intake", "Payload", "QueueFullError", "clear_incoming"]

log = logging.getLogger(__name__)

BATCH_PAYLOADS: Final = 64
"""Payloads put together into one segment: a second's worth of many small pushes."""

BATCH_BYTES: Final = 64 << 20

SHOWN_S: Final = 30.0
"""How long the page and the probes tell that something was turned away."""

RETRY_S: Final = 1.0
"""Between two tries while the store or the disk fails."""


class QueueFullError(Exception):
    """The queue holds as much as it may; the payload was not taken."""


@dataclass(slots=True)
class Payload:
    """One file of records; `positions` of its source move with its commit. A temporary file is removed after it."""

    source: str
    path: Path
    size: int
    positions: tuple[tuple[str, str], ...] = ()
    mapping: ColumnMapping | None = None
    format: str | None = None
    temporary: bool = True
    done: Future[Accepted] = field(default_factory=Future)


class Intake:
    """`put` from any thread; `run` in one. `trouble` says why nothing moves, or is empty."""

    def __init__(self, store: Store, config: Config, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._config = config
        self._now_ns = now_ns
        self._waiting: deque[Payload] = deque()
        self._bytes = 0
        self._limit = int(config.http.queue_mb * 1e6)
        self._changed = threading.Condition()
        self._stopping = False
        self._shed: dict[tuple[str, str, str], int] = {}
        self._kept_trouble = (0.0, "")
        self.trouble = ""
        self.sheds_until = 0.0

    @property
    def queued_bytes(self) -> int:
        return self._bytes

    def put(self, payload: Payload, wait: bool = False) -> Future[Accepted]:
        """Takes a payload. Raises QueueFullError where there is no room, or waits for it."""
        with self._changed:
            while self._waiting and self._bytes + payload.size > self._limit and not self._stopping:
                if not wait:
                    raise QueueFullError
                self._changed.wait(1.0)
            if self._stopping:
                raise QueueFullError
            self._waiting.append(payload)
            self._bytes += payload.size
            self._changed.notify_all()
        return payload.done

    def has_room(self, size: int) -> bool:
        return not self._waiting or self._bytes + size <= self._limit

    def count(self, source: str, name: str, reason: str, value: int) -> None:
        """Adds to a counter; it is written with the next batch or within a second."""
        with self._changed:
            key = (source, name, reason)
            self._shed[key] = self._shed.get(key, 0) + value

    def shed(self, source: str, records: int, size: int, reason: str = "overload") -> None:
        """Counts records that were turned away for want of room."""
        if reason == "overload":
            self.sheds_until = time.monotonic() + SHOWN_S
        self.count(source, "received", "", records)
        self.count(source, "dropped", reason, records)
        self.count(source, "shed_requests", "", 1)
        self.count(source, "shed_bytes", "", size)

    def cannot_keep(self, reason: str) -> None:
        """Bodies cannot be written at the moment."""
        self._kept_trouble = (time.monotonic() + SHOWN_S, f"bodies cannot be kept: {reason}")

    def troubles(self) -> list[str]:
        """Plain sentences on why records cannot be taken now."""
        found = [f"records cannot be stored: {self.trouble}"] if self.trouble else []
        until, text = self._kept_trouble
        return [*found, text] if until > time.monotonic() else found

    def stop(self) -> None:
        """What is queued is still committed, then `run` returns."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def run(self) -> None:
        while True:
            payloads = self._take()
            self._write_counts()
            if payloads:
                self._settle(payloads)
            elif self._stopping:
                return

    def _take(self) -> list[Payload]:
        with self._changed:
            if not self._waiting and not self._stopping:
                self._changed.wait(1.0)
            taken: list[Payload] = []
            size = 0
            while self._waiting and len(taken) < BATCH_PAYLOADS:
                first = self._waiting[0]
                if taken and (not _together(taken[0], first) or size + first.size > BATCH_BYTES):
                    break
                taken.append(self._waiting.popleft())
                size += first.size
            return taken

    def _settle(self, payloads: list[Payload]) -> None:
        """Commits the payloads and tells those who wait for them."""
        try:
            self._commit_again(payloads)
        finally:
            with self._changed:
                self._bytes -= sum(payload.size for payload in payloads)
                self._changed.notify_all()

    def _commit_again(self, payloads: list[Payload]) -> None:
        batch = uuid.uuid4().hex
        while True:
            try:
                accepted = self._commit(batch, payloads)
            except (StoreError, OSError) as error:
                self._fail(str(error))
                if self._stopping:
                    for payload in payloads:
                        _finish(payload, StoreError(str(error)))
                    return
                time.sleep(RETRY_S)
            except LLMPrismError as error:
                self._refuse(payloads, error)
                return
            else:
                self.trouble = ""
                for payload in payloads:
                    _finish(payload, accepted)
                return

    def _fail(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error("records cannot be stored", extra={"reason": trouble})
        self.trouble = trouble

    def _refuse(self, payloads: list[Payload], error: LLMPrismError) -> None:
        """One bad payload among several is found by trying each alone."""
        if len(payloads) > 1:
            for payload in payloads:
                self._commit_again([payload])
            return
        payload = payloads[0]
        log.warning("payload refused", extra={"source": payload.source, "file": payload.path.name, "why": str(error)})
        while True:
            try:
                counts = [("refused_payloads", error.slug, 1)]
                self._store.add_counts(payload.source, counts, payload.positions, self._now_ns())
                break
            except StoreError as trouble:
                self._fail(str(trouble))
                if self._stopping:
                    break
                time.sleep(RETRY_S)
        _finish(payload, error)

    def _commit(self, batch: str, payloads: list[Payload]) -> Accepted:
        first = payloads[0]
        file = self._store.incoming / f"{batch}.parquet"
        accepted = accept_flows(
            [payload.path for payload in payloads],
            file,
            self._bounds(),
            mapping=first.mapping,
            format=first.format,
        )
        if self._store.committed(batch):
            file.unlink(missing_ok=True)
            return accepted
        target = None
        if accepted.stored:
            target = self._store.segment_file(batch, accepted.end_ns)
            target.parent.mkdir(exist_ok=True)
            sync_file(file)
            file.replace(target)
            sync_file(target)
        positions = tuple(position for payload in payloads for position in payload.positions)
        self._store.commit_batch(Batch(batch, first.source, accepted, target, positions, self._now_ns()))
        return accepted

    def _bounds(self) -> TimeBounds:
        latest, _ = self._store.watermark()
        now = self._now_ns()
        oldest = latest - int(self._config.store.keep_flows_h * 3600 * SECOND) if latest else 0
        newest = now + int(self._config.windows.future_s * SECOND)
        late = latest - int(self._config.windows.lateness_s * SECOND)
        return TimeBounds(max(oldest, 0), newest, max(late, 0))

    def _write_counts(self) -> None:
        with self._changed:
            counts, self._shed = self._shed, {}
        by_source: dict[str, list[tuple[str, str, int]]] = {}
        for (source, name, reason), value in counts.items():
            by_source.setdefault(source, []).append((name, reason, value))
        for source, values in by_source.items():
            try:
                self._store.add_counts(source, values)
            except StoreError as error:
                self._fail(str(error))
                for name, reason, value in values:
                    self.count(source, name, reason, value)


def _finish(payload: Payload, result: Accepted | LLMPrismError) -> None:
    """Removes the file, then tells whoever waits."""
    if payload.temporary:
        payload.path.unlink(missing_ok=True)
    if isinstance(result, Accepted):
        payload.done.set_result(result)
    else:
        payload.done.set_exception(result)


def _together(one: Payload, other: Payload) -> bool:
    return one.source == other.source and one.mapping == other.mapping and one.format == other.format


def clear_incoming(store: Store) -> None:
    """Removes what a crash left half done: uncommitted segments and bodies that nobody was told about."""
    for name in ("incoming", "bodies"):
        folder = store.folder / name
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            if file.is_dir():
                shutil.rmtree(file, ignore_errors=True)
            else:
                file.unlink(missing_ok=True)
