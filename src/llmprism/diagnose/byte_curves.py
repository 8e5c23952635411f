"""How many bytes each member of a job had sent, and been sent, at any moment of its last steps.

A step moves the same bytes every time, so a point in bytes is a point of the step, whatever the clock says of its
phase: where a member stands now it stood one step's bytes ago, two steps' bytes ago, and so on. What it did there then
is what it should do now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int32, Int64
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.flows import MESSAGE_FLOOR_BYTES
from llmprism.model.job import Job
from llmprism.model.timeline import Steps
from llmprism.stats.integer_order import stable_order

__all__ = ["ByteCurve", "curves_of", "hold_the_training", "training_messages"]


def training_messages(job: Job) -> Bool:
    """Rows that are messages of pairs with training traffic; what each of them carries does not matter here."""
    transfers = job.transfers
    if job.bulk is None:
        return transfers.bytes >= MESSAGE_FLOOR_BYTES
    return transfers.messages_of(job.bulk)


def hold_the_training(job: Job, steps: Steps, rules: FaultRules = RULES) -> bool:
    """Is most of what the job sends for the training sent in its steps? Else the clock beats to something else: a job
    that is set up, or that compiles, sends many times as much between such "steps" as in them."""
    transfers, rows = job.transfers, training_messages(job)
    size = transfers.bytes[rows]
    inside = steps.at(transfers.start_ns[rows]) >= 0
    return float(size[inside].sum()) >= rules.evidence.held_bytes * float(size.sum())


@dataclass(frozen=True, slots=True)
class ByteCurve:
    """`passed` bytes up to `when_ns` (ascending), straight lines between; flat where nothing flows."""

    when_ns: Float64
    passed: Float64

    @classmethod
    def of(cls, start: Int64, end: Int64, size: Int64) -> ByteCurve:
        """Every message flows evenly from its start to its end."""
        took = np.maximum(end - start, 1)
        moment = np.concatenate([start, start + took])
        rate = size / took
        order = stable_order(moment)
        moment = moment[order]
        opened = np.repeat(np.array([1, -1]), start.size)
        open_now = np.cumsum(opened[order])
        flowing = np.where(open_now > 0, np.cumsum(np.concatenate([rate, -rate])[order]), 0.0)
        passed = np.zeros(moment.size)
        # whole nanoseconds: as a float, a time since 1970 is off by up to 128 of them, and short messages by all of it
        np.cumsum(np.maximum(flowing[:-1], 0.0) * np.diff(moment), out=passed[1:])
        return cls(moment.astype(np.float64), passed)

    @property
    def total(self) -> float:
        return float(self.passed[-1])

    def at(self, when_ns: Float64) -> Float64:
        """Bytes up to these moments."""
        return np.interp(when_ns, self.when_ns, self.passed)

    def moments(self, amount: Float64) -> Float64:
        """When each of these amounts had passed; of a pause at that amount the end."""
        right = np.clip(np.searchsorted(self.passed, amount, side="right"), 1, self.passed.size - 1)
        low, high = self.passed[right - 1], self.passed[right]
        share = np.clip((amount - low) / np.maximum(high - low, 1e-9), 0.0, 1.0)
        return np.asarray(self.when_ns[right - 1] + share * (self.when_ns[right] - self.when_ns[right - 1]))

    def pauses_at(self, amount: Float64, below: Float64, beyond: Float64) -> tuple[Float64, Float64]:
        """Begin and end of the longest pause between `below` bytes before each amount and `beyond` after it; where
        there is none both are the moment of that amount. NaN where the curve does not hold it."""
        flat = np.flatnonzero((np.diff(self.passed) <= 0.0) & (np.diff(self.when_ns) > 0.0))
        level, length = self.passed[flat], self.when_ns[flat + 1] - self.when_ns[flat]
        begin = self._moment(amount)
        end = begin.copy()
        first = np.searchsorted(level, amount - below, side="left")
        last = np.searchsorted(level, amount + beyond, side="right")
        for i in np.flatnonzero(last > first):
            if np.isfinite(begin[i]):
                longest = flat[first[i] + int(np.argmax(length[first[i] : last[i]]))]
                begin[i], end[i] = self.when_ns[longest], self.when_ns[longest + 1]
        return begin, end

    def longest_pauses(self, ends: Float64) -> Float64:
        """The longest pause that begins between each two of these moments; 0 where there is none."""
        flat = np.flatnonzero((np.diff(self.passed) <= 0.0) & (np.diff(self.when_ns) > 0.0))
        step = np.searchsorted(ends, self.when_ns[flat], side="right") - 1
        inside = (step >= 0) & (step < ends.size - 1)
        longest = np.zeros(max(ends.size - 1, 0))
        np.maximum.at(longest, step[inside], (self.when_ns[flat + 1] - self.when_ns[flat])[inside])
        return longest

    def _moment(self, amount: Float64) -> Float64:
        when = np.interp(amount, self.passed, self.when_ns)
        return np.where((amount < 0.0) | (amount > self.total), np.nan, when)


def curves_of(job: Job, rows: Bool, end_of_pair: Int32, rules: FaultRules = RULES) -> list[ByteCurve | None]:
    """The curve of every member over these rows, as their sender (`pair_src`) or receiver (`pair_dst`)."""
    transfers = job.transfers
    index = np.flatnonzero(rows)
    member = np.searchsorted(np.array(job.members), end_of_pair[transfers.pair_of_row[index]])
    order = np.argsort(member, kind="stable")
    index, offsets = index[order], np.searchsorted(member[order], np.arange(len(job.members) + 1))
    start, end, size = transfers.start_ns[index], transfers.end_ns[index], transfers.bytes[index]
    return [
        ByteCurve.of(start[a:b], end[a:b], size[a:b]) if b - a >= rules.evidence.curve_messages else None
        for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ]
