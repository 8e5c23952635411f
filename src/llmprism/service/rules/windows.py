"""How long windows are, how often they are made, and what they may take."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.units import SECOND

__all__ = ["WindowRules"]


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Windows and looks. The operator sets the first seven."""

    length: int = 60 * SECOND
    """Nanoseconds. A minute, as in the paper."""

    hop: int = 4 * SECOND
    """Nanoseconds. How often a picture is made; two hops and the lateness stay under the 15 s in which a hang must be
    reported."""

    lateness: int = 2 * SECOND
    """Nanoseconds. Exporters flush every second or two."""

    steps: int = 8
    """Steps that the methods need to tell a slow one from a usual one."""

    longest: int = 960 * SECOND
    """Nanoseconds. Ten steps of the longest step known (46.6 s), twice."""

    busy: float = 0.3
    """Share of a hop that making its window may take; the rest of the time is the intake's and other programs'."""

    per_million: int = 13 * SECOND // 10
    """Nanoseconds of processor time that windows may take per million records, where one takes more than `idle` of a
    hop and has `worth` records at least. Below that which windows are made does not depend on the machine's speed."""

    idle: float = 0.15
    """Share of a hop; see `per_million`."""

    worth: int = 500_000
    """Records; see `per_million`."""

    longest_hop: float = 0.75
    """Share of a window by which the next one moves at most while steps are not known: eight steps fit into a window,
    two of them into the rest."""

    shared_steps: float = 4.0
    """Steps of the slowest job that two windows in a row both show, at least: three anchor what is carried over."""

    waits_hops: int = 3
    """Hops by which a window that takes longer than a hop is put off where a job has stopped meanwhile: one is enough
    to look at that job, and another one may stop in the next."""

    catch_up_ns: int = 30 * SECOND
    """Nanoseconds. Work that may be due at once before the hop grows: windows are then at most this far behind."""
