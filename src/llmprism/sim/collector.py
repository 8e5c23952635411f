"""What exporters and the collector do to records on their way: skew, rounding, loss, copies, sampling, outages, delay.

All functions take and give arrays of one batch. The order of the rows at the end is the order in which the collector
wrote them: by export time, late rows later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Bool, Int32, Int64
from llmprism.sim.scenario import CollectorSpec
from llmprism.units import MILLISECOND, SECOND

__all__ = ["CollectedRecords", "SimulatedCollector"]


PACKET_BYTES = 4096
"""Payload per packet at a 4 KiB MTU."""


@dataclass(frozen=True, slots=True)
class CollectedRecords:
    """Records as they are written. `exporter` is a leaf id."""

    connection: Int32
    start: Int64
    end: Int64
    bytes: Int64
    packets: Int64
    exporter: Int32

    def take(self, rows: NDArray[np.intp] | Bool) -> CollectedRecords:
        return CollectedRecords(
            self.connection[rows],
            self.start[rows],
            self.end[rows],
            self.bytes[rows],
            self.packets[rows],
            self.exporter[rows],
        )


class SimulatedCollector:
    """Holds the exporters' clocks; `collect` turns a batch of true records into what the collector stores."""

    def __init__(
        self, spec: CollectorSpec, leaves: int, source_leaf: Int32, target_leaf: Int32, rng: np.random.Generator
    ) -> None:
        """`source_leaf` and `target_leaf` give the leaf at either end of each connection."""
        self.spec = spec
        self.source_leaf = source_leaf
        self.target_leaf = target_leaf
        self.rng = rng
        self.skew = (rng.normal(0.0, 1.0, leaves) * spec.skew_ms * MILLISECOND).astype(np.int64)

    def collect(self, connection: Int32, start: Int64, end: Int64, size: Int64) -> CollectedRecords:
        packets = size // PACKET_BYTES + 1
        batch = CollectedRecords(connection, start, end, size, packets, self.source_leaf[connection])
        spec = self.spec
        if spec.cuts > 0:
            batch = self._cut(batch)
        if spec.sampling > 1:
            batch = self._sampled(batch)
        if spec.duplicates > 0:
            batch = self._copied(batch)
        if spec.loss > 0:
            batch = batch.take(self.rng.random(batch.start.size) >= spec.loss)
        if spec.outage_leaf >= 0 and spec.outage_for_s > 0:
            batch = self._outage(batch)
        order = self._order(batch)
        batch = batch.take(order)
        return self._clocked(batch)

    def _cut(self, batch: CollectedRecords) -> CollectedRecords:
        """Some records end in the middle (a full cache, a counter's limit) and go on in another one."""
        cut = (self.rng.random(batch.start.size) < self.spec.cuts) & (batch.bytes > 1)
        share = self.rng.random(int(cut.sum()))
        head = np.maximum((batch.bytes[cut] * share).astype(np.int64), 1)
        middle = batch.start[cut] + ((batch.end[cut] - batch.start[cut]) * share).astype(np.int64)
        size, end, start = batch.bytes.copy(), batch.end.copy(), batch.start[cut]
        rest, last = size[cut] - head, end[cut]
        size[cut], end[cut] = head, middle
        kept = rest > 0
        joined = [np.concatenate(pair) for pair in ((size, rest[kept]), (end, last[kept]))]
        return CollectedRecords(
            np.concatenate((batch.connection, batch.connection[cut][kept])),
            np.concatenate((batch.start, np.maximum(middle, start)[kept])),
            joined[1],
            joined[0],
            joined[0] // PACKET_BYTES + 1,
            np.concatenate((batch.exporter, batch.exporter[cut][kept])),
        )

    def _sampled(self, batch: CollectedRecords) -> CollectedRecords:
        """One packet of N: bytes are re-estimated, ends move in to the packets seen, unseen records vanish."""
        n = self.spec.sampling
        seen = self.rng.binomial(batch.packets, 1.0 / n)
        batch, seen = batch.take(seen > 0), seen[seen > 0]
        estimate = (batch.bytes / batch.packets * seen * n).astype(np.int64)
        length = batch.end - batch.start
        margin = 1.0 / (seen + 1.0)
        first = (length * margin * self.rng.random(seen.size)).astype(np.int64)
        last = (length * margin * self.rng.random(seen.size)).astype(np.int64)
        single = seen == 1
        start = batch.start + np.where(single, (length * self.rng.random(seen.size)).astype(np.int64), first)
        end = np.where(single, start, batch.end - last)
        return CollectedRecords(
            batch.connection, start, np.maximum(end, start), np.maximum(estimate, 1), seen, batch.exporter
        )

    def _copied(self, batch: CollectedRecords) -> CollectedRecords:
        """Some transfers are exported at both ends: the second exporter sees them microseconds later."""
        far = self.target_leaf[batch.connection]
        again = (self.rng.random(batch.start.size) < self.spec.duplicates) & (far != batch.exporter)
        delay = self.rng.integers(1_000, 40_000, int(again.sum()))
        copy = batch.take(again)
        return CollectedRecords(
            np.concatenate((batch.connection, copy.connection)),
            np.concatenate((batch.start, copy.start + delay)),
            np.concatenate((batch.end, copy.end + delay)),
            np.concatenate((batch.bytes, copy.bytes)),
            np.concatenate((batch.packets, copy.packets)),
            np.concatenate((batch.exporter, far[again])),
        )

    def _outage(self, batch: CollectedRecords) -> CollectedRecords:
        spec = self.spec
        begin = int(spec.outage_at_s * SECOND)
        during = (batch.end >= begin) & (batch.end < begin + int(spec.outage_for_s * SECOND))
        return batch.take(~(during & (batch.exporter == spec.outage_leaf)))

    def _order(self, batch: CollectedRecords) -> NDArray[np.intp]:
        """Export order; a share of the rows is late by up to `late_s`."""
        exported = batch.end
        if self.spec.late > 0:
            late = self.rng.random(exported.size) < self.spec.late
            exported = exported + (late * self.rng.random(exported.size) * self.spec.late_s * SECOND).astype(np.int64)
        return np.argsort(exported, kind="stable")

    def _clocked(self, batch: CollectedRecords) -> CollectedRecords:
        start, end = batch.start, batch.end
        if self.spec.skew_ms > 0:
            offset = self.skew[batch.exporter]
            start, end = start + offset, end + offset
        if self.spec.granularity_ms > 0:
            grain = int(self.spec.granularity_ms * MILLISECOND)
            start, end = start // grain * grain, end // grain * grain
        return CollectedRecords(batch.connection, start, end, batch.bytes, batch.packets, batch.exporter)
