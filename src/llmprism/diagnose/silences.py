"""Silences of a whole job, and whether it rests there in every step.

Nobody of the job sends anything of the training for a while. Where it does so at the point of a step at which it rests
every time, it evaluates, writes a checkpoint or waits for data: long rests come and go. Where it stands still at a
point that it otherwise passes without a rest, something holds all of it. Points of a step are points in bytes
(`byte_curves`): the clock may have left the silence between two steps or put it inside one, and its phase may be wrong.
Where the clock sees an end of a step and bytes do not, bytes are right: of healthy captures no long silence is there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.diagnose.byte_curves import ByteCurve, training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.kernel import kernel
from llmprism.model.job import Job
from llmprism.model.timeline import Steps
from llmprism.stats.integer_order import stable_order
from llmprism.stats.silences import silences_of

__all__ = ["Silence", "long_silences"]


@dataclass(frozen=True, slots=True)
class Silence:
    """The job sends nothing from `begin_ns` to `end_ns`.

    `usual_ns` is how long it usually rests at this point of a step, `longest_ns` the longest rest that a step usually
    has, `common_ns` one that only every tenth step exceeds. `point` is the share of a step's bytes that it had sent
    since the last end of a step, by the clock; beyond 1 the clock has lost the steps. `since_end` is the time since
    then, in steps. `spread` is how much the bytes of steps vary, as a share, `before` how many steps were seen before
    it. `again`: the job is silent for as long once more. `taken_up`: what was sent before it and after it makes whole
    steps, so the job went on where it had stopped.
    """

    begin_ns: int
    end_ns: int
    usual_ns: float
    longest_ns: float
    common_ns: float
    point: float
    spread: float
    before: int
    since_end: float = float("nan")
    again: bool = False
    taken_up: bool = False

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.begin_ns

    def is_new(self, rules: FaultRules = RULES) -> bool:
        """Is it much longer than those that a tenth of the steps have anyway, and the only one of its length? What a
        job does twice, such as an evaluation, takes the same time each time. Where the job otherwise passes without a
        rest, its long rests elsewhere vary less than that."""
        growth = rules.standstill.passing_growth if self.where_it_passes(rules) else rules.members.jitter_growth
        return not self.again and self.length_ns > growth * self.common_ns

    def in_mid_step(self, rules: FaultRules = RULES) -> bool:
        """Does the job go on at this point in other steps?

        It does where the clock sees no end of a step, by bytes, or, where these vary from step to step, by time. Where
        it sees one, it may be wrong: then bytes decide, if they tell where in a step the job stands, and a rest that is
        much shorter than the usual ones is none. Where the clock has just seen one by time, and the job rests as long
        as anywhere, what little was sent since then belongs to the step. A point of a step is known no better
        than by what the bytes of steps vary.
        """
        rule = rules.endings
        rests = self.point <= rule.clock_step_end and self.usual_ns >= rule.surely_resting * self.longest_ns > 0.0
        if self.point >= 2.0 or ((self.spread > rule.exact or rests) and self.since_end <= rule.at_step_end):
            return False
        near = max(rules.standstill.near_step_end, self.spread)
        if near < self.point < 1.0 - near:
            return True
        return self.where_it_passes(rules)

    def is_unlike_any(self, rules: FaultRules = RULES) -> bool:
        """Is it many times as long as the job rests anywhere?"""
        return self.length_ns > rules.standstill.never_rests * self.common_ns

    def where_it_passes(self, rules: FaultRules = RULES) -> bool:
        """Do bytes tell where in a step the job stands, and does it hardly rest there in other steps?"""
        return self.spread <= rules.endings.exact and self.usual_ns < rules.standstill.passing * self.longest_ns


def long_silences(job: Job, steps: Steps, least_ns: float, rules: FaultRules = RULES) -> list[Silence]:
    """The silences between two messages of the training that are longer than `least_ns`, in order."""
    transfers, rows = job.transfers, training_messages(job)
    if steps.count < 3 or np.count_nonzero(rows) < 2:
        return []
    if not _may_be_silent(transfers.start_ns, transfers.end_ns, rows, int(least_ns)):
        return []
    start, end, size = transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows]
    order = stable_order(start)
    found = silences_of(start[order], end[order], size[order])
    begin, length = found.begin_ns[:-1], found.length_ns[:-1]  # nobody saw the end of the last
    long = np.flatnonzero(length > least_ns)
    if not long.size:
        return []
    curve = ByteCurve.of(start, end, size)
    passed = curve.at(steps.end_ns.astype(np.float64))
    each = np.diff(passed)
    usual = float(median(each))
    spread = 1.4826 * float(median(np.abs(each - usual))) / max(usual, 1.0)
    if usual <= 0.0:
        return []
    step = np.searchsorted(steps.end_ns, begin, side="left")
    return [_silence(curve, steps, (begin, length, step), passed, (usual, spread), k, rules) for k in long.tolist()]


def _silence(
    curve: ByteCurve,
    steps: Steps,
    silences: tuple[Int64, Int64, Int64],
    passed: Float64,
    bytes_per_step: tuple[float, float],
    number: int,
    rules: FaultRules,
) -> Silence:
    """One of the `silences` (begin, length, step), against the others. `passed` are the bytes up to each step's end."""
    (begins, lengths, step), (usual, spread) = silences, bytes_per_step
    begin, length = int(begins[number]), int(lengths[number])
    others = np.where(np.arange(lengths.size) == number, 0, lengths)
    of_step = np.zeros(steps.count + 1)
    np.maximum.at(of_step, step, others)
    inner = of_step[1:-1]
    here = float(curve.at(np.array([begin], dtype=np.float64))[0])
    before = int(np.searchsorted(steps.end_ns, begin, side="right"))
    return Silence(
        begin_ns=begin,
        end_ns=begin + length,
        usual_ns=_usual_rest(curve, here, usual, spread, rules),
        longest_ns=float(median(inner)),
        common_ns=float(np.quantile(inner, rules.members.jitter_quantile)),
        point=(here - float(passed[before - 1])) / usual if before else float("nan"),
        spread=spread,
        before=before,
        since_end=(begin - int(steps.end_ns[before - 1])) / float(median(steps.duration_ns))
        if before
        else float("nan"),
        again=bool((np.abs(others - length) <= rules.standstill.as_long * length).any()),
        taken_up=before > 0 and spread <= rules.endings.exact and _taken_up(passed, before, usual, rules),
    )


