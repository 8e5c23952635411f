"""From transfers to stored records: the meter and the collector, batch by batch, with the small traffic mixed in."""

from __future__ import annotations

import numpy as np

from llmprism.sim.background import Mice
from llmprism.sim.collector import CollectedRecords, SimulatedCollector
from llmprism.sim.engine_tables import NEVER, Transfers
from llmprism.sim.meter import Connections, Records, close_idle, measure, new_meter
from llmprism.sim.scenario import CollectorSpec

__all__ = ["Recorder"]

BATCH_RECORDS = 1_000_000
"""Records that are in memory at once."""


class Recorder:
    """Keeps the open records between batches. Only records that lie inside the window are stored."""

    def __init__(
        self,
        spec: CollectorSpec,
        connections: Connections,
        count: int,
        mice: Mice,
        collector: SimulatedCollector,
        window_ns: int,
        seed: np.uint64,
    ) -> None:
        """`count` is the number of all connections, those of the small traffic included."""
        self.idle = int(spec.idle_ms * 1e6)
        self.active = int(spec.active_s * 1e9)
        self.connections = connections
        self.meter = new_meter(count)
        self.mice = mice
        self.mice_done = 0
        self.collector = collector
        self.window_ns = window_ns
        self.seed = seed
        self.records = Records(
            np.zeros(BATCH_RECORDS, dtype=np.int32), *(np.zeros(BATCH_RECORDS, dtype=np.int64) for _ in range(3))
        )

    def record(self, transfers: Transfers, now: int | None) -> list[CollectedRecords]:
        """What the collector stores up to `now` (None: this was the last batch)."""
        made: list[CollectedRecords] = []
        row = 0
        while row < transfers.pair.size:
            row, written = measure(
                transfers.pair,
                transfers.start,
                transfers.end,
                transfers.bytes,
                transfers.active_ns,
                row,
                self.connections,
                self.meter,
                self.records,
                self.idle,
                self.active,
                self.seed,
            )
            made += self._stored(written)
        connection = 0
        before = NEVER if now is None else now - self.idle
        while connection < self.meter.bytes.size:
            connection, written = close_idle(self.meter, self.records, before, connection)
            made += self._stored(written)
        return made + self._mice(self.window_ns if now is None else now)

    def _stored(self, count: int) -> list[CollectedRecords]:
        records = self.records
        rows = np.flatnonzero((records.start[:count] >= 0) & (records.end[:count] <= self.window_ns))
        if not rows.size:
            return []
        batch = self.collector.collect(
            records.connection[rows], records.start[rows], records.end[rows], records.bytes[rows]
        )
        return [batch]

    def _mice(self, now: int) -> list[CollectedRecords]:
        part = slice(self.mice_done, int(np.searchsorted(self.mice.end, now, side="right")))
        if part.stop <= part.start:
            return []
        self.mice_done = part.stop
        mice = self.mice
        return [self.collector.collect(mice.connection[part], mice.start[part], mice.end[part], mice.bytes[part])]
