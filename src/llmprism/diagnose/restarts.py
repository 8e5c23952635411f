"""Where a job broke off inside the window and came back.

A job that only pauses goes on where it stopped, and its ranks are heard all the while: what it sent before and after
makes whole steps. One that starts again connects its ranks first, which takes many small messages, and falls silent
altogether before. How it broke off is left to the moment before, as of the end of the window (`endings`).
"""

from __future__ import annotations

import numpy as np

from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.endings import Ending, ending_at
from llmprism.diagnose.probes import without_probes
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.silences import Silence, long_silences
from llmprism.model.job import Job
from llmprism.model.timeline import Timeline

__all__ = ["inner_endings"]


def inner_endings(job: Job, timeline: Timeline, rules: FaultRules = RULES) -> list[Ending]:
    """Where the job broke off inside the window and came back."""
    rule = rules.endings
    steps, job = timeline.steps, without_probes(job, rules)
    if steps.count < 2:
        return []
    period = float(np.median(steps.duration_ns))
    away, least = (
        max(rule.away_ns, rule.away_steps * period),
        max(rule.short_away_ns, period),
    )
    longest: dict[int, Silence] = {}
    for silence in long_silences(job, steps, least, rules):
        if silence.before and silence.length_ns > (
            longest[silence.before].length_ns if silence.before in longest else 0
        ):
            longest[silence.before] = silence
    found = []
    for silence in longest.values():
        gap = silence.begin_ns, silence.end_ns
        under_way = silence.before < steps.count and gap[0] > steps.start_ns[silence.before]
        connects = _starts_again(job, silence, rules, long=silence.length_ns > away)
        if (under_way or silence.length_ns <= away) and not connects:
            continue  # it went on where it had stopped, or only paused
        if not connects and _heard_all_the_while(job, gap, rules):
            continue  # nobody was gone
        talked = gap[0] + int(rule.gone * silence.length_ns)
        heard = job.transfers.end_ns[job.transfers.end_ns <= talked]
        ending = ending_at(job, steps, gap[0], gap[1], int(heard.max()), gap[1], talked, rules, connects=connects)
        if ending.broken_off:
            found.append(ending)
    return found


def _starts_again(job: Job, silence: Silence, rules: FaultRules, *, long: bool) -> bool:
    """Do the members talk a lot when they begin to train again, as a job does that connects its ranks?

    After a `long` silence before the first message of the training; or with it, after the ranks had fallen silent
    altogether, which living ones do not. Transports that talk with every message (gloo) do so after every pause: where
    the job seems to go on where it had stopped only a burst tells. (A clock may cut what was sent again as a step.)
    """
    gap = silence.begin_ns, silence.end_ns
    each = rules.endings.connects_members * len(job.members)
    if silence.taken_up:
        return _in_a_burst(job, gap, each, rules)
    small = ~training_messages(job)
    when = np.sort(job.transfers.start_ns[small])
    quarter = (gap[1] - gap[0]) // 4

    def between(first: int, last: int) -> int:
        return int(np.diff(np.searchsorted(when, [first, last]))[0])

    middle = between(gap[0] + quarter, gap[1] - quarter) / 2.0
    if long and between(gap[1] - quarter, gap[1]) >= max(each, rules.endings.connects * middle):
        return True
    usual = between(gap[0] - quarter, gap[0])
    again = between(gap[1] - quarter // 2, gap[1] + quarter // 2)
    if middle <= rules.endings.silent * usual and again >= max(each, rules.endings.connects * usual):
        return True
    return _in_a_burst(job, gap, each, rules)


def _in_a_burst(job: Job, gap: tuple[int, int], each: float, rules: FaultRules) -> bool:
    """Do all small messages stop, and come back in a burst such as there was none before?

    How long connecting takes is not known, so several lengths of a burst are tried, each against the most that was sent
    in as long a time before. Messages of a size that is sent on during the silence belong to pings, not to the job.
    """
    rule, transfers = rules.endings, job.transfers
    rows = np.flatnonzero(~training_messages(job))
    when, (sizes, size) = transfers.start_ns[rows], np.unique(transfers.bytes[rows], return_inverse=True)
    quarter = (gap[1] - gap[0]) // 4
    before, middle = (
        np.bincount(size[(when >= first) & (when < last)], minlength=sizes.size)
        for first, last in ((gap[0] - 2 * quarter, gap[0]), (gap[0] + quarter, gap[1] - quarter))
    )
    stopped = (middle == 0) | (middle < rule.goes_on * before)
    if middle[stopped].sum() > rule.silent * before[stopped].sum():
        return False
    when = np.sort(when[stopped[size]])
    past = when[when < gap[0]]
    width = quarter // 2
    while width >= rule.shortest_burst_ns:
        burst = int(np.diff(np.searchsorted(when, [gap[1] - width, gap[1] + width]))[0])
        most = int((np.searchsorted(past, past + 2 * width) - np.arange(past.size)).max(initial=0))
        if burst >= max(each, rule.burst * most):
            return True
        width //= 2
    return False


def _heard_all_the_while(job: Job, gap: tuple[int, int], rules: FaultRules) -> bool:
    """Do nearly all members send small messages in every quarter of a silence?"""
    transfers = job.transfers
    rows = np.flatnonzero((transfers.start_ns > gap[0]) & (transfers.start_ns < gap[1]))
    quarter = 4 * (transfers.start_ns[rows] - gap[0]) // (gap[1] - gap[0])
    heard = np.unique(4 * transfers.pair_src[transfers.pair_of_row[rows]].astype(np.int64) + quarter).size
    return heard >= rules.endings.heard * 4 * len(job.members)