def _taken_up(passed: Float64, before: int, usual: float, rules: FaultRules) -> bool:
    """Are the bytes from the last end of a step before a silence to each of the next ones after it whole steps? One
    that starts again sends the step that it broke off once more, and what it needs to connect."""
    steps = (passed[before : before + rules.endings.ends_after] - passed[before - 1]) / usual
    whole = np.abs(steps - np.round(steps)) <= rules.endings.short_of
    return bool(steps.size == rules.endings.ends_after and whole.all())


def _usual_rest(curve: ByteCurve, here: float, usual: float, spread: float, rules: FaultRules) -> float:
    """How long the job usually rests at this point in the steps before, and after: the longer of the two."""
    rule, found = rules.endings, [0.0]
    back = np.arange(1, rule.steps_back + 1, dtype=np.float64)
    unsure = rule.state_spreads * min(spread, rule.exact) * np.sqrt(back)
    for points in (here - back * usual, here + back * usual):
        begin, end = curve.pauses_at(points, (rule.short_of + unsure) * usual, (rule.beyond + unsure) * usual)
        rest: Float64 = (end - begin)[np.isfinite(begin)]
        if rest.size:
            found.append(float(median(rest)))
    return max(found)


def _may_be_silent(start: Int64, end: Int64, rows: Bool, least: int) -> bool:
    """May nothing flow for longer than `least` ns between the first and the last of these rows?

    Such a silence holds a slot of half its length in which nothing flows; most jobs have none, and their messages need
    not be put in order.
    """
    begin, width = int(start[rows].min()), max(least // 2, 1)
    count = int(end[rows].max() - begin) // width + 1
    return count > start.size or bool(_quiet_slots(start, end, rows, begin, width, count).any())


def _quiet_slots_by_arrays(start: Int64, end: Int64, chosen: Bool, begin: int, width: int, count: int) -> Bool:
    """The kernel below without a loop."""
    first, last = (start[chosen] - begin) // width, (end[chosen] - begin) // width
    inside = (last >= 0) & (first < count)
    opened = np.bincount(np.maximum(first[inside], 0), minlength=count + 1)
    closed = np.bincount(np.minimum(last[inside], count - 1) + 1, minlength=count + 1)
    return np.asarray(np.cumsum(opened - closed)[:count] == 0)


@kernel(by_arrays=_quiet_slots_by_arrays)
def _quiet_slots(start: Int64, end: Int64, chosen: Bool, begin: int, width: int, count: int) -> Bool:
    """Which of `count` slots of `width` ns from `begin` on none of the chosen rows touches."""
    change = np.zeros(count + 1, dtype=np.int64)
    for row in range(start.size):
        if chosen[row]:
            first, last = (start[row] - begin) // width, (end[row] - begin) // width
            if last >= 0 and first < count:
                change[max(first, 0)] += 1
                change[min(last, count - 1) + 1] -= 1
    quiet: Bool = np.cumsum(change)[:count] == 0
    return quiet
