"""How long a job as a whole usually rests at the point where its traffic stops, and whether it only rests there again.

A step moves the same bytes every time, so a point in bytes is a point of the step (`byte_curves`). Most windows end
while a job computes, with nobody sending for a while: a silence that it has at this point of every step, and that all
members began at the same time, says that the job goes on, whatever each of them did in the steps before. So how the
members stand (`last_state`), which takes some curves of each, is looked at only where this does not say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.diagnose.byte_curves import ByteCurve, training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job
from llmprism.model.timeline import Steps
from llmprism.stats.robust import known_median

__all__ = ["WholeJob", "bytes_per_step", "rests_as_usual", "same_point", "whole_job"]


@dataclass(frozen=True, slots=True)
class WholeJob:
    """`rows` are the messages of the training from `since_ns` on, `ends` the ends of the steps in that time;
    `begin_ns` and `end_ns` are those of the whole job's pauses at this point, one and more steps before; `rested_ns` is
    how long it has rested at this point in the last step, before the last of its messages; `beyond` the share of a
    step's bytes that it has sent since the clock last saw a step end, `since_end` the steps that passed since then."""

    rows: Bool
    since_ns: float
    ends: Float64
    begin_ns: Float64
    end_ns: Float64
    rested_ns: float = 0.0
    beyond: float = float("nan")
    since_end: float = 0.0

    @property
    def rest_ns(self) -> float:
        """The usual silence at this point."""
        return float(known_median(self.end_ns - self.begin_ns))

    @property
    def most_rest_ns(self) -> float:
        """The longest silence that it had here."""
        return float(np.nanmax(self.end_ns - self.begin_ns, initial=0.0))

    def after_whole_steps(self, rules: FaultRules = RULES) -> bool:
        """Does the clock say, by bytes, that a step had ended and no other begun?"""
        near = abs(self.beyond - np.round(self.beyond)) <= rules.standstill.near_step_end
        return bool(near and not self.begun_anew(rules))

    def stands_at_an_end(self, rules: FaultRules = RULES) -> bool:
        """Does it stand after whole steps by bytes, or as long after one that the clock saw end as whole steps take?"""
        by_time = abs(self.since_end - np.round(self.since_end)) <= rules.endings.clock_step_end
        return self.after_whole_steps(rules) or bool(by_time and not self.begun_anew(rules))

    def begun_anew(self, rules: FaultRules = RULES) -> bool:
        """Has the job sent messages for a good part of a step since the clock saw one end, though few bytes? The first
        micro-batches of a pipeline take a fifth of a step and less than a hundredth of its bytes, so bytes alone do
        not say that it stands at the end of a step."""
        rule = rules.endings
        return bool(self.since_end > rule.clock_step_end and self.beyond < rule.begun_bytes)

    def unusual_ns(self, period_ns: float, rules: FaultRules = RULES) -> float:
        """A longer silence is unusual here."""
        usual = rules.endings.quiet_factor * (self.rest_ns if np.isfinite(self.rest_ns) else 0.0)
        return rules.endings.quiet_share * period_ns + max(usual, rules.endings.grew * self.most_rest_ns)


def whole_job(job: Job, steps: Steps, until_ns: int, period_ns: float, rules: FaultRules = RULES) -> WholeJob | None:
    """The job at `until_ns`, which must not be before the third step's end; None where too little is known."""
    transfers = job.transfers
    ends = steps.end_ns[steps.end_ns <= until_ns][-rules.endings.steps_back - 1 :].astype(np.float64)
    since = until_ns - rules.endings.longer_steps * period_ns * (rules.endings.steps_back + 2)
    rows = training_messages(job) & (transfers.start_ns <= until_ns) & (transfers.end_ns >= since)
    if np.count_nonzero(rows) < 2:
        return None
    ends = ends[ends >= transfers.start_ns[rows].min()]
    if ends.size < 3:
        return None
    back = np.arange(rules.endings.steps_back + 1, dtype=np.float64)
    curve = ByteCurve.of(transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows])
    per_step = bytes_per_step(curve, ends)
    begin, end = same_point(curve, per_step, back, rules)
    beyond = (curve.total - float(curve.at(ends[-1:])[0])) / max(per_step[0], 1.0)
    last = float(transfers.end_ns[rows].max())
    since_end = (last - float(ends[-1])) / period_ns
    if 0 < steps.job_end_ns <= last:  # counted pair by pair, which tells overlapping steps apart
        beyond, since_end = 0.0, 0.0
    return WholeJob(rows, since, ends, begin[1:], end[1:], float(end[0] - begin[0]), beyond, since_end)


def rests_as_usual(job: Job, whole: WholeJob, silence_ns: int, period_ns: float, rules: FaultRules = RULES) -> bool:
    """Is the silence no longer than usual, whether bytes tell the point or not, and did no member stop before the
    others? Then none of them can be missing: nobody is due before it has sent its last message."""
    rule, transfers, rows = rules.endings, job.transfers, np.flatnonzero(whole.rows)
    if silence_ns > min(whole.unusual_ns(period_ns, rules), rule.varying_quiet_steps * period_ns):
        return False
    spoken = np.zeros(len(transfers.addresses), dtype=np.int64)
    np.maximum.at(spoken, transfers.pair_src[transfers.pair_of_row[rows]], transfers.end_ns[rows])
    return bool((spoken.max() - spoken[np.array(job.members)] < rule.clear_overdue * period_ns).all())


def same_point(
    curve: ByteCurve, per_step: tuple[float, float], back: Float64, rules: FaultRules, half_message: float = np.inf
) -> tuple[Float64, Float64]:
    """Begin and end of the pauses at the same point of so many steps before, given the `bytes_per_step`. A point is no
    further off than `half_message` bytes, beyond what steps vary by: the pause before another message is another one,
    however many messages a step has."""
    rule, (usual, spread) = rules.endings, per_step
    unsure = rule.state_spreads * min(spread, rule.exact) * np.sqrt(back)
    short, beyond = (min(share * usual, half_message) for share in (rule.short_of, rule.beyond))
    return curve.pauses_at(curve.total - back * usual, short + unsure * usual, beyond + unsure * usual)


def bytes_per_step(curve: ByteCurve, ends: Float64) -> tuple[float, float]:
    """Bytes between the ends of steps, the median over all pairs of ends; and their relative spread."""
    passed = curve.at(ends)
    first, last = _two_of(ends.size)
    usual = float(median((passed[last] - passed[first]) / (last - first)))
    each = np.diff(passed)
    return usual, 1.4826 * float(median(np.abs(each - usual))) / max(usual, 1.0)


@cache
def _two_of(count: int) -> tuple[Int64, Int64]:
    """All two of so many, the lower first; the same few counts are needed for every member of every job."""
    first, last = np.triu_indices(count, 1)
    return first, last
