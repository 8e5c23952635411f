"""An Ansible inventory → Topology.

Either what `ansible-inventory --list` prints (which reads inventories of every kind), or an INI inventory. A
host's NICs are the list `llmprism_nics` of objects with address, gpu and switch; without it, `ansible_host` is its one
address. In INI, `llmprism_nics=10.0.0.1,10.1.0.1` gives addresses only.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, Final

from llmprism.errors import TopologyError
from llmprism.ingest.topology import parse_topology
from llmprism.model.topology import Topology

__all__ = ["topology_from_inventory"]

NICS: Final = "llmprism_nics"


def topology_from_inventory(text: str, origin: str) -> Topology:
    hosts = _json_hosts(text, origin) if text.lstrip().startswith("{") else _ini_hosts(text, origin)
    servers = [{"name": name, "nics": nics} for name, nics in sorted(hosts.items()) if nics]
    if not servers:
        raise TopologyError(f"{origin}: no host with {NICS} or ansible_host")
    names = {nic["switch"] for nics in hosts.values() for nic in nics if isinstance(nic.get("switch"), str)}
    switches = [{"name": name, "tier": "leaf"} for name in sorted(names)]
    return parse_topology({"servers": servers, "switches": switches}, origin)


def _json_hosts(text: str, origin: str) -> dict[str, list[dict[str, Any]]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"{origin}: not JSON ({' '.join(str(error).split())[:120]})") from None
    meta = document.get("_meta") if isinstance(document, dict) else None
    hosts = meta.get("hostvars") if isinstance(meta, dict) else None
    if not isinstance(hosts, dict):
        raise TopologyError(f"{origin}: no _meta.hostvars; expected the output of ansible-inventory --list")
    return {name: _nics(values, f"{origin}: {name}") for name, values in hosts.items()}


def _nics(values: Any, place: str) -> list[dict[str, Any]]:
    if not isinstance(values, dict):
        raise TopologyError(f"{place}: expected an object of variables")
    nics = values.get(NICS)
    if nics is None:
        address = values.get("ansible_host")
        return [{"address": address}] if address else []
    if not isinstance(nics, list) or not all(isinstance(nic, dict) for nic in nics):
        raise TopologyError(f"{place}: {NICS} must be a list of objects with address, gpu and switch")
    return nics


def _ini_hosts(text: str, origin: str) -> dict[str, list[dict[str, Any]]]:
    hosts: dict[str, list[dict[str, Any]]] = {}
    is_hosts = True
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise TopologyError(f"{origin}: line {number}: {error}") from None
        if not words:
            continue
        if words[0].startswith("["):
            is_hosts = ":" not in words[0]
        elif is_hosts:
            variables = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            listed = variables.get(NICS) or variables.get("ansible_host") or ""
            if listed:
                hosts[words[0]] = [{"address": address} for address in filter(None, listed.split(","))]
    return hosts
