"""`llmprism logs`: diagnose a job from its logs, learn from good runs, look after the fault library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from llmprism.logs.diagnose import Expected
    from llmprism.model.log import LogDiagnosis

app = typer.Typer(help="Diagnose jobs from their logs.", no_args_is_help=True)
library_app = typer.Typer(help="List, test and extend the fault library.", no_args_is_help=True)
app.add_typer(library_app, name="library")

Libraries = Annotated[
    list[Path] | None,
    typer.Option("--library", help="A TOML file with entries of your own; may be given several times."),
]


def _write(path: Path, text: str) -> None:
    from llmprism.errors import InputError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}") from error


def _expected(word: str | None) -> Expected | None:
    from llmprism.errors import UsageError
    from llmprism.logs.diagnose import Expected

    if word is None:
        return None
    try:
        return Expected(word)
    except ValueError as error:
        raise UsageError(f"--expect {word}: use failed, hung or slow") from error


def _diagnosed(
    paths: list[Path], reference: list[Path], library: list[Path], method: str, expected: Expected | None
) -> LogDiagnosis:
    from llmprism.errors import UsageError
    from llmprism.logs.diagnose import diagnose_paths
    from llmprism.logs.l4 import diagnose_by_l4
    from llmprism.logs.library import load_library
    from llmprism.logs.reader import read_job_lines
    from llmprism.logs.reference import learn_runs

    if method not in ("prism", "l4"):
        raise UsageError(f"--method {method}: use prism or l4")
    entries = load_library(library)
    normal = learn_runs(reference, entries) if reference else None
    if method == "l4":
        return diagnose_by_l4(*read_job_lines(paths, entries), normal)
    return diagnose_paths(paths, library=entries, normal=normal, expected=expected)


@app.command()
def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Log files, directories or globs of ONE job; .gz .xz .zst .bz2 .tar are read as they are."),
    ],
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            "--reference", help="A finished job of the same kind, a directory of several, or a store of `logs learn`."
        ),
    ] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the diagnosis as JSON.")] = None,
    html_out: Annotated[Path | None, typer.Option("--html", help="Write one self-contained HTML page.")] = None,
    library: Libraries = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            help="Exit with code 2 when the outcome is this (failed, cancelled, time_limit) or `any` cause was found.",
        ),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option("--expect", help="What you know happened: failed, hung or slow. Weaker evidence is then enough."),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="Ours (prism), or the published L4 rules (l4) as a baseline.")
    ] = "prism",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Say whether a job failed, where, why, who is to blame and what to do.

    Example: llmprism logs diagnose job_logs/ --reference good_runs/ --json report.json
    """
    from llmprism.errors import UsageError
    from llmprism.logs.report_html import render_html
    from llmprism.logs.report_json import render_json
    from llmprism.logs.report_terminal import render_terminal
    from llmprism.model.log import CauseClass, Outcome

    wanted = {Outcome.FAILED, Outcome.CANCELLED, Outcome.TIME_LIMIT}
    if fail_on is not None and fail_on != "any" and fail_on not in {outcome.value for outcome in wanted}:
        raise UsageError(f"--fail-on {fail_on}: use failed, cancelled, time_limit or any")
    result = _diagnosed(paths, reference or [], library or [], method, _expected(expect))
    if json_out:
        _write(json_out, render_json(result))
    if html_out:
        _write(html_out, render_html(result))
    if not quiet:
        typer.echo(render_terminal(result), nl=False)
    found = result.cause.cause_class is not CauseClass.NONE
    if fail_on is not None and (result.outcome.value == fail_on or (fail_on == "any" and found)):
        raise typer.Exit(2)


@app.command()
def watch(
    paths: Annotated[list[Path], typer.Argument(help="Log files or directories of one running job.")],
    every: Annotated[float, typer.Option("--every", help="Seconds between two looks.", min=0.1)] = 10.0,
    reference: Annotated[
        list[Path] | None, typer.Option("--reference", help="Finished jobs of the same kind, or a store.")
    ] = None,
    library: Libraries = None,
    limit: Annotated[int, typer.Option("--looks", help="Stop after so many looks; 0: when the job ends.", min=0)] = 0,
) -> None:
    """Follow the growing logs of a running job and say when it fails, hangs or becomes slow. Ends with the job.

    Example: llmprism logs watch job_logs/ --every 30
    """
    from llmprism.logs.library import load_library
    from llmprism.logs.reference import learn_runs
    from llmprism.logs.report_terminal import render_terminal
    from llmprism.logs.watch import watch_job
    from llmprism.model.log import Outcome

    entries = load_library(library or ())
    normal = learn_runs(reference, entries) if reference else None
    for number, look in enumerate(watch_job(paths, entries, normal=normal, every_s=every), 1):
        if look.changed:
            typer.echo(render_terminal(look.diagnosis), nl=False)
        if look.diagnosis.outcome is Outcome.FAILED:
            raise typer.Exit(2)
        if limit and number >= limit:
            return


@app.command()
def learn(
    paths: Annotated[list[Path], typer.Argument(help="Finished jobs of one kind: files, or directories of runs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the store.")],
    library: Libraries = None,
) -> None:
    """Learn what good runs print. Runs that did not end well are left out.

    Example: llmprism logs learn good_runs/ -o store.json
    """
    from llmprism.logs.library import load_library
    from llmprism.logs.reference import learn_runs, save_reference

    reference = learn_runs(paths, load_library(library or ()))
    save_reference(reference, output)
    typer.echo(
        f"learnt {len(reference.known)} shapes from {reference.runs} runs; "
        f"{reference.skipped} left out because they did not end well"
    )


