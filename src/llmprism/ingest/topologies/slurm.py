"""Slurm's topology.conf (also what NVIDIA's topograph writes) → Topology.

`SwitchName=leaf0 Nodes=node[00-15]` is a leaf, `SwitchName=spine0 Switches=leaf[0-3]` a spine. The file names nodes and
no NICs: their addresses come from a hosts file (`10.0.0.1 node00`, one line per NIC), or else the node's name is taken
as its address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmprism.errors import TopologyError
from llmprism.ingest.topologies.hostlist import expand_hostlist
from llmprism.model.topology import Nic, Server, Switch, Topology

__all__ = ["parse_hosts", "topology_from_slurm"]


def topology_from_slurm(text: str, hosts: Mapping[str, Sequence[str]], origin: str) -> Topology:
    """`hosts` maps a node to the addresses of its NICs; see `parse_hosts`."""
    switches: list[Switch] = []
    switch_of: dict[str, str] = {}
    for number, line in _lines(text):
        place = f"{origin}: line {number}"
        fields = _fields(line, place)
        name = fields.get("switchname")
        if name is None:
            continue
        nodes = expand_hostlist(fields.get("nodes", ""), place)
        children = expand_hostlist(fields.get("switches", ""), place)
        if not nodes and not children:
            raise TopologyError(f"{place}: the switch {name!r} has neither Nodes nor Switches")
        for switch in expand_hostlist(name, place):
            switches.append(Switch(switch, "leaf" if nodes else "spine"))
            switch_of.update(dict.fromkeys(nodes, switch))
    if not switches:
        raise TopologyError(f"{origin}: no SwitchName line; expected Slurm's topology.conf")
    servers = tuple(
        Server(node, tuple(Nic(address, None, switch) for address in hosts.get(node, (node,))))
        for node, switch in sorted(switch_of.items())
    )
    return Topology(servers, tuple(switches))


def parse_hosts(text: str) -> dict[str, list[str]]:
    """A hosts file: address, then names. A node with several NICs appears once per NIC."""
    hosts: dict[str, list[str]] = {}
    for _, line in _lines(text):
        address, *names = line.split()
        for name in names:
            hosts.setdefault(name, []).append(address)
    return hosts


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, continued lines joined, with their numbers."""
    joined = text.replace("\\\n", " ")
    stripped = ((number, line.split("#", 1)[0].strip()) for number, line in enumerate(joined.splitlines(), 1))
    return [(number, line) for number, line in stripped if line]


def _fields(line: str, place: str) -> dict[str, str]:
    fields = {}
    for item in line.split():
        key, equals, value = item.partition("=")
        if not equals:
            raise TopologyError(f"{place}: expected Key=Value, found {item[:60]!r}")
        fields[key.lower()] = value
    return fields
