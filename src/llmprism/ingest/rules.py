"""Every constant by which reading decides what a record and a transfer is, in one place.

Each field says its unit, where the value comes from, and what happened to jobs, layouts, numbers of steps, states and
kinds and places of findings when it was changed, on the seven real captures and seven simulated clusters
(`benchmarks/ingest_rules.py`). What bounds work and memory only is not here; limits on hostile input: `limits.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["RULES", "IngestRules"]


@dataclass(frozen=True, slots=True)
class IngestRules:
    """Passed to every function of the package that decides anything about records."""

    # Packets → records
    burst_gap_ns: int = 500_000
    """Nanoseconds. A pause that ends a TCP burst: short enough to keep messages apart, longer than the pauses inside
    one. It is what common collectors use. `--gap-us` of `llmprism convert`. Not tried: the sources are records."""

    # Records → transfers
    shortest_gap_ns: int = 20_000
    """Nanoseconds. A NIC's own scheduling jitter: shorter pauses never separate messages. Tried 5,000 to 80,000: no
    change."""

    longest_gap_ns: int = 1_000_000
    """Nanoseconds. Twice the pause at which collectors end a record: a longer gap would fuse gradient buckets.
    Tried: half and twice the value change 1 of 14 sources (shared-servers, simulated), a quarter and four times 2."""

    # Two exporters' reports of one transfer
    clock_skew_ns: int = 5_000_000
    """Nanoseconds. What NTP keeps switches within, and the path between two exporters adds microseconds; with PTP it is
    less. Clocks that differ by more are reported by `llmprism inspect`, because copies then stay. Tried 1.25 to
    20 million: no change, but none of the sources has two exporters."""


RULES: Final = IngestRules()
