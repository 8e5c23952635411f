"""The report for a terminal: findings first, then the jobs, then what went in and what could not be decided.

Everything is built from `rich.text.Text`, never from markup strings, and every outside name goes through `clean`, so
that neither `[bold]` in a host name nor an escape sequence in a log does anything. Colour only repeats what the words
say; the layout follows the console's width and falls back to ASCII where the encoding demands it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llmprism.model.finding import Evidence, Finding
from llmprism.model.job import JobState
from llmprism.model.report import JobReport, Report, SwitchLoad
from llmprism.report.facts import (
    alternative_texts,
    degrees,
    notes_without_job,
    ranked_findings,
    sick_addresses,
    step_times,
    training_times,
)
from llmprism.report.job_facts import model_text, network_text
from llmprism.report.kinds import CHECKS, TITLES
from llmprism.report.places import Places
from llmprism.report.text import (
    clean,
    count,
    data_size,
    duration,
    moment,
    percent,
    plural,
    rate,
    significant,
    sparkline,
)
from llmprism.report.verdict_text import log_job_lines, verdict_lines

__all__ = ["NOTHING_WRONG", "print_report"]

NOTHING_WRONG: Final = "Nothing wrong found."

_JOBS_IN_FULL: Final = 6
"""Jobs shown in full: two screens of text; more than this are listed one to a line."""

_TABLE_SPARKLINE_COLUMNS: Final = 20
_LISTED_SERVERS: Final = 4
_EVIDENCE_SHOWN: Final = 6
_SPARKLINE_COLUMNS: Final = 60
_LABEL_COLUMNS: Final = 10
_INDENT: Final = 3

_STATE_STYLE: Final = {
    JobState.RUNNING: "green",
    JobState.STARTING: "cyan",
    JobState.ENDED: "blue",
    JobState.CRASHED: "bold red",
    JobState.HUNG: "bold red",
    JobState.UNKNOWN: "yellow",
}


def print_report(report: Report, console: Console) -> None:
    """Write the whole report to `console`."""
    writer = _TerminalWriter(report, console.width, console.options.ascii_only)
    for block in writer.blocks():
        console.print(block, markup=False, highlight=False, emoji=False, soft_wrap=False)


class _TerminalWriter:
    def __init__(self, report: Report, width: int, ascii_only: bool) -> None:
        self._report = report
        self._sparkline_columns = max(1, min(_SPARKLINE_COLUMNS, width - _INDENT - _LABEL_COLUMNS))
        self._places = Places(report.topology)
        self._ascii = ascii_only
        verdicts = report.reading.verdicts if report.reading is not None else ()
        self._verdict_of = {id(one): verdict for one, verdict in zip(report.findings, verdicts, strict=False)}

    def blocks(self) -> Iterator[RenderableType]:
        yield self._verdict()
        for number, finding in enumerate(ranked_findings(self._report), start=1):
            yield self._finding(number, finding)
        in_full, listed = self._split_jobs()
        for job in in_full:
            yield self._job(job)
        if listed:
            yield self._job_table(listed)
        yield from self._logs()
        if self._report.switches:
            yield self._switches()
        yield self._input()
        yield from self._notes()

    def _verdict(self) -> RenderableType:
        report = self._report
        gpus = sum(len(job.job.members) for job in report.jobs)
        window = report.window
        scope = f"{plural(len(report.jobs), 'job')} on {plural(gpus, 'GPU')}"
        if window.end_ns > window.start_ns:
            scope += f", {duration(window.end_ns - window.start_ns)}"
            scope += f" from {moment(window.start_ns, window.start_ns, date=True)}"
        if not report.findings:
            verdict = Text(NOTHING_WRONG, style="bold green")
            if not report.jobs:
                verdict = Text("No training job recognised.", style="bold yellow")
        else:
            jobs = {finding.job for finding in report.findings if finding.job is not None}
            text = plural(len(report.findings), "finding")
            verdict = Text(f"{text} in {plural(len(jobs), 'job')}" if jobs else text, style="bold red")
        return Group(verdict, Text(scope, style="dim"))

    def _finding(self, number: int, finding: Finding) -> RenderableType:
        title = Text.assemble(
            (f"{number}. {TITLES[finding.kind]}", "bold red"), ": ", (self._places.finding(finding), "bold")
        )
        lines: list[RenderableType] = [Text(""), title, _Line(Text(clean(finding.summary)))]
        lines.append(_field("since", Text(self._since(finding))))
        lines.append(_field("cost", Text(_cost(finding))))
        lines.extend(self._why(finding))
        lines.append(_field("check", Text(CHECKS[finding.kind])))
        lines.extend(_field("evidence", _evidence(item)) for item in finding.evidence[:_EVIDENCE_SHOWN])
        if len(finding.evidence) > _EVIDENCE_SHOWN:
            lines.append(_field("", Text(f"and {len(finding.evidence) - _EVIDENCE_SHOWN} more in the JSON report")))
        return Group(*lines)

    def _why(self, finding: Finding) -> Iterator[RenderableType]:
        """What the logs say of a finding; nothing where none were given."""
        reading, verdict = self._report.reading, self._verdict_of.get(id(finding))
        if reading is not None and verdict is not None:
            for label, text in verdict_lines(verdict, reading, self._report.window.start_ns):
                yield _field(label, Text(text))

    def _logs(self) -> Iterator[RenderableType]:
        for job in self._report.reading.jobs if self._report.reading is not None else ():
            lines = [_field(label, Text(text)) for label, text in log_job_lines(job)]
            yield Group(Text(""), Text.assemble(("Logs ", "bold"), (clean(job.name), "bold")), *lines)

    def _since(self, finding: Finding) -> str:
        origin = self._report.window.start_ns
        text = moment(finding.start_ns, origin)
        if finding.end_ns is None:
            text += ", still going on"
        else:
            text += f" for {duration(finding.end_ns - finding.start_ns)}"
        if finding.job is not None:
            text += f", job {clean(finding.job)}"
        return text

    def _job(self, job: JobReport) -> RenderableType:
        members = len(job.job.members)
        head = Text.assemble(
            ("Job ", "bold"),
            (clean(job.job.id), "bold"),
            "  ",
            (job.state.value, _STATE_STYLE[job.state]),
            (f"  {plural(members, 'GPU')}, confidence {significant(job.job.confidence, 2)}", "dim"),
        )
        lines: list[RenderableType] = [_field("servers", Text(self._servers(job)))]
        lines.append(_field("layout", Text(_layout(job))))
        lines.extend(_field("or", Text(clean(text), style="dim")) for text in alternative_texts(job))
        lines.extend(self._steps(job))
        facts = (("model", model_text(job.timeline.facts)), ("network", network_text(job.timeline.facts)))
        lines.extend(_field(label, Text(text)) for label, text in facts if text != "unknown")
        notes = (*job.layout.notes, *job.timeline.notes)
        lines.extend(_field("note", Text(clean(note), style="yellow")) for note in notes)
        return Group(Text(""), head, *lines)

    def _split_jobs(self) -> tuple[list[JobReport], list[JobReport]]:
        """Jobs shown in full and jobs that get a line each: of many jobs only those that findings name are in full."""
        jobs = list(self._report.jobs)
        if len(jobs) <= _JOBS_IN_FULL:
            return jobs, []
        named = {finding.job for finding in self._report.findings}
        return [job for job in jobs if job.job.id in named], [job for job in jobs if job.job.id not in named]

    def _job_table(self, jobs: list[JobReport]) -> RenderableType:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("job", overflow="fold")
        table.add_column("state")
        table.add_column("GPUs", justify="right")
        table.add_column("layout")
        table.add_column("step", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for job in jobs:
            times = step_times(job.timeline.steps)
            values = training_times(job.timeline.steps).tolist()
            table.add_row(
                Text(clean(job.job.id)),
                Text(job.state.value, style=_STATE_STYLE[job.state]),
                count(len(job.job.members)),
                degrees(job),
                duration(times.median_ns) if times is not None and times.count else "?",
                Text(sparkline(values, _TABLE_SPARKLINE_COLUMNS, ascii_only=self._ascii), style="cyan"),
            )
        title = "Jobs without findings" if self._report.findings else "Jobs"
        return Group(Text(""), Text(title, style="bold"), Padding(table, (0, 0, 0, _INDENT), expand=False))

    def _servers(self, job: JobReport) -> str:
        servers = [clean(server) for server in job.job.servers]
        if not servers:
            return "not known (no topology)"
        listed = ", ".join(servers[:_LISTED_SERVERS])
        more = len(servers) - _LISTED_SERVERS
        return f"{len(servers)}: {listed}" + (f" and {more} more" if more > 0 else "")

    def _steps(self, job: JobReport) -> Iterator[RenderableType]:
        steps = job.timeline.steps
        times = step_times(steps)
        if times is None:
            yield _field("steps", Text("none seen"))
            return
        if times.count == 0:
            yield _field("steps", Text(f"only the set-up step, {duration(times.median_ns)}"))
            return
        text = f"{plural(times.count, 'step')}, median {duration(times.median_ns)}"
        if times.count > 1:
            text += f", 80 % within {duration(times.low_ns)} to {duration(times.high_ns)}"
        if times.setup_ns is not None:
            text += f"; set-up {duration(times.setup_ns)} before them"
        yield _field("steps", Text(text))
        values = training_times(steps).tolist()
        line = sparkline(values, self._sparkline_columns, ascii_only=self._ascii)
        yield _field("", Text(line, style="cyan"))

    def _switches(self) -> RenderableType:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("switch", overflow="fold")
        table.add_column("tier")
        for name in ("bytes", "pairs", "median rate", "jobs"):
            table.add_column(name, justify="right")
        title, loads = self._chosen_switches()
        for load in loads:
            table.add_row(
                Text(clean(load.switch)),
                Text(clean(load.tier or "?")),
                data_size(load.bytes),
                count(load.pairs),
                rate(load.median_rate_gbps),
                count(len(load.jobs)),
            )
        return Group(Text(""), Text(title, style="bold"), Padding(table, (0, 0, 0, _INDENT), expand=False))

    def _chosen_switches(self) -> tuple[str, list[SwitchLoad]]:
        """All of them, or those that findings name and then the slowest."""
        loads = list(self._report.switches)
        if len(loads) <= _SWITCHES_SHOWN:
            return "Switches", loads
        sick = sick_addresses(self._report)
        loads.sort(key=lambda load: (load.switch not in sick, load.median_rate_gbps, load.switch))
        return f"Switches, the {_SWITCHES_SHOWN} slowest of {count(len(loads))}", loads[:_SWITCHES_SHOWN]

    def _input(self) -> RenderableType:
        counts = self._report.input
        text = f"{plural(counts.records, 'record')} read, {count(counts.used)} used"
        dropped = [f"{count(number)} {clean(reason.replace('_', ' '))}" for reason, number in counts.dropped if number]
        if dropped:
            text += "; dropped: " + ", ".join(dropped)
        return Group(Text(""), Text.assemble(("Input ", "bold"), text))

    def _notes(self) -> Iterator[RenderableType]:
        for note in notes_without_job(self._report):
            yield Text.assemble(("Note ", "bold yellow"), clean(note))


_SWITCHES_SHOWN: Final = 12
"""Switches listed in a terminal; a large fabric has hundreds, which the JSON and HTML reports hold."""


class _Line:
    """An indented line with a label before it; what does not fit goes on below in the same column."""

    def __init__(self, value: Text, label: str | None = None) -> None:
        self._value = value
        self._label = label

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        margin = " " * _INDENT
        label = "" if self._label is None else f"{self._label:<{_LABEL_COLUMNS}}"
        room = max(1, options.max_width - _INDENT - len(label))
        for number, line in enumerate(self._value.wrap(console, room, overflow="fold")):
            line.rstrip()
            first = label if number == 0 else " " * len(label)
            yield Text.assemble(margin, (first, "dim"), line, no_wrap=True, overflow="crop")


def _field(label: str, value: Text) -> _Line:
    return _Line(value, label)


def _cost(finding: Finding) -> str:
    so_far = " so far" if finding.end_ns is None else ""
    lost = f"{significant(finding.lost_gpu_seconds)} GPU-seconds lost{so_far}"
    confidence = significant(finding.confidence, 2)
    return f"{percent(finding.severity)} of the job's speed, {lost}, confidence {confidence}"


def _evidence(item: Evidence) -> Text:
    text = Text.assemble(clean(item.what), ": ", (significant(item.value), "bold"))
    if item.expected is not None:
        text.append(f" (expected {significant(item.expected)})")
    return text


def _layout(job: JobReport) -> str:
    layout = job.layout.layout
    parts = [degrees(job)]
    if layout.micro_batches is not None:
        parts.append(plural(layout.micro_batches, "micro-batch", "micro-batches"))
    if layout.schedule.value != "unknown":
        parts.append(f"schedule {layout.schedule.value}")
    if layout.sharding.value not in ("unknown", "none"):
        parts.append(f"sharding {layout.sharding.value}")
    parts.append(f"{plural(len(job.layout.pipelines), 'pipeline')}, {plural(len(job.layout.groups), 'group')}")
    parts.append(f"confidence {significant(job.layout.confidence, 2)}")
    return "; ".join(parts)
