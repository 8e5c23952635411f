"""Signs of life: control messages that go on whether a job trains or not.

Stores, watchdogs and launchers exchange a few bytes every second or so. Other small messages belong to the training
(headers, norms, barriers) and stop with it, so their end means nothing. Heartbeats are told from them by their rhythm:
regular, and not that of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.diagnose.byte_curves import training_messages
from llmprism.model.job import Job
from llmprism.stats.order import stable_order

__all__ = ["Heartbeats"]

APART_NS: Final = 50_000_000
"""Control messages of a pair closer than this are one heartbeat: a question and its answer."""

MIN_BEATS: Final = 5
"""Heartbeats of a pair from which its rhythm is known."""

REGULAR: Final = 0.2
"""Relative spread of the times between heartbeats of one pair up to which they are regular."""

SLOW_NS: Final = 300_000_000
"""Time between heartbeats at least: what comes faster belongs to micro-batches and layers; watchdogs ask once a second
or more slowly."""

UNLIKE_STEPS: Final = 0.2
"""Relative distance from the duration of a step, below which the messages belong to the steps."""

ENOUGH: Final = 0.25
"""Share of the members that must send regular heartbeats."""

ALIVE_STEPS: Final = 3.0
"""Control messages this many steps after the last training message: the ranks live,"""

ALIVE_FLOOR_NS: Final = 2_000_000_000
"""and at least two seconds: a crash takes the other ranks down within that."""

MISSED: Final = 2.0
"""Heartbeats that must be missing in a row before they have stopped."""


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """`gap_ns` is the usual time between two heartbeats before `last_ns`, the end of the training; None: there are none
    to be seen."""

    last_ns: int
    period_ns: float
    gap_ns: float | None

    @classmethod
    def of(cls, job: Job, last_ns: int, period_ns: float) -> Heartbeats:
        transfers = job.transfers
        rows = np.flatnonzero(~training_messages(job) & (transfers.start_ns <= last_ns))
        pair, when = transfers.pair_of_row[rows], transfers.start_ns[rows]
        order = stable_order(pair)
        pair, when = pair[order], when[order]
        gap = np.diff(when)
        inside = (np.diff(pair) == 0) & (gap > APART_NS)
        gaps, owner = gap[inside].astype(np.float64), pair[:-1][inside]
        cut = np.flatnonzero(np.diff(owner)) + 1
        usual: list[float] = []
        senders: set[int] = set()
        for part, who in zip(np.split(gaps, cut), owner[np.append(0, cut)] if owner.size else (), strict=False):
            middle = float(np.median(part)) if part.size >= MIN_BEATS else 0.0
            regular = middle > 0.0 and 1.4826 * float(np.median(np.abs(part - middle))) <= REGULAR * middle
            if regular and middle >= SLOW_NS and abs(middle / period_ns - 1.0) > UNLIKE_STEPS:
                usual.append(middle)
                senders.add(int(transfers.pair_src[who]))
        enough = len(senders) >= ENOUGH * len(job.members)
        return cls(last_ns, period_ns, float(np.median(usual)) if enough and usual else None)

    def go_on(self, alive_ns: int, times: float = 1.0) -> bool:
        """Do the ranks still talk although they no longer train? `times` asks for longer."""
        return alive_ns - self.last_ns > times * max(ALIVE_STEPS * self.period_ns, ALIVE_FLOOR_NS)

    def stopped(self, alive_ns: int, until_ns: int) -> bool:
        """Have heartbeats that used to come been missing for long enough?"""
        return self.gap_ns is not None and until_ns - alive_ns > max(MISSED * self.gap_ns, ALIVE_FLOOR_NS)
