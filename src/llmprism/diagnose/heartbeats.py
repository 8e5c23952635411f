"""Signs of life: control messages that go on whether a job trains or not.

Stores, watchdogs and launchers exchange a few bytes every second or so. Other small messages belong to the training
(headers, norms, barriers) and stop with it, so their end means nothing. Heartbeats are distinguished from them by their
rhythm: regular, and not that of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job
from llmprism.stats.order import stable_order

__all__ = ["Heartbeats"]


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """`gap_ns` is the usual time between two heartbeats before `last_ns`, the end of the training; None: there are none
    to be seen."""

    last_ns: int
    period_ns: float
    gap_ns: float | None
    rules: FaultRules = RULES

    @classmethod
    def of(cls, job: Job, last_ns: int, period_ns: float, rules: FaultRules = RULES) -> Heartbeats:
        rule = rules.endings
        transfers = job.transfers
        rows = np.flatnonzero(~training_messages(job) & (transfers.start_ns <= last_ns))
        pair, when = transfers.pair_of_row[rows], transfers.start_ns[rows]
        order = stable_order(pair)
        pair, when = pair[order], when[order]
        gap = np.diff(when)
        inside = (np.diff(pair) == 0) & (gap > rule.beats_apart_ns)
        gaps, owner = gap[inside].astype(np.float64), pair[:-1][inside]
        cut = np.flatnonzero(np.diff(owner)) + 1
        usual: list[float] = []
        senders: set[int] = set()
        for part, who in zip(np.split(gaps, cut), owner[np.append(0, cut)] if owner.size else (), strict=False):
            middle = float(np.median(part)) if part.size >= rule.least_beats else 0.0
            regular = middle > 0.0 and 1.4826 * float(np.median(np.abs(part - middle))) <= rule.regular_beats * middle
            if regular and middle >= rule.slow_beats_ns and abs(middle / period_ns - 1.0) > rule.unlike_steps:
                usual.append(middle)
                senders.add(int(transfers.pair_src[who]))
        enough = len(senders) >= rule.beating_members * len(job.members)
        return cls(last_ns, period_ns, float(np.median(usual)) if enough and usual else None, rules)

    def go_on(self, alive_ns: int, times: float = 1.0) -> bool:
        """Do the ranks still talk although they no longer train? `times` asks for longer."""
        rule = self.rules.endings
        return alive_ns - self.last_ns > times * max(rule.alive_steps * self.period_ns, rule.alive_ns)

    def stopped(self, alive_ns: int, until_ns: int) -> bool:
        """Have heartbeats that used to come been missing for long enough?"""
        rule = self.rules.endings
        return self.gap_ns is not None and until_ns - alive_ns > max(rule.missed_beats * self.gap_ns, rule.alive_ns)
