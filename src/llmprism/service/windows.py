"""Which span of event time is looked at next: sliding windows behind a watermark.

The watermark is the latest end of any accepted record, less the lateness that is allowed. A window is due when the
watermark has passed its end. Windows end at multiples of the hop. Their length adapts: it grows until the slowest job
shows enough steps, and shrinks again when that job has gone, between the base length and a maximum; the hop grows with
it, so that the work per second stays the same. A gap without records is jumped over in one go.

Everything here is a pure function of the committed records, so that a restarted service plans the same windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from llmprism.model.flows import Window

__all__ = [
    "SECOND",
    "JobPace",
    "WindowPlan",
    "WindowRules",
    "affordable_plan",
    "due_window",
    "hop_of",
    "resized",
    "started",
    "watermark",
]

SECOND: Final = 1_000_000_000

AFFORDABLE: Final = 0.25
"""Share of the most records of a window that a grown window may hold."""

HOP_RECORDS: Final = 800_000
"""Records of a window up to which the base hop is kept: about two seconds of work on two cores, half of a hop."""


@dataclass(frozen=True, slots=True)
class WindowRules:
    """Lengths in ns.

    `length`: a minute, as in the paper. `hop`: how often a picture is made; two hops and the lateness stay under the
    15 s in which a hang must be told. `lateness`: exporters flush every second or two. `steps`: the methods need about
    eight steps to tell a slow step from a usual one. `longest`: ten steps of the longest step known (46.6 s), twice.
    """

    length: int = 60 * SECOND
    hop: int = 4 * SECOND
    lateness: int = 2 * SECOND
    steps: int = 8
    longest: int = 960 * SECOND

    @property
    def hops_per_window(self) -> int:
        return max(1, self.length // self.hop)


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Where the service stands: the end of the next window (0: no record yet) and the present length."""

    next_end: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class JobPace:
    """What a window said about one living job: how many steps it saw and how long one takes (0: none seen)."""

    steps: int
    period_ns: int


def watermark(latest_end_ns: int, rules: WindowRules) -> int:
    return latest_end_ns - rules.lateness


def hop_of(length: int, rules: WindowRules) -> int:
    """A window of the base length moves by the base hop, a longer one by as many times more."""
    return rules.hop * max(1, length // rules.length)


def started(first_end_ns: int, rules: WindowRules) -> WindowPlan:
    """The plan once the first record has come."""
    return WindowPlan(_next_multiple(first_end_ns, rules.hop), rules.length)


def due_window(plan: WindowPlan, mark_ns: int, next_record_ns: int | None, rules: WindowRules) -> Window | None:
    """The next window whose end the watermark has passed, or None.

    `next_record_ns` is the earliest record end after the last window (None: there is none); windows that would end
    long before it hold nothing new and are left out.
    """
    end = plan.next_end
    if not end:
        return None
    if next_record_ns is not None and next_record_ns > end + plan.length:
        end = _next_multiple(next_record_ns, rules.hop)
    if end > mark_ns:
        return None
    return Window(end - plan.length, end)


def resized(plan: WindowPlan, done: Window, paces: Iterable[JobPace], rules: WindowRules) -> WindowPlan:
    """The plan after a window: the next end, and a length in which the slowest job shows enough steps.

    A job whose steps were not seen asks for twice the length. Lengths are the base length times a power of two, so
    that one that is just enough does not swing to and fro.
    """
    wanted = rules.length
    for pace in paces:
        if pace.steps and pace.period_ns:
            wanted = max(wanted, rules.steps * pace.period_ns)
        else:
            wanted = max(wanted, min(2 * (done.end_ns - done.start_ns), rules.longest))
    length = rules.length
    while length < wanted and 2 * length <= rules.longest:
        length *= 2
    return replace(plan, next_end=_next_multiple(done.end_ns + 1, hop_of(length, rules)), length=length)


def affordable_plan(plan: WindowPlan, done: Window, records: int, most: int, rules: WindowRules) -> WindowPlan:
    """The same plan, made affordable on a busy cluster: windows do not grow beyond a quarter of the records that one
    may hold, and follow each other at longer hops the more records they hold."""
    per_ns = records / max(done.end_ns - done.start_ns, 1)
    length = plan.length
    while length > rules.length and per_ns * length > AFFORDABLE * most:
        length //= 2
    hop = hop_of(length, rules)
    while per_ns * length * rules.hop > HOP_RECORDS * hop and hop < length:
        hop *= 2
    return WindowPlan(_next_multiple(done.end_ns + 1, hop), length)


def _next_multiple(time_ns: int, hop: int) -> int:
    return -(-time_ns // hop) * hop
