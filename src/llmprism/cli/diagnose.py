"""`llmprism diagnose`: flow records in, findings out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from llmprism.cli.outputs import Outputs
from llmprism.collector import collector_paused
from llmprism.errors import UsageError

if TYPE_CHECKING:
    from llmprism.cli.screen import Progress
    from llmprism.model.report import Report
    from llmprism.verdict import LogSources

__all__ = ["diagnose", "diagnose_files", "exit_code", "moment_ns", "show"]

FINDINGS_EXIT = 2
ANY = "any"


class Method(StrEnum):
    """`prism`: this tool's own analysis. `paper`: the rules of the LLMPrism paper, exactly, for comparison."""

    PRISM = "prism"
    PAPER = "paper"


class EngineName(StrEnum):
    """`local`: this machine. `spark`: an Apache Spark cluster."""

    LOCAL = "local"
    SPARK = "spark"


_Flows = Annotated[list[str], typer.Argument(metavar="FLOWS", help="Flow records: files or globs.")]
_Columns = Annotated[
    str | None, typer.Option("--map", metavar="MAP", help="Column names: start_ns=ts,bytes=octets, or a TOML file.")
]
_Format = Annotated[
    str | None, typer.Option("--format", metavar="NAME", help="Format of the flows where the content does not show it.")
]
_Engine = Annotated[EngineName, typer.Option(help="local, or spark for Parquet on a cluster's storage.")]
_Master = Annotated[
    str | None, typer.Option(metavar="URL", help="Spark's master; all cores of this machine by default.")
]
_FailOn = Annotated[
    list[str] | None,
    typer.Option("--fail-on", metavar="KIND", help="Exit with 2 on a finding of this kind, or any. Repeatable."),
]
_MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="SIZE", help="Memory for reading, such as 4GB; more goes to disk."),
]
_Cores = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", min=1, help="Cores to use at a time; all that there are by default."),
]
_Until = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="When the collector stopped, as 2026-01-31T12:00:00Z or in ns since 1970: silence up to then counts.",
    ),
]
_Logs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIR",
        help="Logs of the jobs: a folder, file or archive, or JOB=DIR: findings then name causes. Repeatable.",
    ),
]
_Ranks = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Who is where in the logs: lines with rank, host, address; or a hosts file."),
]


@collector_paused()
def diagnose(
    flows: _Flows,
    topology: Annotated[str | None, typer.Option("--topology", "-t", metavar="FILE", help="Topology as JSON.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write the report as JSON; - for stdout.")] = None,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write one offline HTML page.")] = None,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help="Write a trace for the Perfetto UI.")] = None,
    timeline: Annotated[str | None, typer.Option(metavar="FILE", help="Write per-GPU events as Parquet.")] = None,
    method: Annotated[Method, typer.Option(help="prism, or paper for the published rules.")] = Method.PRISM,
    column_map: _Columns = None,
    file_format: _Format = None,
    engine: _Engine = EngineName.LOCAL,
    master: _Master = None,
    fail_on: _FailOn = None,
    memory_limit: _MemoryLimit = None,
    jobs: _Cores = None,
    until: _Until = None,
    logs: _Logs = None,
    ranks: _Ranks = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no report and no progress.")] = False,
) -> int:
    """Say what is wrong with the training jobs in flow records.

    Reads Parquet, CSV or JSON Lines, recognises the jobs, how each is laid out and how long its steps take, and
    reports what is slow or broken: findings first, with place, cost and what to do.

    \b
    Examples:
      llmprism diagnose examples/slow_nic/flows.parquet
      llmprism diagnose examples/slow_nic/flows.parquet --topology examples/slow_nic/topology.json
      llmprism diagnose examples/crash/flows.parquet --json - --fail-on crash
      llmprism diagnose examples/slow_nic/flows.parquet --quiet --html report.html --trace report.pftrace
      llmprism diagnose examples/crash/flows.parquet --logs examples/crash/logs.tar.gz --json report.json
    """
    kinds = _kinds(fail_on or [])
    outputs = Outputs(json, html, trace, timeline)
    outputs.check()
    sources = _log_sources(logs or [], ranks)
    from llmprism.cli.screen import progress_bar

    with progress_bar(quiet=quiet) as progress:
        report = diagnose_files(
            flows,
            topology,
            method=method,
            column_map=column_map,
            file_format=file_format,
            engine=engine,
            master=master,
            with_events=outputs.need_events(),
            memory_limit=memory_limit,
            jobs=jobs,
            watched_until_ns=None if until is None else moment_ns(until),
            progress=progress,
        )
    report = _with_logs(report, sources)
    outputs.write(report)
    if not (quiet or outputs.takes_stdout()):
        show(report)
    return exit_code(report, kinds)


