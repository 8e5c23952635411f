"""`llmprism topology`: build topology.json from what operators have, and check it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from llmprism.ingest.topologies import HostFiles
    from llmprism.model.topology import Topology

__all__ = ["app"]

app = typer.Typer(help="Build topology.json from LLDP, Slurm, CSV or Ansible, and check it.", no_args_is_help=True)


class Kind(StrEnum):
    LLDP = "lldp"
    SLURM = "slurm"
    CSV = "csv"
    ANSIBLE = "ansible"


@app.command()
def build(
    kind: Annotated[Kind, typer.Argument(help="What SOURCE is.")],
    source: Annotated[Path, typer.Argument(help="A file; for lldp a folder of HOST.lldp.json and HOST.addr.json.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The topology.json to write.")],
    hosts: Annotated[Path | None, typer.Option(help="slurm: a hosts file with the address of every NIC.")] = None,
) -> None:
    """Build a topology file.

    Examples:

      llmprism topology build slurm /etc/slurm/topology.conf --hosts hosts -o topology.json

      llmprism topology build csv nics.csv -o topology.json
    """
    from llmprism.ingest.topology import write_topology

    topology = _build(kind, source, hosts)
    write_topology(topology, output)
    nics = sum(len(server.nics) for server in topology.servers)
    typer.echo(f"{len(topology.servers)} servers, {nics} NICs, {len(topology.switches)} switches in {output}", err=True)


@app.command()
def check(
    topology: Annotated[Path, typer.Argument(help="The topology.json to check.")],
    flows: Annotated[list[str] | None, typer.Argument(help="Flow records to compare it with.")] = None,
) -> None:
    """Check a topology file, alone or against flows. Exits with 1 where something is wrong.

    Example:

      llmprism topology check topology.json flows.parquet
    """
    from llmprism.ingest import read_flows, read_topology
    from llmprism.ingest.topology_check import check_topology

    problems = check_topology(read_topology(topology), read_flows(flows) if flows else None)
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(1)
    typer.echo("nothing wrong found")


def _build(kind: Kind, source: Path, hosts: Path | None) -> Topology:
    from llmprism.ingest import topologies
    from llmprism.ingest.topology import read_text

    if kind is Kind.LLDP:
        return topologies.topology_from_lldp(_host_files(source), str(source))
    text = read_text(source)
    if kind is Kind.SLURM:
        addresses = topologies.parse_hosts(read_text(hosts)) if hosts else {}
        return topologies.topology_from_slurm(text, addresses, str(source))
    if kind is Kind.CSV:
        return topologies.topology_from_csv(text, str(source))
    return topologies.topology_from_inventory(text, str(source))


def _host_files(folder: Path) -> dict[str, HostFiles]:
    from llmprism.ingest.topologies import HostFiles
    from llmprism.ingest.topology import read_text

    names = sorted(file.name.removesuffix(".lldp.json") for file in folder.glob("*.lldp.json"))
    return {
        name: HostFiles(read_text(folder / f"{name}.lldp.json"), read_text(folder / f"{name}.addr.json"))
        for name in names
    }
