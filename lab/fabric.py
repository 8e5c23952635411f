"""The fabric: hosts as network namespaces, switches as bridges inside one more namespace.

One leaf per rail and pod (or one per pod), one spine above them. All switches are in the namespace `<tag>f`, host i is
the namespace `<tag>h<i>` with the interface eth0; removing the namespaces removes everything. A host whose link is to
lose or delay frames gets a relay (relay.c) between its interface and the leaf's port: some kernels have no netem.
Addresses: 10.<10 + rail>.<server>.1; the storage server 10.250.0.1; neighbours 10.240.0.<n>.
"""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from typing import Any

from lab.scenario import Scenario, leaf_names

__all__ = ["Fabric", "Host", "build", "inside", "limit", "namespace_command", "place_ranks", "remove", "shell"]

STORAGE = "10.250.0.1"
TAG = "lp"
"""All namespaces of the lab begin so; `remove` takes no other."""


@dataclass(frozen=True, slots=True)
class Host:
    """`port` is the leaf's interface towards the host; `relay` its two inner ends where there is a relay."""

    index: int
    address: str
    namespace: str
    server: str
    gpu: int
    leaf: str
    port: str
    relay: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Fabric:
    """`hosts` are the GPUs' NICs by server; `others` storage and neighbours; `leaves` the addresses at each leaf."""

    tag: str
    switches: str
    hosts: tuple[Host, ...]
    others: tuple[Host, ...]
    leaves: dict[str, tuple[str, ...]]

    @property
    def storage(self) -> Host | None:
        return next((host for host in self.others if host.address == STORAGE), None)

    def topology(self) -> dict[str, Any]:
        """The topology file's content: GPU servers and switches."""
        servers: dict[str, list[dict[str, Any]]] = {}
        for host in self.hosts:
            nic = {"address": host.address, "gpu": host.gpu, "switch": host.leaf}
            servers.setdefault(host.server, []).append(nic)
        tiers = [{"name": leaf, "tier": "leaf"} for leaf in self.leaves] + [{"name": "spine0", "tier": "spine"}]
        return {"servers": [{"name": name, "nics": nics} for name, nics in servers.items()], "switches": tiers}

    def notes(self) -> dict[str, Any]:
        everyone = (*self.hosts, *self.others)
        return {"topology": self.topology(), "leaf_of": {host.address: host.leaf for host in everyone}}


def shell(*command: str, check: bool = True) -> str:
    """Runs a command; its error output is in the exception."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def inside(namespace: str, *command: str, check: bool = True) -> str:
    return shell("ip", "netns", "exec", namespace, *command, check=check)


def limit(namespace: str, device: str, rate: str) -> None:
    """Limits what leaves by a device; an empty rate lifts the limit."""
    if not rate:
        inside(namespace, "tc", "qdisc", "del", "dev", device, "root", check=False)
        return
    bucket = ("burst", "256kb", "latency", "200ms")
    inside(namespace, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, *bucket)


def remove(tag: str) -> None:
    """Removes the namespaces of a tag and, with them, every interface and bridge of the fabric."""
    for line in shell("ip", "netns", "list").splitlines():
        name = line.split(" ")[0]
        if name.startswith(tag) and tag.startswith(TAG):
            shell("ip", "netns", "del", name, check=False)


def build(scenario: Scenario, tag: str) -> Fabric:
    """Makes the fabric of a scenario; whatever the same tag left behind is removed first."""
    if not tag.startswith(TAG):
        raise RuntimeError(f"--tag {tag}: must begin with {TAG!r}, or nothing removes the namespaces again")
    remove(tag)
    spec = scenario.fabric
    switches = f"{tag}f"
    relayed = _relayed(scenario)
    hosts = _gpu_hosts(scenario, tag)
    leaves: dict[str, list[str]] = {}
    for host in hosts:
        leaves.setdefault(host.leaf, []).append(host.address)
    others = _other_hosts(scenario, tag, len(hosts), hosts[0].leaf)
    for host in others:
        leaves[host.leaf].append(host.address)
    shell("ip", "netns", "add", switches)
    for name in ("spine0", *leaves):
        inside(switches, "ip", "link", "add", name, "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
        inside(switches, "ip", "link", "set", name, "mtu", "9000", "up")
    for leaf in leaves:
        inside(switches, "ip", "link", "add", up_port(leaf), "type", "veth", "peer", "name", down_port(leaf))
        _plug(switches, up_port(leaf), leaf, bool(relayed))
        _plug(switches, down_port(leaf), "spine0", bool(relayed))
        for device in (up_port(leaf), down_port(leaf)) if spec.uplink_rate else ():
            limit(switches, device, spec.uplink_rate)
    placed = [_attach(switches, host, host.index in relayed, bool(relayed), spec.nic_rate) for host in hosts]
    more = [_attach(switches, host, False, bool(relayed), "") for host in others]
    return Fabric(tag, switches, tuple(placed), tuple(more), {leaf: tuple(held) for leaf, held in leaves.items()})


def up_port(leaf: str) -> str:
    return f"{leaf}u"


def down_port(leaf: str) -> str:
    return f"{leaf}d"


def _relayed(scenario: Scenario) -> set[int]:
    """Indices of hosts that need a relay, by the ranks' places."""
    places = place_ranks(scenario)
    return {places[fault.job][fault.rank] for fault in scenario.faults if fault.kind in ("delay", "loss")}


