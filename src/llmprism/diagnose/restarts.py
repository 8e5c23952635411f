"""Where a job broke off inside the window and came back.

A job that only pauses goes on where it stopped, and its ranks are heard all the while. One that starts again connects
its ranks first, which takes many small messages, and falls silent altogether before. How it broke off is left to the
moment before, as of the end of the window (`endings`).
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.endings import Ending, ending_at
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.kernel import kernel
from llmprism.model.job import Job
from llmprism.model.timeline import Timeline

__all__ = ["inner_endings"]


def inner_endings(job: Job, timeline: Timeline, rules: FaultRules = RULES) -> list[Ending]:
    """Where the job broke off inside the window and came back."""
    rule = rules.endings
    steps = timeline.steps
    if steps.count < 2:
        return []
    period = float(np.median(steps.duration_ns))
    away, least = (
        max(rule.away_ns, rule.away_steps * period),
        max(rule.short_away_ns, period),
    )
    found = []
    before = np.append(steps.start_ns[0], steps.end_ns[:-1])
    for step in _steps_with_silence(job, before, steps.end_ns, int(least)):
        gap = _longest_silence(job, int(before[step]), int(steps.end_ns[step])) if step else None
        if gap is None or gap[1] - gap[0] <= least:
            continue
        went_on = gap[0] > steps.start_ns[step] or gap[1] - gap[0] <= away
        connects = _starts_again(job, gap, rules, long=gap[1] - gap[0] > away)
        if went_on and not connects:
            continue  # it went on where it had stopped, or only paused
        if not connects and _heard_all_the_while(job, gap, rules):
            continue  # nobody was gone
        talked = gap[0] + int(rule.gone * (gap[1] - gap[0]))
        heard = job.transfers.end_ns[job.transfers.end_ns <= talked]
        ending = ending_at(job, steps, gap[0], gap[1], int(heard.max()), gap[1], talked, rules, connects=connects)
        if ending.broken_off:
            found.append(ending)
    return found


def _starts_again(job: Job, gap: tuple[int, int], rules: FaultRules, *, long: bool) -> bool:
    """Do the members talk a lot when they begin to train again, as a job does that connects its ranks?

    After a `long` silence before the first message of the training; or with it, after the ranks had fallen silent
    altogether, which living ones do not.
    """
    small = ~training_messages(job)
    when = np.sort(job.transfers.start_ns[small])
    quarter = (gap[1] - gap[0]) // 4

    def between(first: int, last: int) -> int:
        return int(np.diff(np.searchsorted(when, [first, last]))[0])

    middle = between(gap[0] + quarter, gap[1] - quarter) / 2.0
    each = rules.endings.connects_members * len(job.members)
    if long and between(gap[1] - quarter, gap[1]) >= max(each, rules.endings.connects * middle):
        return True
    usual = between(gap[0] - quarter, gap[0])
    again = between(gap[1] - quarter // 2, gap[1] + quarter // 2)
    return middle <= rules.endings.silent * usual and again >= max(each, rules.endings.connects * usual)


def _heard_all_the_while(job: Job, gap: tuple[int, int], rules: FaultRules) -> bool:
    """Do nearly all members send small messages in every quarter of a silence?"""
    transfers = job.transfers
    rows = np.flatnonzero((transfers.start_ns > gap[0]) & (transfers.start_ns < gap[1]))
    quarter = 4 * (transfers.start_ns[rows] - gap[0]) // (gap[1] - gap[0])
    heard = np.unique(4 * transfers.pair_src[transfers.pair_of_row[rows]].astype(np.int64) + quarter).size
    return heard >= rules.endings.heard * 4 * len(job.members)


def _steps_with_silence(job: Job, first: Int64, last: Int64, least: int) -> list[int]:
    """The steps, from `first` to `last` each, that may hold a silence of the training longer than `least` ns.

    Such a silence holds a slot of half its length in which nothing flows; in most steps there is none, and their
    messages need not be put in order.
    """
    long = np.flatnonzero(last - first > least)
    width = max(least // 2, 1)
    count = int(last[-1] - first[0]) // width + 1
    if not long.size or count > job.transfers.start_ns.size:
        return [int(step) for step in long]
    quiet = _quiet_slots(
        job.transfers.start_ns, job.transfers.end_ns, training_messages(job), int(first[0]), width, count
    )
    before = np.append(0, np.cumsum(quiet))
    whole, after = -(-(first[long] - first[0]) // width), (last[long] - first[0]) // width
    return [int(step) for step in long[before[np.maximum(after, whole)] > before[whole]]]


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


def _longest_silence(job: Job, first: int, last: int) -> tuple[int, int] | None:
    """The longest silence of the training between two times; the first is the end of a step, or in it."""
    transfers = job.transfers
    rows = np.flatnonzero(training_messages(job) & (transfers.end_ns > first) & (transfers.start_ns <= last))
    if not rows.size:
        return None
    rows = rows[np.argsort(transfers.start_ns[rows], kind="stable")]
    begin = transfers.start_ns[rows]
    horizon = np.maximum.accumulate(np.append(first, transfers.end_ns[rows]))[:-1]
    longest = int(np.argmax(begin - horizon))
    return int(horizon[longest]), int(begin[longest])
