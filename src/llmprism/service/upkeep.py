"""Keeps the store small: expires what is old, and merges the small segments of past minutes into larger files."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import Final

import duckdb

from llmprism.errors import StoreError
from llmprism.ingest.database import open_database
from llmprism.service.config import Config
from llmprism.service.database import sync_file
from llmprism.service.late_sources import LATE_PREFIX
from llmprism.service.store import Segment, Store
from llmprism.units import SECOND

__all__ = ["Upkeep"]

log = logging.getLogger(__name__)

INTERVAL_S: Final = 60.0
MERGED_RECORDS: Final = 1_000_000
"""Records of a merged segment: about 10 MB, one read for DuckDB."""

MERGED_SEGMENTS: Final = 500
"""Most files of one merge: each holds a file handle."""


class Upkeep:
    """`run` in a thread of its own until `stop` is set."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._flows_ns = int(config.store.keep_flows_h * 3600 * SECOND)
        self._history_ns = int(config.store.keep_history_d * 86_400 * SECOND)
        self._settled_ns = 2 * config.windows.rules().longest

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(INTERVAL_S):
            try:
                self.once()
            except (StoreError, OSError, duckdb.Error) as error:
                log.warning("upkeep failed", extra={"reason": str(error)})

    def once(self) -> None:
        latest, _ = self._store.watermark()
        if not latest:
            return
        gone = self._store.expire(latest - self._flows_ns, latest - self._history_ns, time.time_ns() - self._history_ns)
        if gone:
            log.info("old flows removed", extra={"segments": gone})
        while self._merge_some(latest - self._settled_ns):
            pass

    def _merge_some(self, before_ns: int) -> bool:
        """Merges one run of small segments that no window will ask for again by number; False where there is none."""
        small: list[Segment] = []
        for segment in self._store.segments(0, before_ns):
            fits = segment.end_ns < before_ns and segment.records < MERGED_RECORDS // 2
            total = sum(item.records for item in small) + segment.records
            if fits and total <= MERGED_RECORDS and len(small) < MERGED_SEGMENTS and _alike(small, segment):
                small.append(segment)
            elif len(small) > 1:
                break
            else:
                small = [segment] if fits else []
        if len(small) < 2:
            return False
        self._merge(small)
        return True

    def _merge(self, segments: list[Segment]) -> None:
        prefix = LATE_PREFIX if _is_late(segments[-1]) else ""
        target = segments[-1].path.with_name(f"{prefix}{uuid.uuid4().hex}.parquet")
        names = ", ".join("'" + str(segment.path).replace("'", "''") + "'" for segment in segments)
        with open_database() as (connection, _):
            connection.execute(
                f"COPY (SELECT * FROM read_parquet([{names}], union_by_name=true) ORDER BY end_ns) "
                f"TO '{str(target).replace(chr(39), chr(39) * 2)}' (FORMAT parquet, COMPRESSION zstd)"
            )
        sync_file(target)
        self._store.replace_segments(segments, target)


def _is_late(segment: Segment) -> bool:
    return segment.path.name.startswith(LATE_PREFIX)


def _alike(segments: list[Segment], other: Segment) -> bool:
    """Are they of the same hour, and all of late sources or none of them?"""
    first = segments[0] if segments else other
    return first.path.parent == other.path.parent and _is_late(first) == _is_late(other)
