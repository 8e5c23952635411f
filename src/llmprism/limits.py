"""Every cap on untrusted input, each with the reason for its value."""

from __future__ import annotations

from typing import Final

__all__ = [
    "MAX_ADDRESS_CHARS",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_RECORDS",
    "MAX_CAPTURE_NOTES_BYTES",
    "MAX_DOCUMENT_BYTES",
    "MAX_DRIVER_PAIRS",
    "MAX_FLIGHT_DUMP_BYTES",
    "MAX_HEADER_BYTES",
    "MAX_INPUT_FILES",
    "MAX_LIBRARY_BYTES",
    "MAX_LIBRARY_PATTERN_CHARS",
    "MAX_LOG_DECOMPRESSED_BYTES",
    "MAX_LOG_DECOMPRESSION_RATIO",
    "MAX_LOG_EVENT_ROWS",
    "MAX_LOG_FILES",
    "MAX_LOG_LINE_BYTES",
    "MAX_LOG_SHAPES",
    "MAX_LOG_STREAMS",
    "MAX_MAPPING_BYTES",
    "MAX_PACKET_ADDRESSES",
    "MAX_PACKET_FLOWS",
    "MAX_PATH_SWITCHES",
    "MAX_RECORDS",
    "MAX_RECORD_BYTES",
    "MAX_RECORD_NS",
    "MAX_SIMULATED_GPUS",
    "MAX_SIMULATED_SECONDS",
    "MAX_TEMPLATE_STORE_BYTES",
    "MAX_TOPOLOGY_BYTES",
    "MAX_TOPOLOGY_NAMES",
]

MAX_RECORD_BYTES: Final = 1 << 50
"""A petabyte in one record: 2.6 hours at 800 Gb/s in a single flow; larger values are counter garbage."""

MAX_RECORD_NS: Final = 86_400 * 10**9
"""One day: no exporter has a longer active timeout; longer records are mixed-up clocks."""

MAX_ADDRESS_CHARS: Final = 255
"""A DNS name's length; IPv4, IPv6 and host names are all shorter."""

MAX_TOPOLOGY_BYTES: Final = 1 << 28
"""256 MiB of JSON: about two million NICs."""

MAX_DOCUMENT_BYTES: Final = 1 << 30
"""1 GiB of JSON in a report or a truth, after decompression: a 16,384-GPU day with all pairs is a third of that."""

MAX_DRIVER_PAIRS: Final = 20_000_000
"""Distinct pairs that come to the driver of a Spark cluster: 200 per GPU at 100,000 GPUs, and some 10 GB there."""

MAX_RECORDS: Final = 400_000_000
"""Records of one read: over an hour and a half of a 2,880-GPU cluster; beyond it the arrays pass 20 GB."""

MAX_PATH_SWITCHES: Final = 32
"""Switches on one path: a three-tier fabric has five hops; longer lists are garbage and count as an unknown path."""

MAX_MAPPING_BYTES: Final = 1 << 20
"""1 MiB of column mapping: a mapping names at most a dozen columns."""

MAX_HEADER_BYTES: Final = 1 << 20
"""1 MiB for the header line of a CSV file: thousands of columns."""

MAX_INPUT_FILES: Final = 100_000
"""Files of one read: a day in one-second files; a larger glob is a mistake."""

MAX_PACKET_FLOWS: Final = 1 << 20
"""Flows of a capture held at once (a power of two, half filled): 340 MB of state, and as much again if all of them are
RDMA queue pairs; then all are finished and counted anew."""

MAX_CAPTURE_NOTES_BYTES: Final = 1 << 26
"""64 MiB of notes in a Parquet file's metadata: signs of congestion on a million pairs."""

MAX_PACKET_ADDRESSES: Final = 1 << 22
"""Addresses of a capture (a power of two): no cluster has four million NICs; a scan of the internet does."""
MAX_LOG_LINE_BYTES: Final = 1 << 16
"""64 KiB: printed configurations reach 20 KiB; what follows in a longer line is skipped and counted."""

MAX_LOG_FILES: Final = 100_000
"""One file per rank of the largest known job, ten times over."""

MAX_LOG_DECOMPRESSED_BYTES: Final = 1 << 38
"""256 GiB out of one compressed file: sixteen times the mean logs of a whole failed job (16.9 GB)."""

MAX_LOG_DECOMPRESSION_RATIO: Final = 1_000
"""Real logs pack 10 to 60 times; deflate's own limit is 1,032. Beyond this it is a bomb and reading stops."""

MAX_LOG_SHAPES: Final = 100_000
"""Distinct masked lines of one job; real jobs have 100 to 5,000. Later new shapes are counted together."""

MAX_LOG_STREAMS: Final = 1_000_000
"""Distinct (file, line prefix) pairs: 100,000 ranks with ten prefixes each."""

MAX_LOG_EVENT_ROWS: Final = 2_000_000
"""Lines kept one by one because they bear on a failure: about 150 MB; later ones are counted only."""

MAX_FLIGHT_DUMP_BYTES: Final = 1 << 26
"""64 MiB of one rank's flight record: the recorder keeps 2,000 collectives by default, a few megabytes."""

MAX_LIBRARY_BYTES: Final = 1 << 24
"""16 MiB of fault library: about 30,000 entries."""

MAX_LIBRARY_PATTERN_CHARS: Final = 1_000
"""A pattern longer than a long log line is a mistake, and its automaton grows with it."""

MAX_TEMPLATE_STORE_BYTES: Final = 1 << 28
"""256 MiB of reference store: more shapes than MAX_LOG_SHAPES can produce in a thousand runs."""

MAX_TOPOLOGY_NAMES: Final = 1 << 20
"""Names of one host list: ten times the largest cluster; more is a typing error in a range."""

MAX_SIMULATED_GPUS: Final = 1 << 17
"""131,072: the largest training clusters that exist; the simulator's tables of that size take some gigabytes."""

MAX_SIMULATED_SECONDS: Final = 86_400.0
"""A day: longer windows are analysed in parts anyway."""

MAX_BATCH_RECORDS: Final = 20_000_000
"""Records of one batch taken in by the service: a quarter of an hour at 20,000 a second, 2 GB in memory."""

MAX_BATCH_BYTES: Final = 1 << 32
"""4 GiB of one batch once unpacked: two hundred bytes for each of MAX_BATCH_RECORDS records."""
