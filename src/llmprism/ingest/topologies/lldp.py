"""What hosts hear from their switches (`lldpctl -f json`) → Topology.

LLDP says which switch an interface hangs on; the interface's own addresses come from `ip -j addr` of the same host.
Interfaces without a neighbour or without a global address are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmprism.errors import TopologyError
from llmprism.model.topology import Nic, Server, Switch, Topology

__all__ = ["HostFiles", "topology_from_lldp"]


@dataclass(frozen=True, slots=True)
class HostFiles:
    """The output of `lldpctl -f json` and of `ip -j addr` on one host."""

    lldp: str
    addresses: str


def topology_from_lldp(hosts: Mapping[str, HostFiles], origin: str) -> Topology:
    """`hosts` maps a server's name to what was collected on it."""
    servers: list[Server] = []
    switches: set[str] = set()
    for name, files in sorted(hosts.items()):
        place = f"{origin}: {name}"
        switch_of = _neighbours(_json(files.lldp, f"{place}: lldpctl"), f"{place}: lldpctl")
        addresses = _addresses(_json(files.addresses, f"{place}: ip addr"), f"{place}: ip addr")
        nics = tuple(
            Nic(address, None, switch_of[interface])
            for interface, address in sorted(addresses)
            if interface in switch_of
        )
        switches.update(nic.switch for nic in nics if nic.switch is not None)
        servers.append(Server(name, nics))
    if not switches:
        raise TopologyError(f"{origin}: no interface with both an LLDP neighbour and an address")
    return Topology(tuple(servers), tuple(Switch(name, "leaf") for name in sorted(switches)))


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"{place}: not JSON ({' '.join(str(error).split())[:120]})") from None


def _neighbours(document: Any, place: str) -> dict[str, str]:
    """Interface → name of the switch. lldpctl writes one interface as an object, several as a list of objects."""
    interfaces = document.get("lldp", {}) if isinstance(document, dict) else None
    interfaces = interfaces.get("interface", []) if isinstance(interfaces, dict) else None
    if isinstance(interfaces, dict):
        interfaces = [interfaces]
    if not isinstance(interfaces, list):
        raise TopologyError(f"{place}: expected lldp.interface, as `lldpctl -f json` writes it")
    found: dict[str, str] = {}
    for entry in interfaces:
        for interface, details in entry.items() if isinstance(entry, dict) else ():
            name = _chassis_name(details)
            if name is not None:
                found[interface] = name
    return found


def _chassis_name(details: Any) -> str | None:
    """The neighbour's name is a key of `chassis`; a neighbour without a name has only its `id` there."""
    chassis = details.get("chassis") if isinstance(details, dict) else None
    if not isinstance(chassis, dict):
        return None
    return next((name for name, value in chassis.items() if isinstance(value, dict) and name != "id"), None)


def _addresses(document: Any, place: str) -> list[tuple[str, str]]:
    if not isinstance(document, list):
        raise TopologyError(f"{place}: expected a list, as `ip -j addr` writes it")
    found: list[tuple[str, str]] = []
    for entry in document:
        infos = entry.get("addr_info") if isinstance(entry, dict) else None
        found += [
            (str(entry.get("ifname")), info["local"])
            for info in (infos if isinstance(infos, list) else ())
            if isinstance(info, dict) and info.get("scope") == "global" and isinstance(info.get("local"), str)
        ]
    return found
