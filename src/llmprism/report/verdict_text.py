"""What logs add to the report for people, as labelled lines of plain text; every outside word is cleaned."""

from __future__ import annotations

from collections import Counter
from typing import Final

from llmprism.model.log import CauseClass
from llmprism.model.verdict import HostClock, LogJob, LogQuote, LogReading, Seat, Source, Verdict
from llmprism.report.text import clean, duration, moment, plural, significant

__all__ = ["log_job_lines", "quote_text", "verdict_lines"]

_LINES_SHOWN: Final = 4
_SUSPECTS_SHOWN: Final = 3
_QUOTE_COLUMNS: Final = 160
_HOSTS_SHOWN: Final = 4

_SOURCES: Final = {Source.FLOWS: "the flows", Source.LOGS: "the logs", Source.BOTH: "flows and logs"}


def verdict_lines(verdict: Verdict, reading: LogReading, origin_ns: int) -> list[tuple[str, str]]:
    """(label, text) of what the logs say of a finding."""
    cause = verdict.cause
    lines = []
    words = cause.cause_class.value
    if cause.summary:
        words += f": {clean(cause.summary)}"
    words += f" (by {_SOURCES[verdict.source]}, confidence {significant(cause.confidence, 2)})"
    lines.append(("cause", words))
    if cause.cause_class not in (CauseClass.UNKNOWN, CauseClass.NONE):
        lines.append(("whose", f"{verdict.owner.value}'s"))
    who = []
    if verdict.rank is not None:
        who.append(f"rank {verdict.rank}")
    if verdict.node:
        who.append(f"on {clean(verdict.node)}")
    if verdict.iteration is not None:
        who.append(f"iteration {verdict.iteration}")
    if who:
        lines.append(("in logs", ", ".join(who)))
    if cause.advice:
        lines.append(("do", clean(cause.advice)))
    for clash in verdict.contradictions:
        text = f"flows: {clean(clash.flows)}; logs: {clean(clash.logs)}. Believed: {_SOURCES[clash.believed]}"
        lines.append(("differ", f"{text}, {clean(clash.why)}"))
    others = verdict.suspects if len(verdict.suspects) > 1 else ()
    for at, suspect in enumerate(others[:_SUSPECTS_SHOWN]):
        name = clean(suspect.address or suspect.node or "?")
        rank = f"rank {suspect.rank} " if suspect.rank is not None else ""
        text = f"{rank}{name}, score {significant(suspect.score, 2)}: {clean(suspect.why, 120)}"
        lines.append(("suspects" if at == 0 else "", text))
    for at, number in enumerate(verdict.quotes[:_LINES_SHOWN]):
        lines.append(("log" if at == 0 else "", quote_text(reading.quotes[number], origin_ns)))
    if len(verdict.quotes) > _LINES_SHOWN:
        lines.append(("", f"and {plural(len(verdict.quotes) - _LINES_SHOWN, 'line')} more in the JSON report"))
    return lines


def quote_text(quote: LogQuote, origin_ns: int) -> str:
    """A line with who wrote it, when, and where it stands."""
    who = f"rank {quote.rank}" if quote.rank is not None else "?"
    when = f" {moment(quote.time_ns, origin_ns)}" if quote.time_ns is not None else ""
    times = f" ({quote.count} times)" if quote.count > 1 else ""
    return f"{who}{when} {clean(quote.file)}:{quote.line}{times} {clean(quote.text, _QUOTE_COLUMNS)}"


def log_job_lines(job: LogJob) -> list[tuple[str, str]]:
    """(label, text) of how the logs of a job were read."""
    text = f"none: {clean(job.why)}"
    if job.job is not None:
        text = f"{clean(job.job)}, confidence {significant(job.confidence, 2)}: {clean(job.why)}"
    lines = [("job", text)]
    counts = job.input
    text = f"{plural(counts.lines, 'line')} in {plural(counts.files, 'file')}"
    lines.append(("read", text + "".join(f"; {number} {clean(reason)}" for reason, number in counts.dropped)))
    said = f"{job.outcome.value}, symptom {job.symptom.value}, cause {job.cause.cause_class.value}"
    lines.append(("alone", f"{said}, confidence {significant(job.cause.confidence, 2)}"))
    if job.seats and job.job is not None:
        lines.append(("ranks", _seats(job.seats, job.unmatched)))
    if job.clocks:
        lines.append(("clocks", _clocks(job.clocks)))
    return lines


def _clocks(clocks: tuple[HostClock, ...]) -> str:
    """How far the clocks of the logs' hosts are off that of the flows, the worst first; hosts that are alike once."""
    alike: dict[str, list[str]] = {}
    for one in sorted(clocks, key=lambda one: -abs(one.offset_ns)):
        alike.setdefault(_offset(one), []).append(clean(one.host))
    shown = []
    for text, hosts in list(alike.items())[:_HOSTS_SHOWN]:
        shown.append(f"{hosts[0] if len(hosts) == 1 else plural(len(hosts), 'host')} {text}")
    more = len(clocks) - sum(len(hosts) for hosts in list(alike.values())[:_HOSTS_SHOWN])
    return ", ".join(shown) + (f" and {plural(more, 'host')} more" if more > 0 else "")


def _offset(clock: HostClock) -> str:
    if not clock.steps:
        return "not compared"
    way = "behind" if clock.offset_ns < 0 else "ahead of"
    return f"{duration(abs(clock.offset_ns))} {way} the flows (± {duration(clock.error_ns)})"


def _seats(seats: tuple[Seat, ...], unmatched: tuple[str, ...]) -> str:
    known = [seat for seat in seats if seat.address is not None]
    text = f"{len(known)} of {len(seats)} matched to addresses"
    if known:
        why, _ = Counter(seat.why for seat in known).most_common(1)[0]
        low = min(seat.confidence for seat in known)
        text += f", confidence {significant(low, 2)} or more ({clean(why)})"
    return text + (f"; no rank for {plural(len(unmatched), 'address', 'addresses')}" if unmatched else "")