def diagnose_files(
    flows: list[str],
    topology: str | None,
    *,
    method: Method = Method.PRISM,
    column_map: str | None = None,
    file_format: str | None = None,
    engine: EngineName = EngineName.LOCAL,
    master: str | None = None,
    with_events: bool = True,
    memory_limit: str | None = None,
    jobs: int | None = None,
    watched_until_ns: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Read the files and run the pipeline over them; per-GPU events cost time and are made only where wanted."""
    from llmprism.engine import RunOptions, engine_named
    from llmprism.ingest import ColumnMapping, read_topology

    mapping = None
    if column_map is not None:
        mapping = ColumnMapping.parse(column_map) if "=" in column_map else ColumnMapping.from_file(column_map)
    places = None if topology is None else read_topology(topology)
    options = RunOptions(method.value, mapping, file_format, with_events, memory_limit, watched_until_ns, jobs)
    return engine_named(engine.value, master).diagnose(flows, places, options, progress)


def _log_sources(logs: list[str], ranks: str | None) -> LogSources | None:
    """Where the logs are, found before any work is done; None where none were given."""
    from pathlib import Path

    if not logs:
        if ranks is not None:
            raise UsageError("--ranks says who is who in logs: give --logs with it")
        return None
    from llmprism.verdict import LogSources, find_log_folders, read_rank_file

    listed = None if ranks is None else read_rank_file(Path(ranks))
    return LogSources(tuple(folder for option in logs for folder in find_log_folders(option)), listed)


def _with_logs(report: Report, sources: LogSources | None) -> Report:
    """The report of the flows and these logs read together; as it is where there are none."""
    if sources is None:
        return report
    from llmprism.verdict import read_logs, read_together

    return read_together(report, read_logs(sources.folders), sources.listed)


def moment_ns(text: str) -> int:
    """A moment in ns since the Unix epoch, given as such a number or as ISO 8601; without a zone it is UTC."""
    if text.strip().lstrip("-").isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--until does not know the time {text!r}: write it as 2026-01-31T12:00:00Z") from error
    since = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1_000


def show(report: Report) -> None:
    """Print the report on stdout."""
    from llmprism.cli.screen import stdout_console
    from llmprism.report.terminal import print_report

    print_report(report, stdout_console())


def exit_code(report: Report, kinds: frozenset[str]) -> int:
    """2 where a finding is of one of these kinds (or `any` is among them), else 0."""
    found = {finding.kind.value for finding in report.findings}
    return FINDINGS_EXIT if (found and ANY in kinds) or found & kinds else 0


def _kinds(given: list[str]) -> frozenset[str]:
    """The kinds of `--fail-on`, given one by one or joined by commas."""
    from llmprism.model.finding import FindingKind

    known = [kind.value for kind in FindingKind]
    kinds = frozenset(kind.strip() for item in given for kind in item.split(","))
    for kind in sorted(kinds):
        if kind != ANY and kind not in known:
            raise UsageError(f"--fail-on does not know {kind!r}; it takes any, {', '.join(known)}")
    return kinds
