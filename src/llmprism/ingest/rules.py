"""Every constant by which reading decides what a record and a transfer is, in one place.

Each field says its unit, where the value comes from, and what happened to jobs, layouts, numbers of steps, states and
kinds and places of findings when it was changed, on the seven real captures and seven simulated clusters
(`benchmarks/stage_rules.py`). What bounds work and memory only is not here; limits on hostile input: `limits.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["RULES", "FitnessRules", "IngestRules"]


@dataclass(frozen=True, slots=True)
class FitnessRules:
    """What records must be like for each stage to work with them (`llmprism inspect`); no stage reads these."""

    folded_ns: int = 1_000_000_000
    """1 s: a record longer than this holds several messages of a step, or several steps (steps take 0.2 to 50 s)."""

    resolution_share: float = 0.999
    """So many of the time stamps must be whole units for the unit to be the resolution: chance gives one in a
    thousand."""

    least_sampling: int = 10
    """Smaller common factors of all sizes come from the messages themselves, and nobody samples one in fewer than
    ten."""

    skew_search_ns: int = 1_000_000_000
    """1 s: how far apart two exporters' reports of one transfer are looked for when their clocks are compared."""

    short_record_ns: int = 100_000_000
    """Half of the shortest steps seen (0.2 s): records up to this length still show where a step ends."""

    long_record_ns: int = 5_000_000_000
    """A tenth of the longest steps seen (46 s): with longer records the steps of no job can be found."""

    long_record_share: float = 0.25
    """Of the window: with longer records there are not even a few steps to compare."""

    least_window_s: float = 5.0
    """A few steps of a fast job."""

    good_window_s: float = 60.0
    """The window of the published method; one minute may still hold a single step of a slow job."""

    coarse_clock_ns: int = 100_000_000
    """Time stamps coarser than this hide the order of transfers inside a step."""

    much_loss: float = 0.01
    """1 % of the packets missing: messages lose their ends, and sizes stop repeating."""

    least_port_share: float = 0.5
    """Where most records have no ports, two exporters' reports of one transfer cannot be matched (see
    duplicates.py)."""

    much_unknown: float = 0.05
    """Of the bytes: more than storage and monitoring take, so training traffic must be among them."""

    least_sampled_records: float = 20.0
    """Sampled records per busy pair and second that still outline a step."""

    miscabled_share: float = 0.5
    """A NIC is called miscabled only if most of its bytes enter the network at another switch than the topology
    says."""

    mostly_folded: float = 0.5
    """Of the bytes in records longer than `folded_ns`: above it sizes of single transfers cannot be seen."""

    paths_known: float = 0.5
    """Of the bytes whose switches are known: below it slow switches cannot be found."""


@dataclass(frozen=True, slots=True)
class IngestRules:
    """Passed to every function of the package that decides anything about records."""

    fitness: FitnessRules = FitnessRules()

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
