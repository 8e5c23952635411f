"""Which span of event time is looked at next: sliding windows behind a watermark, and longer looks at slow jobs.

The watermark is how far the sources that agree have come (`clocks`), less the lateness that is allowed. A window is due
when the watermark has passed its end. Windows end at multiples of the base hop and have one length. A gap without
records is jumped over in one go.

The hop is as short as the machine can afford: it grows while windows take more than their share of it, while too
many of them are due at once (a file of five minutes arrives), and, once windows take so much that it matters, while
they take more than their budget per record. It never grows beyond three quarters of a window, so that no time is left
out. Where it is longer than the base hop, everybody's activity is checked in between (`check_ends`, `checks`), and runs
that have changed get looks of their own at once. Runs that are young and addresses that are new wait until a look
at them is affordable (`affords`): when all jobs of a cluster appear at once, that is all there is to do.

A job whose steps do not show in one window gets looks of its own: at its own records only, over a span that doubles
until enough steps show. A look twice as long is made half as often, so that all lengths cost the same per second. A
slow job therefore never delays what is said about a fast one.

Everything here is a pure function of the committed records, so that a restarted service plans the same windows.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.model.flows import Window
from llmprism.service.rules.windows import WindowRules
from llmprism.units import SECOND

__all__ = [
    "Cost",
    "WindowPlan",
    "WindowRules",
    "affordable_hop",
    "affords",
    "cannot_keep_up",
    "check_ends",
    "due_window",
    "following",
    "hop_of",
    "look_due",
    "reach_for",
    "reach_longer",
    "started",
    "usual_cost",
    "watermark",
]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Where the service stands: the end of the next window (0: no record yet) and of the last one that was made, the
    watermark that it was made behind, and the end of the last check since."""

    next_end: int = 0
    last_end: int = 0
    mark_ns: int = 0
    checked_ns: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What a window of so many records took in processor time: a machine that is busy otherwise must not change which
    windows are made."""

    cpu_ns: int
    records: int


def usual_cost(last: Cost, before: Cost | None) -> int:
    """What the next window may take in ns, by the last two of this process: the lesser one, because the first of a
    process compiles, and anything may happen in one. Each counts for as many records as the last one had: a window of a
    few records, as the first one may be, says nothing about those of millions. 0 after the first."""
    if before is None:
        return 0
    return min(last.cpu_ns, before.cpu_ns * max(1, last.records) // min(max(1, before.records), max(1, last.records)))


def affords(took_ns: float, since_ns: int, rules: WindowRules) -> bool:
    """May work be done now that takes so long and was last done so long ago? Nobody waits for it in particular."""
    return took_ns <= rules.busy * since_ns


def watermark(latest_end_ns: int, rules: WindowRules) -> int:
    return latest_end_ns - rules.lateness


def hop_of(length: int, rules: WindowRules) -> int:
    """A window of the base length moves by the base hop, a longer look by as many times more."""
    return rules.hop * max(1, length // rules.length)


def started(first_end_ns: int, rules: WindowRules) -> WindowPlan:
    """The plan once the first record has come."""
    return WindowPlan(max(rules.hop, _next_multiple(first_end_ns, rules.hop)))


def due_window(plan: WindowPlan, mark_ns: int, next_record_ns: int | None, rules: WindowRules) -> Window | None:
    """The next window whose end the watermark has passed, or None.

    `next_record_ns` is the earliest record end after the last window (None: there is none); windows that would end
    long before it hold nothing new and are left out.
    """
    end = plan.next_end
    if not end:
        return None
    if next_record_ns is not None and next_record_ns > end + rules.length:
        end = _next_multiple(next_record_ns, rules.hop)
    if end > mark_ns:
        return None
    return Window(end - rules.length, end)


def affordable_hop(behind_ns: int, took_ns: int, rules: WindowRules, records: int = 0, step_ns: int = 0) -> int:
    """The shortest hop for which windows of so many records that take so long each keep up, given how far behind they
    are, and stay within their budget. `step_ns` is the slowest step that windows show (0: not known)."""
    hop = rules.hop
    shared = SECOND + int(rules.shared_steps * step_ns)  # steps settle within a second
    longest = rules.length - shared if step_ns else int(rules.longest_hop * rules.length)
    most = max(rules.hop, longest // rules.hop * rules.hop)
    dear = took_ns > rules.idle * rules.hop and records >= rules.worth
    budget = rules.per_million * records / 1e6 / rules.length if dear else 0.0

    def too_short() -> bool:
        busy = took_ns > rules.busy * hop or behind_ns / hop * took_ns > rules.catch_up_ns
        return busy or (budget > 0.0 and took_ns > budget * hop)

    while hop < most and too_short():
        hop = min(2 * hop, most)
    return hop


def check_ends(plan: WindowPlan, mark_ns: int, rules: WindowRules) -> int:
    """The latest multiple of the base hop between the last window or check and the next window that the watermark has
    passed; 0 where there is none."""
    end = min(mark_ns, plan.next_end - 1) // rules.hop * rules.hop
    return end if plan.last_end and end > max(plan.last_end, plan.checked_ns) else 0


def following(
    done: Window, mark_ns: int, took_ns: int, rules: WindowRules, records: int = 0, step_ns: int = 0
) -> WindowPlan:
    """The plan after a window of so many records that took so long to make, with the watermark where it is."""
    hop = affordable_hop(max(0, mark_ns - done.end_ns), took_ns, rules, records, step_ns)
    last = done.end_ns // rules.hop * rules.hop
    return WindowPlan(last + hop, done.end_ns, mark_ns)


def cannot_keep_up(behind_ns: int, took_ns: int, rules: WindowRules) -> bool:
    """Do windows take longer than the time that each of them adds, so that the backlog only grows?"""
    return behind_ns > 2 * rules.length and took_ns > rules.length // 2


def look_due(reach_ns: int, plan: WindowPlan, end_ns: int, rules: WindowRules) -> bool:
    """Has a multiple of this look's hop passed since the last window?"""
    hop = hop_of(reach_ns, rules)
    return end_ns // hop > plan.last_end // hop


def reach_for(period_ns: int, rules: WindowRules) -> int:
    """The length of a look that shows enough steps of this duration: the base length times a power of two."""
    length = rules.length
    while length < rules.steps * period_ns and 2 * length <= rules.longest:
        length *= 2
    return length


def reach_longer(reach_ns: int, rules: WindowRules) -> int:
    """The next longer look, or the same where there is none."""
    length = max(reach_ns, rules.length)
    return 2 * length if 2 * length <= rules.longest else length


def _next_multiple(time_ns: int, hop: int) -> int:
    return -(-time_ns // hop) * hop