@library_app.command("list")
def list_entries(
    word: Annotated[
        str | None, typer.Argument(help="Show only entries whose id, class or summary contains this.")
    ] = None,
    library: Libraries = None,
) -> None:
    """Show the entries: id, class, role, what it means.

    Example: llmprism logs library list xid
    """
    from llmprism.logs.library import load_library

    entries = load_library(library or ())
    shown = 0
    for fault in entries.faults:
        text = f"{fault.id}  {fault.cause.value}  {fault.role.value}  {fault.summary}"
        if word is None or word.lower() in text.lower():
            shown += 1
            typer.echo(text)
    typer.echo(f"{shown} of {len(entries.faults)} entries")


@library_app.command("test")
def try_entries(
    line: Annotated[
        str | None, typer.Argument(help="A log line to match; without one, every entry's own examples are tried.")
    ] = None,
    library: Libraries = None,
) -> None:
    """Say which entries a line matches, or check every entry against its own examples.

    Example: llmprism logs library test "NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off the bus."
    """
    from llmprism.errors import FormatError
    from llmprism.logs.library import load_library
    from llmprism.logs.report_terminal import harmless

    entries = load_library(library or ())
    if line is not None:
        faults, markers = entries.match(line.encode())
        for fault in faults:
            typer.echo(f"{fault.id}  {fault.cause.value}  {fault.role.value}  {fault.summary}")
        for marker in markers:
            typer.echo(f"{marker.id}  marker: {marker.means.value}")
        if not faults and not markers:
            typer.echo("no entry matches")
        return
    tried = 0
    examples = [(fault.id, fault.examples) for fault in entries.faults]
    examples += [(marker.id, marker.examples) for marker in entries.markers]
    for entry_id, own in examples:
        for example in own:
            tried += 1
            faults, markers = entries.match(example.encode())
            if entry_id not in {fault.id for fault in faults} | {marker.id for marker in markers}:
                raise FormatError(f"entry {entry_id} does not match its own example: {harmless(example)}")
    typer.echo(f"{tried} examples match their entries")


@library_app.command("add")
def add_entry(
    file: Annotated[Path, typer.Argument(help="Your TOML file; made if it is not there.")],
    entry_id: Annotated[str, typer.Option("--id", help="A name of your own, such as site.bad_cable.")],
    pattern: Annotated[
        str | None, typer.Option("--pattern", help="What the line looks like, in the library's pattern language.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--from", help="A report of `logs diagnose --json` whose diagnosis you confirm.")
    ] = None,
    cause: Annotated[
        str | None, typer.Option("--class", help="One of the contract's classes, such as hardware.nic.")
    ] = None,
    role: Annotated[str, typer.Option("--role", help="root, cascade, warning or benign.")] = "root",
    summary: Annotated[str, typer.Option("--summary", help="One sentence: what it means.")] = "",
    advice: Annotated[str, typer.Option("--advice", help="One sentence: what to do.")] = "",
    source: Annotated[str, typer.Option("--source", help="Where you know it from.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Save without asking.")] = False,
) -> None:
    """Add an entry to a library file of your own, shown and checked before it is written.

    Example: llmprism logs library add site.toml --id site.flap --pattern "port .* flapped" --class network
    """
    from llmprism.errors import UsageError

    if (pattern is None) == (report is None):
        raise UsageError("say either --pattern or --from")
    fields = {"id": entry_id, "class": cause or "", "summary": summary, "advice": advice, "source": source}
    entry = _confirmed_entry(report, fields) if report else _entry({**fields, "pattern": pattern or "", "role": role})
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    _check_entry(f"{before}\n{entry}", str(file), entry_id)
    from llmprism.logs.report_terminal import harmless

    typer.echo("\n".join(harmless(row, 600) for row in entry.splitlines()))
    if report is not None and not yes and not typer.confirm(f"save it to {file}?"):
        typer.echo("nothing saved")
        return
    _write(file, f"{before.rstrip()}\n\n{entry}".lstrip())
    typer.echo(f"added {entry_id} to {file}; use it with --library {file}")


def _entry(fields: dict[str, str]) -> str:
    import json

    from llmprism.errors import UsageError

    if not fields["class"]:
        raise UsageError("say the class of the cause with --class")
    return "[[fault]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items() if value)


def _confirmed_entry(report: Path, fields: dict[str, str]) -> str:
    from llmprism.errors import InputError
    from llmprism.logs.from_report import entry_from_report

    try:
        document = report.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {report}: {error}") from error
    return entry_from_report(
        document,
        entry_id=fields["id"],
        cause=fields["class"],
        summary=fields["summary"],
        advice=fields["advice"],
        source=fields["source"],
    )


def _check_entry(text: str, name: str, entry_id: str) -> None:
    """The file with the new entry parses, the name is new, and the pattern matches its own examples."""
    from llmprism.errors import UsageError
    from llmprism.logs.library import Library, parse_library
    from llmprism.logs.report_terminal import harmless

    faults, markers = parse_library(text, name)
    if [fault.id for fault in faults].count(entry_id) > 1:
        raise UsageError(f"{name} already has an entry {entry_id}")
    own = Library(faults, markers)
    for example in next(fault.examples for fault in faults if fault.id == entry_id):
        if entry_id not in {fault.id for fault in own.match(example.encode())[0]}:
            raise UsageError(f"the pattern does not match its own example: {harmless(example)}")
