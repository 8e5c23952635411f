"""Batches of flow records on their way into the store: a bounded queue and one thread that empties it.

Payloads (files on disk) that wait together become one batch, whoever sent them: one Parquet segment, one transaction.
Each is counted under its own source, and its times are judged by its source's clock (`clocks`). A payload that cannot
be read is refused alone. While the store does not answer or the disk is full, the batch at hand is tried again until it
succeeds; the queue fills, and the sources wait (directory, Kafka) or turn clients away (HTTP). So nothing that was
acknowledged is lost, and nothing is acknowledged before it is committed.

One DuckDB serves all batches, with a limit on its memory: a body of a few kilobytes can hold gigabytes.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from llmprism import limits
from llmprism.errors import FormatError, LLMPrismError, StoreError
from llmprism.ingest.accept import Accepted, Arrival, FilesOfSource, TimeBounds, accept_parts
from llmprism.ingest.database import QUIETLY, Database, open_database
from llmprism.ingest.mapping import ColumnMapping
from llmprism.service.clock_of_source import Clock
from llmprism.service.clocks import ClockBounds, comes_late, declared_late, judge
from llmprism.service.common_silence import after_a_silence
from llmprism.service.config import Config
from llmprism.service.database import sync_file
from llmprism.service.late_sources import late_mark
from llmprism.service.rules.configured import rules_of
from llmprism.service.store import Batch, SourceBatch, Store
from llmprism.service.turned_away import TurnedAway
from llmprism.service.watermarks import watermark
from llmprism.units import SECOND

__all__ = ["Intake", "Payload", "QueueFullError", "clear_incoming", "steady_clock"]

log = logging.getLogger(__name__)

BATCH_PAYLOADS: Final = 64
"""Payloads put together into one segment: a second's worth of many small pushes."""

BATCH_BYTES: Final = 64 << 20

SHOWN_S: Final = 30.0
"""How long the page and the probes tell that something was turned away."""

RETRY_S: Final = 1.0
"""Between two tries while the store or the disk fails."""

INTAKE_THREADS: Final = 1
"""Threads of the intake's DuckDB: a second one costs a tenth more per record, and one takes a million a second."""

FILES: Final = "directory:"
"""Sources whose names begin so bring files, perhaps late ones; their records get segments of their own."""

CLOCKS_S: Final = 2.0
"""How often the clocks of other workers' sources are read."""


class QueueFullError(Exception):
    """The queue holds as much as it may; the payload was not taken."""


def steady_clock() -> Callable[[], int]:
    """This machine's time as it was at the start and has passed since: a clock that is set does not move it."""
    begun, wall = time.monotonic_ns(), time.time_ns()
    return lambda: wall + time.monotonic_ns() - begun


@dataclass(slots=True)
class Payload:
    """One file of records; `positions` of its source move with its commit (kept under `positions_of` where that is not
    the source itself). A temporary file is removed after it. `records` is how many the sender says there are."""

    source: str
    path: Path
    size: int
    positions: tuple[tuple[str, str], ...] = ()
    mapping: ColumnMapping | None = None
    format: str | None = None
    temporary: bool = True
    positions_of: str = ""
    records: int = 0
    done: Future[Accepted] = field(default_factory=Future)


