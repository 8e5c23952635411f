"""Flow records → Fitness: how good the data is, in numbers and in sentences.

Everything is measured on the records themselves, weighted by bytes where it matters, because control chatter outnumbers
training traffic. The answers follow from what each stage needs: jobs need pairs over some time; parallelism needs
sizes of single transfers; steps need records much shorter than a step; faults need steps, and paths for switches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.ingest.capture_notes import CaptureNotes, merged
from llmprism.ingest.database import Progress
from llmprism.ingest.duplicates import first_reports
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.rules import RULES, IngestRules
from llmprism.ingest.suitability import answers
from llmprism.ingest.whole_read import Loaded, load_records, table_of
from llmprism.model.congestion import CongestionTable
from llmprism.model.fitness import ClockOffset, CongestedPair, Fitness, PacketFitness
from llmprism.model.flows import FlowTable
from llmprism.model.topology import Topology

__all__ = ["inspect_flows"]

RESOLUTIONS_NS: Final = (1_000_000_000, 1_000_000, 1_000)
LISTED_UNKNOWN: Final = 50
LISTED_CONGESTED: Final = 10


def inspect_flows(
    paths: Sequence[str | Path],
    *,
    topology: Topology | None = None,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    rules: IngestRules = RULES,
) -> Fitness:
    """Reads the records and says what they support."""
    loaded = load_records(paths, mapping=mapping, format=format, progress=progress, rules=rules)
    return _fitness(loaded, table_of(loaded, rules), topology, rules)


def _fitness(loaded: Loaded, table: FlowTable, topology: Topology | None, rules: IngestRules) -> Fitness:
    window = table.window
    seconds = max(window.seconds, 1e-9)
    length = table.end_ns - table.start_ns
    total = float(table.bytes.sum())
    unknown, unknown_share = _unknown(table, topology)
    measured = Fitness(
        window=window,
        counts=table.counts,
        addresses=len(table.addresses),
        pairs=int(table.pair_src.size),
        records_per_second=table.counts.used / seconds,
        bytes_per_second=total / seconds,
        records_per_pair_and_second=_busy_rate(table, seconds),
        timestamp_resolution_ns=_resolution(table.start_ns, table.end_ns, rules),
        typical_record_ns=_median_by_weight(length, table.bytes),
        folded_share=float(table.bytes[length > rules.fitness.folded_ns].sum()) / total,
        path_share=float(table.bytes[table.path >= 0].sum()) / total,
        port_share=float(np.count_nonzero(loaded.rows.connection)) / max(loaded.rows.connection.size, 1),
        duplicate_share=dict(table.counts.dropped).get("duplicate", 0) / table.counts.records,
        sampling=_sampling(table.bytes, loaded.sampling, rules),
        packets=_packets(loaded.captures),
        exporters=len(loaded.names.exporters),
        clock_offsets=_clock_offsets(loaded, rules),
        unknown_addresses=unknown[:LISTED_UNKNOWN],
        unknown_share=unknown_share,
        answers=(),
    )
    return answers(measured, rules)


def _busy_rate(table: FlowTable, seconds: float) -> float:
    """Records per second of the median pair among those that carry nine tenths of the bytes."""
    sizes = np.add.reduceat(table.bytes, table.pair_offsets[:-1])
    order = np.argsort(sizes)[::-1]
    carried = np.cumsum(sizes[order])
    busy = order[: int(np.searchsorted(carried, 0.9 * carried[-1])) + 1]
    return float(np.median(np.diff(table.pair_offsets)[busy])) / seconds


def _resolution(start_ns: Int64, end_ns: Int64, rules: IngestRules) -> int:
    stamps = np.concatenate((start_ns, end_ns))
    for unit in RESOLUTIONS_NS:
        if np.count_nonzero(stamps % unit == 0) >= rules.fitness.resolution_share * stamps.size:
            return unit
    return 1


def _median_by_weight(values: Int64, weights: Int64) -> int:
    order = np.argsort(values)
    passed = np.cumsum(weights[order].astype(np.float64))
    return int(values[order[int(np.searchsorted(passed, passed[-1] / 2))]])


def _sampling(sizes: Int64, stated: int, rules: IngestRules) -> int | None:
    """The rate that the source states, or else the factor that all sizes have in common.

    A sampled exporter multiplies every size by its rate. Powers of two say nothing: messages have them in common too.
    """
    if stated > 1:
        return stated
    factor = int(np.gcd.reduce(sizes))
    least = rules.fitness.least_sampling
    if factor < least or sizes.size < least or factor & (factor - 1) == 0:
        return None
    return factor


def _packets(captures: Sequence[CaptureNotes]) -> PacketFitness | None:
    signs = merged(captures)
    if signs is None:
        return None
    stats = [capture.stats for capture in captures]
    seen, missing = sum(one.packets for one in stats), sum(one.missing for one in stats)
    return PacketFitness(
        packets=seen,
        loss=missing / max(seen + missing, 1),
        retransmitted=sum(one.retransmitted for one in stats),
        messages=sum(one.messages for one in stats),
        estimated=sum(one.estimated_messages for one in stats),
        cut=sum(one.cut_messages for one in stats),
        notifications=int(signs.notifications.sum()),
        negative=int(signs.negative.sum()),
        congested=_congested(signs),
    )


def _congested(signs: CongestionTable) -> tuple[CongestedPair, ...]:
    """The pairs with most complaints. CNPs and NAKs travel against the traffic that they complain about."""
    complaints: dict[tuple[str, str], list[int]] = {}
    columns = (signs.notifications, signs.negative, signs.retransmitted)
    for src, dst, *counts in zip(signs.src, signs.dst, *(column.tolist() for column in columns), strict=True):
        about = complaints.setdefault((dst, src), [0, 0, 0])
        about[0] += counts[0]
        about[1] += counts[1]
        complaints.setdefault((src, dst), [0, 0, 0])[2] += counts[2]
    worst = sorted(complaints.items(), key=lambda item: (-item[1][0] - item[1][1], -item[1][2], item[0]))
    return tuple(CongestedPair(*pair, *counts) for pair, counts in worst[:LISTED_CONGESTED] if any(counts))


def _clock_offsets(loaded: Loaded, rules: IngestRules) -> tuple[ClockOffset, ...]:
    """Median difference of the starts of transfers that two exporters report, per pair of exporters."""
    rows = loaded.rows
    if rows.exporter is None or len(loaded.names.exporters) < 2:
        return ()
    first = first_reports(
        loaded.pair_offsets,
        rows.start_ns,
        rows.end_ns,
        rows.bytes,
        rows.connection,
        rows.exporter,
        rules.fitness.skew_search_ns,
    )
    again = np.flatnonzero(first != np.arange(first.size))
    one, two = rows.exporter[again], rows.exporter[first[again]]
    late = rows.start_ns[again] - rows.start_ns[first[again]]
    swap = one < two
    low, high = np.where(swap, one, two), np.where(swap, two, one)
    ahead = np.where(swap, -late, late)
    return tuple(_offset(loaded.names.exporters, low, high, ahead, pair) for pair in _exporter_pairs(low, high))


def _exporter_pairs(low: Int32, high: Int32) -> list[tuple[int, int]]:
    return sorted({(int(a), int(b)) for a, b in zip(low, high, strict=True) if 0 <= a != b})


def _offset(names: tuple[str, ...], low: Int32, high: Int32, ahead: Int64, pair: tuple[int, int]) -> ClockOffset:
    chosen = (low == pair[0]) & (high == pair[1])
    median = int(np.median(ahead[chosen]))
    return ClockOffset(names[pair[1]], names[pair[0]], median, int(np.count_nonzero(chosen)))


def _unknown(table: FlowTable, topology: Topology | None) -> tuple[tuple[str, ...], float | None]:
    if topology is None:
        return (), None
    known = topology.server_of()
    missing = np.array([address not in known for address in table.addresses])
    sizes = np.add.reduceat(table.bytes, table.pair_offsets[:-1]).astype(np.float64)
    strange = missing[table.pair_src] | missing[table.pair_dst]
    names = tuple(table.addresses[address] for address in np.flatnonzero(missing))
    return names, float(sizes[strange].sum() / sizes.sum())
