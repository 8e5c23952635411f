"""Everything known of one job's logs and of the job of the flows that they belong to, as the rules see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from llmprism.logs.notable import NotableLine
from llmprism.logs.view import JobView
from llmprism.model.finding import Finding, FindingKind, WhereType
from llmprism.model.log import Cause, CauseClass, LogDiagnosis
from llmprism.model.report import JobReport, Report
from llmprism.model.verdict import HostClock, Owner, Seat, Verdict
from llmprism.units import SECOND
from llmprism.verdict.log_clock import ClockFit
from llmprism.verdict.rules import RULES, SlownessRules, VerdictRules

__all__ = ["CLASS_OF_KIND", "LOG_LINES", "JobCase", "Judged", "Judgement", "cause_of_kind", "owner_of"]


LOG_LINES: Final = "log lines about it"
"""Evidence that a finding has once logs speak of it."""

CLASS_OF_KIND: Final = {
    FindingKind.SLOW_GPU: CauseClass.HARDWARE_GPU,
    FindingKind.SLOW_NIC: CauseClass.HARDWARE_NIC,
    FindingKind.SLOW_LINK: CauseClass.NETWORK,
    FindingKind.SLOW_SWITCH: CauseClass.NETWORK,
    FindingKind.CONGESTION: CauseClass.NETWORK,
    FindingKind.SLOW_STORAGE: CauseClass.STORAGE,
    FindingKind.IMBALANCE: CauseClass.USER_CONFIG,
}
"""The class of cause that a kind of finding implies, where it implies one."""

_OPERATOR: Final = ("hardware", "network", "storage", "platform")


def cause_of_kind(finding: Finding, rules: SlownessRules = RULES.slowness) -> Cause:
    """What a flow finding says of the cause by itself: that a rank stopped does not say why."""
    found = CLASS_OF_KIND.get(finding.kind, CauseClass.UNKNOWN)
    sure = rules.class_of_kind if found is not CauseClass.UNKNOWN else rules.no_class_of_kind
    return Cause(found, None, round(sure * finding.confidence, 2))


def owner_of(cause: CauseClass) -> Owner:
    family = cause.value.split(".", 1)[0]
    if family in _OPERATOR:
        return Owner.OPERATOR
    return {"user": Owner.JOB_OWNER, "framework": Owner.FRAMEWORK}.get(family, Owner.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding and why it came about."""

    finding: Finding
    verdict: Verdict


