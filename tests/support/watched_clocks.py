"""Sources that send second by second, and what is made of their clocks."""

from __future__ import annotations

from llmprism.ingest.accept import Arrival
from llmprism.service.clocks import judge
from llmprism.service.rules.clocks import SourceClockRules
from llmprism.service.watermarks import watermark

__all__ = ["NOW", "RULES", "S", "Watched", "arrival", "steady"]

S = 1_000_000_000
NOW = 1_790_000_000 * S
RULES = SourceClockRules(lateness_ns=2 * S, future_ns=300 * S, keep_ns=86_400 * S, length_ns=60 * S)


def arrival(part, end_s, records=1000, span_s=1.0, exporter="", stray_s=None):
    """Records that end evenly within `span_s` before `end_s`, and perhaps one far away."""
    end, span = NOW + int(end_s * S), int(span_s * S)
    last = end if stray_s is None else max(end, NOW + int(stray_s * S))
    return Arrival(part, exporter, records, end - span, end - span * 9 // 10, end - span // 2, end - span // 10, last)


class Watched:
    """Sources that send once a second; `send` gives the verdicts of a second."""

    def __init__(self, *names):
        self.names = names
        self.clocks = {}
        self.mark = 0
        self.marks = []

    def send(self, second, arrivals):
        judged = judge(self.clocks, self.names, arrivals, self.mark, NOW + int(second * S), RULES)
        self.clocks |= {clock.key: clock for clock in judged.clocks}
        self.mark = watermark(self.clocks.values(), self.mark, NOW + int(second * S), RULES)
        self.marks.append(self.mark)
        return judged.bounds

    def behind_s(self, second):
        return second - (self.mark - NOW) / S


def steady(names, seconds, offsets=(), span_s=1.0):
    watched = Watched(*names)
    shift = dict(offsets)
    for second in range(1, seconds + 1):
        at = [arrival(part, second + shift.get(part, lambda _: 0.0)(second)) for part in range(len(names))]
        watched.send(second, at)
    return watched
