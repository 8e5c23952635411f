from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from llmprism.sim.collector import CollectedRecords, SimulatedCollector
from llmprism.sim.scenario import CollectorSpec

NS = 1_000_000_000


def collect(count: int = 20_000, **settings: Any) -> tuple[CollectedRecords, dict[str, Any]]:
    """Records of four connections between leaves 0 and 1, one every millisecond."""
    rng = np.random.default_rng(1)
    start = np.arange(count, dtype=np.int64) * 1_000_000
    rows = {
        "connection": rng.integers(0, 4, count).astype(np.int32),
        "start": start,
        "end": start + 500_000,
        "size": rng.integers(1_000_000, 9_000_000, count),
    }
    source, target = np.array([0, 0, 1, 1], dtype=np.int32), np.array([1, 1, 0, 0], dtype=np.int32)
    collector = SimulatedCollector(CollectorSpec(**settings), 2, source, target, np.random.default_rng(2))
    return collector.collect(**rows), rows


def test_a_perfect_collector_changes_nothing() -> None:
    batch, rows = collect()
    assert np.array_equal(batch.start, rows["start"])
    assert np.array_equal(batch.bytes, rows["size"])


def test_loss_takes_its_share() -> None:
    batch, rows = collect(loss=0.1)
    assert batch.start.size == pytest.approx(0.9 * rows["start"].size, rel=0.02)


def test_copies_come_from_the_other_exporter_a_little_later() -> None:
    batch, rows = collect(duplicates=0.5)
    extra = batch.start.size - rows["start"].size
    assert extra == pytest.approx(0.5 * rows["start"].size, rel=0.05)
    assert set(batch.exporter) == {0, 1}
    late = np.sort(batch.start % 1_000_000)
    assert np.all((late == 0) | ((late >= 1_000) & (late < 40_000)))


def test_each_exporter_has_its_own_clock() -> None:
    batch, _ = collect(skew_ms=5.0)
    offset = batch.start - np.round(batch.start, -6)
    for exporter in (0, 1):
        assert np.unique(offset[batch.exporter == exporter]).size == 1
    assert np.unique(offset).size == 2
    assert np.all(batch.end - batch.start == 500_000)


def test_times_are_rounded_down() -> None:
    batch, _ = collect(granularity_ms=10.0)
    assert np.all(batch.start % 10_000_000 == 0)
    assert np.all(batch.end >= batch.start)


def test_sampling_keeps_the_bytes_on_average() -> None:
    batch, rows = collect(sampling=128)
    assert batch.bytes.sum() == pytest.approx(rows["size"].sum(), rel=0.01)
    assert np.std(batch.bytes) > np.std(rows["size"])
    assert np.all(batch.end >= batch.start)


def test_sampling_loses_small_records() -> None:
    batch, rows = collect(sampling=4096)
    assert batch.start.size < 0.9 * rows["start"].size


def test_an_outage_silences_one_exporter_for_its_time() -> None:
    batch, _ = collect(outage_leaf=1, outage_at_s=5.0, outage_for_s=3.0)
    during = (batch.end >= 5 * NS) & (batch.end < 8 * NS)
    assert set(batch.exporter[during]) == {0}
    assert set(batch.exporter[~during]) == {0, 1}


def test_late_rows_are_out_of_order() -> None:
    batch, rows = collect(late=0.1, late_s=1.0)
    assert np.any(np.diff(batch.end) < 0)
    assert np.array_equal(np.sort(batch.end), rows["end"])
