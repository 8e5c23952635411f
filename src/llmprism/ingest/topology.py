"""topology.json → Topology, checked strictly: every complaint names the file and the place in the document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmprism import limits
from llmprism.errors import InputError, TopologyError
from llmprism.model.topology import Nic, Server, Switch, Topology

__all__ = ["parse_topology", "read_text", "read_topology", "write_topology"]

Json = dict[str, Any]


def read_topology(path: str | Path) -> Topology:
    """Reads and checks a topology file of the contract. Raises TopologyError (or InputError if there is no file)."""
    text = read_text(path)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"{path}: not JSON ({' '.join(str(error).split())[:160]})") from None
    return parse_topology(document, str(path))


def read_text(path: str | Path) -> str:
    """The text of a file that describes a network, within the cap on its size."""
    file = Path(path)
    try:
        if file.stat().st_size > limits.MAX_TOPOLOGY_BYTES:
            raise TopologyError(f"{file}: larger than {limits.MAX_TOPOLOGY_BYTES} bytes; this is no topology file")
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{file}: no such topology file") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise TopologyError(f"{file}: not UTF-8 text; expected the description of a network") from None


def write_topology(topology: Topology, path: str | Path) -> None:
    """Writes the contract's form; checks it first, so that whatever is written can be read."""
    document = {
        "servers": [
            {
                "name": server.name,
                "nics": [{"address": nic.address, "gpu": nic.gpu, "switch": nic.switch} for nic in server.nics],
            }
            for server in topology.servers
        ],
        "switches": [{"name": switch.name, "tier": switch.tier} for switch in topology.switches],
    }
    parse_topology(document, str(path))
    try:
        Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def parse_topology(document: object, origin: str) -> Topology:
    """A Topology from a parsed document; `origin` names it in errors."""
    root = _object(document, origin, "$", {"servers", "switches"})
    servers = tuple(_server(entry, origin, where) for entry, where in _entries(root, "servers", origin, "$"))
    switches = tuple(_switch(entry, origin, where) for entry, where in _entries(root, "switches", origin, "$"))
    if not servers and not switches:
        raise TopologyError(f"{origin}: $: names no server and no switch")
    _check_unique((server.name for server in servers), "server", origin)
    _check_unique((switch.name for switch in switches), "switch", origin)
    _check_unique((nic.address for server in servers for nic in server.nics), "address", origin)
    return Topology(servers, switches)


def _server(entry: object, origin: str, where: str) -> Server:
    fields = _object(entry, origin, where, {"name", "nics"})
    nics = tuple(_nic(nic, origin, place) for nic, place in _entries(fields, "nics", origin, where))
    return Server(_name(fields, "name", origin, where), nics)


def _nic(entry: object, origin: str, where: str) -> Nic:
    fields = _object(entry, origin, where, {"address"})
    gpu = fields.get("gpu")
    if gpu is not None and (not isinstance(gpu, int) or isinstance(gpu, bool) or gpu < 0):
        raise TopologyError(f"{origin}: {where}.gpu: expected a number from 0 or null, found {_short(gpu)}")
    return Nic(_name(fields, "address", origin, where), gpu, _optional_name(fields, "switch", origin, where))


def _switch(entry: object, origin: str, where: str) -> Switch:
    fields = _object(entry, origin, where, {"name"})
    return Switch(_name(fields, "name", origin, where), _optional_name(fields, "tier", origin, where))


def _entries(fields: Json, key: str, origin: str, where: str) -> Iterator[tuple[object, str]]:
    """The items of a list, each with its place; an absent `switches` is an empty list."""
    items = fields.get(key, [])
    if not isinstance(items, list):
        raise TopologyError(f"{origin}: {where}.{key}: expected a list, found {_short(items)}")
    for index, item in enumerate(items):
        yield item, f"{where}.{key}[{index}]"


def _object(value: object, origin: str, where: str, known: set[str]) -> Json:
    if not isinstance(value, dict):
        expected = ", ".join(sorted(known))
        raise TopologyError(f"{origin}: {where}: expected an object with {expected}, found {_short(value)}")
    return value


def _name(fields: Json, key: str, origin: str, where: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value or len(value) > limits.MAX_ADDRESS_CHARS:
        raise TopologyError(f"{origin}: {where}.{key}: expected a short text, found {_short(value)}")
    return value


def _optional_name(fields: Json, key: str, origin: str, where: str) -> str | None:
    return None if fields.get(key) is None else _name(fields, key, origin, where)


def _check_unique(names: Iterator[str], what: str, origin: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TopologyError(f"{origin}: the {what} {_short(name)} appears twice; each may appear once")
        seen.add(name)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
