"""Every cap on untrusted input, each with the reason for its value."""

from __future__ import annotations

from typing import Final

__all__ = [
    "MAX_ADDRESS_CHARS",
    "MAX_HEADER_BYTES",
    "MAX_INPUT_FILES",
    "MAX_MAPPING_BYTES",
    "MAX_PACKET_ADDRESSES",
    "MAX_PACKET_FLOWS",
    "MAX_PATH_SWITCHES",
    "MAX_RECORDS",
    "MAX_RECORD_BYTES",
    "MAX_RECORD_NS",
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
"""Flows of a capture held at once (a power of two): 250 MB of state; then all are finished and counted anew."""

MAX_PACKET_ADDRESSES: Final = 1 << 22
"""Addresses of a capture (a power of two): no cluster has four million NICs; a scan of the internet does."""

MAX_TOPOLOGY_NAMES: Final = 1 << 20
"""Names of one host list: ten times the largest cluster; more is a typing error in a range."""
