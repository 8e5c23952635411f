"""`llmprism convert`: packets and collectors' output → flow records in Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from llmprism.ingest.convert import Conversion

__all__ = ["convert"]


def convert(
    sources: Annotated[
        list[str], typer.Argument(help='Packet captures, collector files or globs; "-" is standard input.')
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The Parquet file to write.")],
    map_columns: Annotated[
        list[str] | None, typer.Option("--map", help="Columns by other names: start_ns=ts:ms,bytes=octets.")
    ] = None,
    map_file: Annotated[Path | None, typer.Option("--map-file", help="The same as a TOML file.")] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", help="Force a format or collector instead of telling it from the content.")
    ] = None,
    gap_us: Annotated[
        float, typer.Option(help="Pause in microseconds that ends a record made of TCP packets.")
    ] = 500.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Convert packet captures (pcap, pcapng) or collectors' output to flow records.

    Examples:

      llmprism convert capture.pcapng -o flows.parquet

      tcpdump -i eth0 -s 128 -w - | llmprism convert - -o flows.parquet

      llmprism convert nfcapd.2026* -o flows.parquet
    """
    from functools import partial

    from llmprism.cli.screen import progress_bar
    from llmprism.ingest import ColumnMapping
    from llmprism.ingest.convert import convert_flows

    mapping = ColumnMapping.from_file(map_file) if map_file else ColumnMapping()
    for text in map_columns or []:
        mapping = mapping.merged(ColumnMapping.parse(text))
    gap_ns = round(gap_us * 1_000)
    with progress_bar(quiet=quiet) as progress:
        reading = None if progress is None else partial(progress, "converting")
        result = convert_flows(
            sources, output, mapping=mapping, format=format_name, burst_gap_ns=gap_ns, progress=reading
        )
    if not quiet:
        _tell(result)


def _tell(result: Conversion) -> None:
    typer.echo(f"{result.counts.used:,} records in {result.out}", err=True)
    for reason, count in result.counts.dropped:
        typer.echo(f"  {count:,} left out: {reason}", err=True)
    for stats in result.packets:
        typer.echo(
            f"  {stats.packets:,} packets: {stats.decoded:,} used, {stats.retransmitted:,} retransmitted, "
            f"{stats.missing:,} gaps, {stats.truncated:,} too short, {stats.not_ip + stats.other:,} other",
            err=True,
        )
        if stats.messages:
            typer.echo(
                f"  {stats.messages:,} RDMA messages: {stats.estimated_messages:,} sizes estimated, "
                f"{stats.cut_messages:,} cut by the start or end of the capture",
                err=True,
            )
        if stats.congestion_notifications or stats.negative_acknowledgements:
            typer.echo(
                f"  congestion: {stats.congestion_notifications:,} CNPs, {stats.negative_acknowledgements:,} NAKs",
                err=True,
            )
        if stats.cut_off:
            typer.echo("  the capture ends inside a packet; what came before it was used", err=True)