class Intake:
    """`put` from any thread; `run` in one. `trouble` says why nothing moves, or is empty."""

    def __init__(self, store: Store, config: Config, now_ns: Callable[[], int] | None = None) -> None:
        self._store = store
        self._now_ns = now_ns or steady_clock()
        self._waiting: deque[Payload] = deque()
        self._bytes = 0
        self._limit = int(config.http.queue_mb * 1e6)
        self._memory = f"{config.store.intake_memory_mb:.0f}MB"
        self._most = min(config.store.batch_records, limits.MAX_BATCH_RECORDS)
        self._rules = rules_of(config).clocks
        self._changed = threading.Condition()
        self._stopping = False
        self._shed: dict[tuple[str, str, str], int] = {}
        self._kept_trouble = (0.0, "")
        self._clocks: dict[tuple[str, str], Clock] | None = None
        self._clocks_read_s = 0.0
        self._refuses = False
        self._turned_away = TurnedAway()
        self._mark: int | None = None
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

    def cannot_keep(self, source: str, reason: str) -> None:
        """Bodies cannot be written at the moment; that of this source was turned away and will come again."""
        self._kept_trouble = (time.monotonic() + SHOWN_S, f"bodies cannot be kept: {reason}")
        self._refuses = True
        self._turned_away.add(source)

    def troubles(self) -> list[str]:
        """Sentences on why records cannot be taken now."""
        found = [f"records cannot be stored: {self.trouble}"] if self.trouble else []
        until, text = self._kept_trouble
        return [*found, text] if until > time.monotonic() else found

    def stop(self) -> None:
        """What is queued is still committed, then `run` returns."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def run(self) -> None:
        with open_database(self._memory, INTAKE_THREADS) as (database, _):
            while True:
                payloads = self._take()
                self._write_counts()
                if payloads:
                    self._settle(payloads, database.cursor)
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
                if taken and (not self._together(taken[0], first) or size + first.size > BATCH_BYTES):
                    break
                taken.append(self._waiting.popleft())
                size += first.size
            return taken

    def _together(self, one: Payload, other: Payload) -> bool:
        alike = one.mapping == other.mapping and one.format == other.format
        apart = one.source.startswith(FILES) or other.source.startswith(FILES)
        return alike and (one.source == other.source or (self._store.mixes_sources and not apart))

    def _settle(self, payloads: list[Payload], cursor: Callable[[], Database]) -> None:
        """Commits the payloads and answers those who wait for them."""
        try:
            self._commit_again(payloads, cursor)
        finally:
            with self._changed:
                self._bytes -= sum(payload.size for payload in payloads)
                self._changed.notify_all()

    def _commit_again(self, payloads: list[Payload], cursor: Callable[[], Database]) -> None:
        batch, again = uuid.uuid4().hex, False
        while True:
            try:
                accepted = self._commit(batch, payloads, cursor, again=again)
            except (StoreError, OSError) as error:
                self._fail(str(error))
                self._mark, again = None, True
                if self._stopping:
                    for payload in payloads:
                        _finish(payload, StoreError(str(error)))
                    return
                time.sleep(RETRY_S)
            except LLMPrismError as error:
                self._refuse(payloads, error, cursor)
                return
            except Exception as error:  # a bug, or an input nobody thought of: it must not stop those that follow
                log.exception("a batch could not be taken in")
                self._refuse(payloads, FormatError(f"it cannot be taken in ({type(error).__name__})"), cursor)
                return
            else:
                self.trouble = ""
                for payload, one in zip(payloads, accepted, strict=True):
                    _finish(payload, one)
                return

    def _fail(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error("records cannot be stored", extra={"reason": trouble})
        self.trouble = trouble
        self._refuses = True

    def _refuse(self, payloads: list[Payload], error: LLMPrismError, cursor: Callable[[], Database]) -> None:
        """One bad payload among several is found by trying each alone."""
        self._mark = None
        if len(payloads) > 1:
            for payload in payloads:
                self._commit_again([payload], cursor)
            return
        payload = payloads[0]
        log.warning("payload refused", extra={"source": payload.source, "file": payload.path.name, "why": str(error)})
        while True:
            try:
                counts = [("refused_payloads", error.slug, 1)]
                if payload.records:
                    counts += [("received", "", payload.records), ("dropped", "refused", payload.records)]
                self._store.add_counts(
                    payload.source, counts, payload.positions, self._now_ns(), positions_of=payload.positions_of
                )
                break
            except StoreError as trouble:
                self._fail(str(trouble))
                if self._stopping:
                    break
                time.sleep(RETRY_S)
        _finish(payload, error)

    def _commit(
        self, batch: str, payloads: list[Payload], cursor: Callable[[], Database], *, again: bool
    ) -> list[Accepted]:
        first = payloads[0]
        file = self._store.incoming / f"{batch}.parquet"
        spill = self._store.incoming / f"{batch}.spill"
        parts = [FilesOfSource(payload.source, (payload.path,)) for payload in payloads]
        wall, before = self._now_ns(), self._watermark()
        sources = {payload.source for payload in payloads}
        known = self._turned_away.waited_for(self._known_clocks(), sources, wall)
        names = [payload.source for payload in payloads]
        late = late_mark(known.values(), wall, self._rules)
        judged: list[ClockBounds] = []

        def decide(arrivals: Sequence[Arrival]) -> Sequence[TimeBounds]:
            nonlocal known
            arrived = {(names[one.part], one.exporter): one for one in arrivals}
            known = after_a_silence(known, arrived, wall, self._rules, refused=self._refuses)
            judged[:] = [judge(known, names, arrivals, before, wall, self._rules, late)]
            return judged[0].bounds

        spill.mkdir(exist_ok=True)
        try:
            with cursor() as connection:
                connection.execute(QUIETLY)
                accepted = accept_parts(
                    connection, spill, parts, file, decide, mapping=first.mapping, format=first.format, most=self._most
                )
        finally:
            shutil.rmtree(spill, ignore_errors=True)
        if again and self._store.committed(batch):
            file.unlink(missing_ok=True)
            return accepted
        changed = judged[0].clocks if judged else ()
        clocks = {**known, **{clock.key: clock for clock in changed}}
        mark = watermark(clocks.values(), before, wall, self._rules)
        made = tuple(
            SourceBatch(payload.source, one, payload.positions, payload.positions_of)
            for payload, one in zip(payloads, accepted, strict=True)
        )
        target = (
            self._placed(batch, file, max(one.end_ns for one in accepted), late=self._all_late(changed))
            if any(one.stored for one in accepted)
            else None
        )
        committed = Batch(batch, made, target, wall, mark, changed)
        self._store.commit_batch(committed)
        self._mark = committed.mark_after(before)
        self._note(known, changed)
        self._clocks, self._refuses = clocks, False
        self._turned_away.came_back(sources)
        return accepted

    def _watermark(self) -> int:
        """The watermark; where nobody else moves it, it is the one that the last batch left."""
        if self._mark is None or not self._store.mixes_sources:
            self._mark, _ = self._store.watermark()
        return self._mark

    def _all_late(self, clocks: Sequence[Clock]) -> bool:
        """Is this batch one for the windows of late sources? Among workers only what the operator has said to be: a
        partition that nobody has read for a while comes late too, and is waited for."""
        if not self._store.mixes_sources:
            return bool(clocks) and all(declared_late(clock.source, self._rules) for clock in clocks)
        return all(comes_late(clock, self._rules) for clock in clocks)

    def _placed(self, batch: str, file: Path, end_ns: int, *, late: bool) -> Path:
        """The finished segment in its place, on disk."""
        target = self._store.segment_file(batch, end_ns, late=late)
        target.parent.mkdir(exist_ok=True)
        sync_file(file)
        file.replace(target)
        sync_file(target)
        return target

    def _known_clocks(self) -> dict[tuple[str, str], Clock]:
        """The clocks so far. Those of an earlier process keep their offsets, but say nothing of the time now."""
        if self._clocks is None:
            found = self._store.clocks()
            last = max((clock.wall_ns for clock in found.values()), default=0) - self._rules.recent_ns
            now = self._now_ns()
            self._clocks = {key: one.asleep(now if one.wall_ns >= last else 0) for key, one in found.items()}
            self._clocks_read_s = time.monotonic()
        elif not self._store.mixes_sources and time.monotonic() - self._clocks_read_s > CLOCKS_S:
            self._clocks = {**self._store.clocks(), **self._clocks}
            self._clocks_read_s = time.monotonic()
        return self._clocks

    def _note(self, before: dict[tuple[str, str], Clock], changed: Sequence[Clock]) -> None:
        for clock in changed:
            old = before.get(clock.key)
            if clock.offset_ns and (old is None or abs(clock.offset_ns - old.offset_ns) > SECOND):
                about = {"source": clock.source, "exporter": clock.exporter, "offset_s": clock.offset_ns / SECOND}
                log.warning("a clock disagrees with the others; its times are moved", extra=about)

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
    """Removes the file, then answers whoever waits."""
    if payload.temporary:
        payload.path.unlink(missing_ok=True)
    if isinstance(result, Accepted):
        payload.done.set_result(result)
    else:
        payload.done.set_exception(result)


def clear_incoming(store: Store) -> None:
    """Removes what a crash left half done: uncommitted segments and bodies that were never acknowledged."""
    for name in ("incoming", "bodies"):
        folder = store.folder / name
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            if file.is_dir():
                shutil.rmtree(file, ignore_errors=True)
            else:
                file.unlink(missing_ok=True)
