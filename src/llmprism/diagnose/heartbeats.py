"""Signs of life: control messages that go on whether a job trains or not.

Stores, watchdogs and launchers exchange a few bytes every second or so. Other small messages belong to the training
(headers, norms, barriers) and stop with it, so their end means nothing. Heartbeats are distinguished from them by their
rhythm: regular, and not that of the steps.

Messages of one size are one rhythm, over all pairs: in a short window every pair shows it two or three times only. A
mesh of pings between the servers has a rhythm too and outlives every job; so a rhythm that stopped with the training
says that its ranks died, although another one goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int32, Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job

__all__ = ["Heartbeats"]


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Seen at the end of the training, `last_ns`. `gap_ns` is the usual time between two heartbeats before it; None:
    there are none to be seen. `rhythms` are (usual time between two, last one) of each size of message."""

    last_ns: int
    period_ns: float
    gap_ns: float | None
    rules: FaultRules = RULES
    rhythms: tuple[tuple[float, int], ...] = ()

    @classmethod
    def of(
        cls, job: Job, last_ns: int, period_ns: float, rules: FaultRules = RULES, heard_until_ns: int | None = None
    ) -> Heartbeats:
        """Rhythms at the end of the training; the last ones are looked for up to `heard_until_ns`."""
        transfers = job.transfers
        rows = np.flatnonzero(~training_messages(job))
        size, pair, when = transfers.bytes[rows], transfers.pair_of_row[rows].astype(np.int64), transfers.start_ns[rows]
        before, enough = when <= last_ns, rules.endings.beating_members * len(job.members)
        usual, owners = _pair_rhythms(pair[before], when[before], period_ns, rules)
        found = [float(np.median(usual))] if _senders(transfers.pair_src, owners) >= enough and usual else []
        heard = when <= (last_ns if heard_until_ns is None else heard_until_ns)
        rhythms = []
        for one, gap, owner in _size_rhythms(size[before], pair[before], when[before], period_ns, rules):
            latest = int(when[before & (size == one)].max())
            if _senders(transfers.pair_src, owner) >= enough and last_ns - latest <= rules.endings.missed_beats * gap:
                rhythms.append((gap, int(when[heard & (size == one)].max())))
        found += [gap for gap, _ in rhythms]
        return cls(last_ns, period_ns, found[0] if found else None, rules, tuple(rhythms))

    def go_on(self, alive_ns: int, times: float = 1.0) -> bool:
        """Do the ranks still talk although they no longer train? `times` asks for longer."""
        rule = self.rules.endings
        return alive_ns - self.last_ns > times * max(rule.alive_steps * self.period_ns, rule.alive_ns)

    def stopped(self, alive_ns: int, until_ns: int) -> bool:
        """Have heartbeats that used to come been missing for long enough? One rhythm is enough, whatever goes on, if it
        stopped with the training: ranks that hang are killed in the end."""
        if self.gap_ns is None:
            return False
        if not self.go_on(alive_ns) and until_ns - alive_ns > self._long(self.gap_ns):
            return True
        return any(until_ns - last > self._long(gap) >= last - self.last_ns for gap, last in self.rhythms)

    def _long(self, gap_ns: float) -> float:
        return max(self.rules.endings.missed_beats * gap_ns, self.rules.endings.alive_ns)


def _senders(pair_src: Int32, pairs: Int64) -> int:
    return int(np.unique(pair_src[pairs]).size)


def _gaps(stream: Int64, when: Int64, rules: FaultRules) -> tuple[Float64, Int64]:
    """Times between messages of the same stream, and the streams; those close together are one."""
    order = np.lexsort((when, stream))
    stream, when = stream[order], when[order]
    gap = np.diff(when)
    inside = (np.diff(stream) == 0) & (gap > rules.endings.beats_apart_ns)
    return gap[inside].astype(np.float64), stream[:-1][inside]


def _rhythm(gaps: Float64, period_ns: float, rules: FaultRules) -> float:
    """The usual time between two heartbeats; 0 where these are none."""
    rule = rules.endings
    if gaps.size < rule.least_beats:
        return 0.0
    middle = float(np.median(gaps))
    regular = 1.4826 * float(np.median(np.abs(gaps - middle))) <= rule.regular_beats * middle
    unlike = abs(middle / period_ns - 1.0) > rule.unlike_steps
    return middle if regular and unlike and middle >= rule.slow_beats_ns else 0.0


def _pair_rhythms(pair: Int64, when: Int64, period_ns: float, rules: FaultRules) -> tuple[list[float], Int64]:
    """The rhythms of single pairs, whatever the sizes of their messages, and whose they are."""
    gaps, owner = _gaps(pair, when, rules)
    parts = np.flatnonzero(np.diff(owner)) + 1
    usual = [_rhythm(part, period_ns, rules) for part in np.split(gaps, parts)]
    first = np.append(0, parts) if owner.size else parts
    found: Bool = np.array(usual)[: first.size] > 0.0
    return [gap for gap in usual if gap > 0.0], owner[first][found]


def _size_rhythms(
    size: Int64, pair: Int64, when: Int64, period_ns: float, rules: FaultRules
) -> list[tuple[int, float, Int64]]:
    """Each size with a rhythm of its own over all pairs that is no small multiple of the steps', and the pairs."""
    rule = rules.endings
    sizes, index = np.unique(size, return_inverse=True)
    pairs = int(pair.max(initial=0)) + 1
    gaps, stream = _gaps(index.astype(np.int64) * pairs + pair, when, rules)
    parts = np.flatnonzero(np.diff(stream // pairs)) + 1
    found = []
    for part, streams in zip(np.split(gaps, parts), np.split(stream, parts), strict=True):
        gap = _rhythm(part, period_ns, rules)
        times = gap / period_ns
        in_step = round(times) <= rule.step_multiples and abs(times - round(times)) <= rule.off_multiple
        if gap > 0.0 and not in_step:
            found.append((int(sizes[streams[0] // pairs]), gap, np.unique(streams % pairs)))
    return found