@dataclass(slots=True)
class Judgement:
    """What the rules made of a case. `used`: flow findings that are merged into a judged one or withdrawn."""

    judged: list[Judged] = field(default_factory=list)
    used: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JobCase:
    """`number` is the place of the logs in the reading; `job` None: they belong to no job of the flows.

    `hosts` names the host of every rank of the view; `clocks` their offsets; `zone_ns` is taken off the times where the
    clocks could not be compared. `followed_ns`: when, in flow time, the next attempt that has logs counted its first
    iteration.
    """

    number: int
    name: str
    view: JobView
    report: Report
    job: JobReport | None = None
    fit: ClockFit | None = None
    seats: tuple[Seat, ...] = ()
    hosts: tuple[str, ...] = ()
    clocks: tuple[HostClock, ...] = ()
    zone_ns: int = 0
    followed_ns: int | None = None
    rules: VerdictRules = RULES

    @property
    def diagnosis(self) -> LogDiagnosis:
        return self.view.diagnosis

    @property
    def size(self) -> int:
        return len(self.job.job.members) if self.job is not None else len(self.view.ranks)

    def findings(self, *kinds: FindingKind) -> list[Finding]:
        """Flow findings of the job, of these kinds (none given: of all)."""
        if self.job is None:
            return []
        own = self.job.job.id
        return [one for one in self.report.findings if one.job == own and (not kinds or one.kind in kinds)]

    def seat_of_rank(self, rank: int | None) -> Seat | None:
        return next((seat for seat in self.seats if rank is not None and seat.rank == rank), None)

    def seat_at(self, address: str | None) -> Seat | None:
        """The rank at an address, the surest where several are."""
        found = [seat for seat in self.seats if address is not None and seat.address == address]
        return max(found, key=lambda seat: seat.confidence, default=None)

    def flow_time(self, time_ns: int, actor: int | None = None) -> int | None:
        """A log's time in flow time, by the clock of the rank's host, else the job's; None where the log has none."""
        if not time_ns:
            return None
        offset = self.fit.offset_ns if self.fit is not None else self.zone_ns
        if actor is not None and 0 <= actor < len(self.hosts):
            offset = next((one.offset_ns for one in self.clocks if one.host == self.hosts[actor]), offset)
        return time_ns - offset

    @property
    def clock_error_ns(self) -> int:
        """How far a log's time may be off flow time."""
        rules = self.rules.clock
        if self.fit is None:
            return rules.unfitted_error_ns
        return max(rules.error_ns, min(self.fit.error_ns, rules.most_error_ns))

    @property
    def step_ns(self) -> int:
        """A usual step, by the flows, else by the log; a second where neither says."""
        if self.job is not None and self.job.timeline.steps.count > 1:
            return int(np.median(np.diff(self.job.timeline.steps.end_ns)))
        return self.view.step_ns or SECOND

    @property
    def slack_ns(self) -> int:
        """By how much logs and flows may differ about a moment, beyond their clocks."""
        return self.rules.ending.slack_steps * self.step_ns

    @property
    def near_ns(self) -> int:
        """How far two events may be apart and still be the same, apart from what the clocks may be off."""
        return max(self.rules.ending.near_ns, self.rules.ending.near_steps * self.step_ns)

    @property
    def begin_ns(self) -> int:
        """When the flows begin to show the job's steps."""
        steps = self.job.timeline.steps if self.job is not None else None
        return int(steps.start_ns[0]) if steps is not None and steps.count else self.report.window.start_ns

    def last_words(self, *roles: str) -> list[NotableLine]:
        """The lines that neither the run survived nor came after it had ended well, of these roles (none: of all)."""
        lines = (line for line in self.view.lines if not line.survived and not line.late)
        return [line for line in lines if not roles or line.role in roles]

    def line_time(self, line: NotableLine) -> int | None:
        """When a line was written, in flow time.

        Times cut to seconds, and those of lines without a time of their own, are too early: a line that follows the
        one of an iteration was written after that iteration's step had ended. Logs without times are placed by that
        alone.
        """
        when = self.flow_time(line.time_ns, line.actor)
        if line.iteration is None or self.fit is None or self.job is None:
            return when
        ends = self.job.timeline.steps.end_ns
        step = int(self.fit.step_of(np.array([line.iteration]))[0])
        if not 0 <= step < ends.size:
            return when
        ended = int(ends[step])
        if when is None:
            return ended
        return ended if when < ended <= when + self.clock_error_ns + SECOND else when

    def line_address(self, line: NotableLine) -> tuple[str | None, float]:
        if not 0 <= line.actor < len(self.seats):
            return None, 0.0
        seat = self.seats[line.actor]
        return seat.address, seat.confidence

    def failure_ns(self) -> int | None:
        """When the first line that stopped the run was written, in flow time.

        Lines that quote a time before the first iteration (a date inside a message) do not count.
        """
        begin, _ = self.log_span()
        times = [when for line in self.last_words("root", "cascade") if (when := self.line_time(line))]
        return min((when for when in times if begin is None or when >= begin - self.clock_error_ns), default=None)

    def log_span(self) -> tuple[int | None, int | None]:
        """From the first iteration to the last line of the logs, in flow time; None where they carry no time."""
        first = [rank.first_ns for rank in self.view.ranks if rank.first_ns]
        return self.flow_time(min(first, default=0)), self.flow_time(self.view.last_ns)

    def covers(self, when_ns: int) -> bool:
        """Whether the logs are of the time around a moment; logs without times are taken to be."""
        begin, end = self.log_span()
        slack = self.clock_error_ns + self.slack_ns
        return begin is None or end is None or begin - slack <= when_ns <= end + slack

    def steps_after(self, when_ns: int) -> int:
        """Steps of the flows that ended after a moment of the log, beyond what its clock may be off."""
        if self.job is None:
            return 0
        unsure = 0 if self.fit is not None else self.rules.clock.near_ns
        margin = max(self.clock_error_ns, unsure) + self.step_ns
        return int((self.job.timeline.steps.end_ns > when_ns + margin).sum())

    def address_of(self, finding: Finding) -> str | None:
        """The address that a finding names, where it names one."""
        if finding.where.type in (WhereType.GPU, WhereType.NIC) and isinstance(finding.where.id, str):
            return finding.where.id
        return None
