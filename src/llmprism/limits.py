"""Every cap on untrusted input, each with the reason for its value."""

from __future__ import annotations

from typing import Final

__all__ = [
    "MAX_ADDRESS_CHARS",
    "MAX_DOCUMENT_BYTES",
    "MAX_RECORD_BYTES",
    "MAX_RECORD_NS",
    "MAX_SIMULATED_GPUS",
    "MAX_SIMULATED_SECONDS",
    "MAX_TOPOLOGY_BYTES",
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

MAX_SIMULATED_GPUS: Final = 1 << 17
"""131,072: the largest training clusters that exist; the simulator's tables of that size take some gigabytes."""

MAX_SIMULATED_SECONDS: Final = 86_400.0
"""A day: longer windows are analysed in parts anyway."""