def place_ranks(scenario: Scenario) -> dict[str, list[int]]:
    """Host index of every rank of every job."""
    per_server = scenario.fabric.gpus_per_server
    everywhere = list(range(scenario.hosts))
    count = len(scenario.jobs)
    result: dict[str, list[int]] = {}
    begin = 0
    for j, job in enumerate(scenario.jobs):
        if scenario.interleave:
            unit = 1 if scenario.interleave == "gpu" else per_server
            mine = [host for host in everywhere if host // unit % count == j]
        else:
            mine = everywhere[begin : begin + job.ranks]
        begin += job.ranks
        servers = [mine[i : i + per_server] for i in range(0, len(mine), per_server)]
        if job.placement == "scattered":
            random.Random(job.seed).shuffle(servers)
        if job.placement == "stride":
            mine = [server[gpu] for gpu in range(per_server) for server in servers if gpu < len(server)]
        else:
            mine = [host for server in servers for host in server]
        result[job.name] = mine
    return result


def _gpu_hosts(scenario: Scenario, tag: str) -> list[Host]:
    spec = scenario.fabric
    hosts = []
    for i, leaf in enumerate(leaf_names(scenario)):
        server, gpu = divmod(i, spec.gpus_per_server)
        address = f"10.{10 + gpu}.{server}.1"
        hosts.append(Host(i, address, f"{tag}h{i}", f"server{server:02d}", gpu, leaf, f"p{i}"))
    return hosts


def _other_hosts(scenario: Scenario, tag: str, first: int, leaf: str) -> list[Host]:
    """Storage and neighbours hang on the first leaf."""
    addresses = [STORAGE] if scenario.fabric.storage else []
    extra = sum(1 + other.clients for other in scenario.neighbours if other.kind == "inference")
    addresses += [f"10.240.0.{n + 1}" for n in range(extra)]
    return [Host(first + n, ip, f"{tag}h{first + n}", "", 0, leaf, f"p{first + n}") for n, ip in enumerate(addresses)]


def _plug(switches: str, device: str, bridge: str, raw: bool) -> None:
    inside(switches, "ip", "link", "set", device, "mtu", "9000", "master", bridge, "up")
    if raw:
        _no_offload(switches, device)


def _no_offload(namespace: str, device: str) -> None:
    """A relay reads frames back as raw bytes: none may be larger than the MTU or without its checksum."""
    offloads = [word for name in ("tso", "gso", "gro", "tx") for word in (name, "off")]
    inside(namespace, "ethtool", "-K", device, *offloads, check=False)


def _attach(switches: str, host: Host, relayed: bool, raw: bool, rate: str) -> Host:
    shell("ip", "netns", "add", host.namespace)
    near = f"x{host.index}" if relayed else host.port
    inside(switches, "ip", "link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
    relay = None
    if relayed:
        relay = (near, f"y{host.index}")
        inside(switches, "ip", "link", "add", host.port, "type", "veth", "peer", "name", relay[1])
        for device in relay:
            inside(switches, "ip", "link", "set", device, "mtu", "9000", "up")
            _no_offload(switches, device)
    _plug(switches, host.port, host.leaf, raw)
    inside(host.namespace, "ip", "addr", "add", f"{host.address}/8", "dev", "eth0")
    inside(host.namespace, "ip", "link", "set", "eth0", "mtu", "9000", "up")
    inside(host.namespace, "ip", "link", "set", "lo", "up")
    if raw:
        _no_offload(host.namespace, "eth0")
    if rate:
        limit(host.namespace, "eth0", rate)
        limit(switches, host.port, rate)
    return Host(host.index, host.address, host.namespace, host.server, host.gpu, host.leaf, host.port, relay)


def namespace_command(namespace: str, *command: str) -> list[str]:
    """The command that runs another inside a namespace."""
    return ["ip", "netns", "exec", namespace, *command]
