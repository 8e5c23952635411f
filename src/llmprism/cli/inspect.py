"""`llmprism inspect`: what the data can and cannot support, before anyone trusts a diagnosis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from llmprism.model.fitness import CongestedPair, Fitness, PacketFitness

__all__ = ["inspect"]


def inspect(
    flows: Annotated[list[str], typer.Argument(help="Flow records or packets: files or globs.")],
    topology: Annotated[Path | None, typer.Option("--topology", "-t", help="topology.json to compare with.")] = None,
    map_columns: Annotated[
        list[str] | None, typer.Option("--map", help="Columns by other names: start_ns=ts:ms,bytes=octets.")
    ] = None,
    format_name: Annotated[str | None, typer.Option("--format", help="Force a format or collector.")] = None,
    json_out: Annotated[
        str | None, typer.Option("--json", help='Write JSON to this file; "-" is standard output.')
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Say what flow records are good enough for: jobs, parallelism, steps, faults.

    Examples:

      llmprism inspect flows.parquet --topology topology.json

      llmprism inspect 'nfcapd.2026*' --json -
    """
    from functools import partial

    from llmprism.cli.screen import progress_bar
    from llmprism.ingest import ColumnMapping, read_topology
    from llmprism.ingest.fitness import inspect_flows

    mapping = ColumnMapping()
    for text in map_columns or []:
        mapping = mapping.merged(ColumnMapping.parse(text))
    known = read_topology(topology) if topology else None
    with progress_bar(quiet=quiet) as progress:
        reading = None if progress is None else partial(progress, "reading records")
        fitness = inspect_flows(flows, topology=known, mapping=mapping, format=format_name, progress=reading)
    if json_out is None:
        _print(fitness)
        return
    text = _json(fitness)
    if json_out == "-":
        typer.echo(text)
    else:
        Path(json_out).write_text(text + "\n", encoding="utf-8")


def _json(fitness: Fitness) -> str:
    import dataclasses
    import json

    document = dataclasses.asdict(fitness)
    document["counts"]["dropped"] = dict(fitness.counts.dropped)
    return json.dumps({"schema": "llmprism.fitness/1", **document}, sort_keys=True, indent=1)


def _print(fitness: Fitness) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _facts(fitness):
        table.add_row(name, escape(value))
    console.print(table)
    console.print()
    colours = {"yes": "green", "partly": "yellow", "no": "red"}
    given: set[str] = set()
    for answer in fitness.answers:
        verdict = f"[{colours[answer.verdict]}]{answer.verdict:6}[/]"
        console.print(f"{answer.question:12} {verdict} {escape(answer.why)}", soft_wrap=True)
        if answer.advice and answer.advice not in given:
            console.print(f"{'':19} → {escape(answer.advice)}", soft_wrap=True)
        given.add(answer.advice)


def _facts(fitness: Fitness) -> list[tuple[str, str]]:
    counts = fitness.counts
    dropped = ", ".join(f"{reason} {count:,}" for reason, count in counts.dropped) or "none"
    facts = [
        ("records", f"{counts.used:,} of {counts.records:,} used; dropped: {dropped}"),
        ("time span", f"{fitness.window.seconds:.3f} s from {_clock(fitness.window.start_ns)}"),
        ("rate", f"{fitness.records_per_second:,.0f} records/s, {8e-9 * fitness.bytes_per_second:,.2f} Gb/s"),
        ("pairs", f"{fitness.pairs:,} between {fitness.addresses:,} addresses"),
        ("per busy pair", _per_pair(fitness.records_per_pair_and_second)),
        ("record length", f"half of the bytes in records up to {fitness.typical_record_ns / 1e6:,.3f} ms"),
        ("folded", f"{fitness.folded_share:.1%} of the bytes in records longer than 1 s"),
        ("resolution", f"{fitness.timestamp_resolution_ns:,} ns"),
        ("sampling", f"1 in {fitness.sampling}" if fitness.sampling else "none seen"),
        ("duplicates", f"{fitness.duplicate_share:.1%} of the records"),
        ("ports known", f"{fitness.port_share:.0%} of the records"),
        ("paths known", f"{fitness.path_share:.0%} of the bytes"),
    ]
    facts += _clocks(fitness)
    facts += _packets(fitness.packets)
    if fitness.unknown_share is None:
        facts.append(("not in topology", "not known: no topology given"))
    else:
        names = ", ".join(fitness.unknown_addresses[:5]) or "none"
        facts.append(("not in topology", f"{fitness.unknown_share:.1%} of the bytes: {names}"))
    return facts


def _clock(time_ns: int) -> str:
    from datetime import UTC, datetime, timedelta

    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // 1000)
    except OverflowError:
        return f"{time_ns} ns"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _per_pair(rate: float) -> str:
    return f"{rate:,.1f} records/s" if rate >= 1 else f"{60 * rate:.3g} records/minute"


def _clocks(fitness: Fitness) -> list[tuple[str, str]]:
    if fitness.clock_offsets:
        return [
            ("clock skew", f"{one.exporter} {one.offset_ns / 1e6:+.3f} ms against {one.reference} ({one.transfers:,})")
            for one in fitness.clock_offsets
        ]
    if fitness.exporters < 2:
        return [("clock skew", "none: one exporter" if fitness.exporters else "not known: no exporter is named")]
    return [("clock skew", f"not known: no transfer was reported by two of {fitness.exporters} exporters")]


def _packets(packets: PacketFitness | None) -> list[tuple[str, str]]:
    if packets is None:
        return [("capture loss", "not known: records, not packets")]
    facts = [
        ("packets", f"{packets.packets:,}, {packets.retransmitted:,} of them sent again"),
        ("capture loss", f"{packets.loss:.3%} of the packets (gaps in sequence numbers that nothing filled)"),
    ]
    if packets.messages:
        unsure = f"{packets.estimated:,} sizes estimated, {packets.cut:,} cut by the start or end of the capture"
        facts.append(("RDMA messages", f"{packets.messages:,}: {unsure}"))
    if packets.notifications or packets.negative:
        facts.append(("congestion", f"{packets.notifications:,} CNPs, {packets.negative:,} NAKs"))
        facts += [("", _complaints(one)) for one in packets.congested[:3] if one.notifications or one.negative]
    return facts


def _complaints(pair: CongestedPair) -> str:
    counts = f"{pair.notifications:,} CNPs, {pair.negative:,} NAKs, {pair.retransmitted:,} packets sent again"
    return f"{pair.src} → {pair.dst}: {counts}"
