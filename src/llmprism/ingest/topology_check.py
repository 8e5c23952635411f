"""What is wrong or suspicious in a topology, alone and against the flows it should describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from llmprism.ingest.rules import RULES, IngestRules
from llmprism.model.flows import FlowTable
from llmprism.model.topology import Topology

__all__ = ["check_topology"]

LISTED: Final = 5


def check_topology(topology: Topology, table: FlowTable | None = None, rules: IngestRules = RULES) -> list[str]:
    """Sentences, one per kind of problem; empty where there is none."""
    problems = [*_inside(topology)]
    if table is not None:
        problems += _against(topology, table, rules)
    return problems


def _inside(topology: Topology) -> Iterable[str]:
    declared = {switch.name for switch in topology.switches}
    used = set(topology.switch_of().values())
    without = [nic.address for server in topology.servers for nic in server.nics if nic.switch is None]
    yield from _say("servers have no NIC", [server.name for server in topology.servers if not server.nics])
    yield from _say("NICs have no switch", without)
    yield from _say("switches of NICs are not in the list of switches", sorted(used - declared))
    leaves = {switch.name for switch in topology.switches if switch.tier in (None, "leaf")}
    yield from _say("leaf switches have no NIC", sorted(leaves - used) if used else [])
    sizes = Counter(len(server.nics) for server in topology.servers if server.nics)
    if len(sizes) > 1:
        usual = sizes.most_common(1)[0][0]
        odd = [server.name for server in topology.servers if server.nics and len(server.nics) != usual]
        yield from _say(f"servers do not have {usual} NICs like the others", odd)
    twice = [
        server.name
        for server in topology.servers
        if max(Counter(nic.gpu for nic in server.nics if nic.gpu is not None).values(), default=1) > 1
    ]
    yield from _say("servers give one GPU two NICs", twice)


def _against(topology: Topology, table: FlowTable, rules: IngestRules) -> Iterable[str]:
    known = topology.server_of()
    yield from _say(
        "addresses in the flows are not in the topology", [name for name in table.addresses if name not in known]
    )
    seen = set(table.addresses)
    yield from _say("NICs of the topology never appear in the flows", [name for name in known if name not in seen])
    miscabled = _miscabled(topology, table, rules)
    yield from _say("NICs enter the network at another switch than the topology says", miscabled)


def _miscabled(topology: Topology, table: FlowTable, rules: IngestRules) -> list[str]:
    switch_of = topology.switch_of()
    first = [path[0] if path else "" for path in table.paths]
    entered: dict[int, Counter[str]] = {}
    for pair in range(table.pair_src.size):
        low, high = table.pair_offsets[pair], table.pair_offsets[pair + 1]
        paths, sizes = table.path[low:high], table.bytes[low:high]
        counter = entered.setdefault(int(table.pair_src[pair]), Counter())
        for path in np.unique(paths[paths >= 0]):
            counter[first[path]] += int(sizes[paths == path].sum())
    return [
        f"{name} (says {switch_of[name]}, enters at {counter.most_common(1)[0][0]})"
        for address, counter in sorted(entered.items())
        if (name := table.addresses[address]) in switch_of
        and counter
        and counter[switch_of[name]] < rules.fitness.miscabled_share * counter.total()
    ]


def _say(what: str, names: list[str]) -> Iterable[str]:
    if names:
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        yield f"{len(names)} {what}: {', '.join(names[:LISTED])}{more}"
