"""A CSV of NICs → Topology: columns server, address and, where known, gpu, switch and tier (of the switch)."""

from __future__ import annotations

import csv
import io
from typing import Final

from llmprism import limits
from llmprism.errors import TopologyError
from llmprism.model.topology import Nic, Server, Switch, Topology

__all__ = ["topology_from_csv"]

REQUIRED: Final = ("server", "address")


def topology_from_csv(text: str, origin: str) -> Topology:
    reader = csv.DictReader(io.StringIO(text))
    try:
        names = [name.strip().lower() for name in reader.fieldnames or ()]
    except csv.Error as error:
        raise TopologyError(f"{origin}: not CSV ({error})") from None
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise TopologyError(f"{origin}: no column {missing[0]!r}; expected server,address,gpu,switch,tier")
    reader.fieldnames = names
    servers: dict[str, list[Nic]] = {}
    tiers: dict[str, str | None] = {}
    try:
        for row in reader:
            place = f"{origin}: line {reader.line_num}"
            values = {name: (row.get(name) or "").strip() for name in names}
            server, nic = _nic(values, place)
            servers.setdefault(server, []).append(nic)
            if nic.switch is not None:
                tiers[nic.switch] = values.get("tier") or tiers.get(nic.switch)
    except csv.Error as error:
        raise TopologyError(f"{origin}: not CSV ({error})") from None
    nodes = tuple(Server(name, tuple(nics)) for name, nics in sorted(servers.items()))
    return Topology(nodes, tuple(Switch(name, tier) for name, tier in sorted(tiers.items())))


def _nic(values: dict[str, str], place: str) -> tuple[str, Nic]:
    server, address, gpu = values.get("server", ""), values.get("address", ""), values.get("gpu", "")
    if not server or not address:
        raise TopologyError(f"{place}: server and address must not be empty")
    if max(len(server), len(address), len(values.get("switch", ""))) > limits.MAX_ADDRESS_CHARS:
        raise TopologyError(f"{place}: a name longer than {limits.MAX_ADDRESS_CHARS} characters")
    if gpu and not (gpu.isdecimal() and gpu.isascii()):
        raise TopologyError(f"{place}: gpu must be a number, found {gpu[:40]!r}")
    return server, Nic(address, int(gpu[:9]) if gpu else None, values.get("switch") or None)
