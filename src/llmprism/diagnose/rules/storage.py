"""Slow storage: every constant by which it is found.

Each field says its unit and where the value comes from. `benchmarks/robust.py --sensitivity --match diagnose` moves
each by a fifth either way and prints what changes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StorageRules"]


@dataclass(frozen=True, slots=True)
class StorageRules:
    """Requests of the clients of one server."""

    # Requests
    request_share: float = 0.5
    """Of a client's usual transfer that pieces must make together to be a request."""

    request_bytes: int = 250_000
    """Smaller requests are dominated by latency."""

    sure: float = 0.9
    """Confidence at most: clients that ask for less look alike."""

    requests: int = 12
    """Slow requests in a stretch, and others before it."""

    drop: float = 2.5
    """Ratio of the usual rate and the slow one: load alone halves a rate."""

    agreement: float = 0.8
    """Share of the requests of a stretch that are slow."""

    price: float = 6.0
    """Logarithm of the odds against a server's falling sick, or well, between two requests."""

    slow_ns: int = 5_000_000_000
    """How long it must last."""
