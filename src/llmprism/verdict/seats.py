"""Who is who: which address of the flows each rank of a log has.

From the surest evidence down: a list of ranks that somebody gave; the address that the rank printed as its own
(NCCL's bootstrap and socket lines); its host, by name or address, and its number on that host; and, where the log
says nothing of the kind, the order in which launchers hand out ranks. Hosts are filled one after the other (Slurm's
block, mpirun by slot; torchrun sorts their names as text) or in turn (Slurm's cyclic, mpirun by node). An order is a
guess: it is checked against the ranks that are known, against the peers that ranks name (nobody names itself), and
against how the steps of ranks and addresses vary (`fingerprint`) and against the layout (`layout_orders`, which adds
orders of its own), and its confidence says what came of it. What cannot be matched stays unmatched.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from llmprism.arrays import Float64
from llmprism.logs.view import JobView, RankView
from llmprism.model.topology import Topology
from llmprism.model.verdict import Seat
from llmprism.verdict.fingerprint import order_support
from llmprism.verdict.layout_orders import NO_SIGNS, MeshSigns
from llmprism.verdict.rank_file import RankList
from llmprism.verdict.rules import RULES, SeatRules

__all__ = ["FlowMembers", "find_seats", "host_of", "natural", "short_host"]


@dataclass(frozen=True, slots=True)
class FlowMembers:
    """The members of a job of the flows: addresses in the order of the job, with what the topology knows of them.

    `apart` holds the differences of step times between ranks and members (`fingerprint.step_differences`), `mesh` what
    the layout says of the order of ranks.
    """

    addresses: tuple[str, ...]
    topology: Topology | None = None
    listed: RankList | None = None
    apart: Float64 | None = None
    rules: SeatRules = RULES.seats
    mesh: MeshSigns = NO_SIGNS


@dataclass(slots=True)
class _Seating:
    found: dict[int, tuple[str, float, str]] = field(default_factory=dict)

    def put(self, actor: int, address: str, confidence: float, why: str) -> None:
        self.found.setdefault(actor, (address, confidence, why))


def find_seats(view: JobView, members: FlowMembers) -> tuple[Seat, ...]:
    """A seat for every rank of the view, in its order."""
    draft = _Seating()
    _from_list(view, members, draft)
    _from_own_address(view, members, draft)
    _from_host(view, members, draft)
    _from_order(view, members, draft)
    _left_over(view, members, draft)
    seats = []
    several = len({rank.node for rank in view.ranks}) > 1  # a name that all hosts share names none
    for number, rank in enumerate(view.ranks):
        address, confidence, why = draft.found.get(number, (None, 0.0, "its logs name no address or host"))
        seats.append(Seat(rank.rank, rank.node if several else None, address, round(confidence, 3), why))
    return tuple(seats)


def short_host(name: str) -> str:
    """A host's name without its domain, in lower case; an address stays whole."""
    name = name.strip().lower()
    return name if re.fullmatch(r"[\d.:a-f]+", name) else name.split(".", 1)[0]


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts `node10` after `node9` and addresses by their numbers."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text) if part)


def host_of(view: JobView, seats: tuple[Seat, ...], topology: Topology | None) -> tuple[str, ...]:
    """The host of every rank: its server in the topology, the node its logs name, or its address."""
    servers = topology.server_of() if topology else {}
    several = len({rank.node for rank in view.ranks if rank.node}) > 1
    hosts = []
    for rank, seat in zip(view.ranks, seats, strict=True):
        server = servers.get(seat.address) if seat.address else None
        node = rank.node if several else None
        label = f"rank {rank.rank}" if rank.rank is not None else rank.node or "unknown host"
        hosts.append(server or node or seat.address or label)
    return tuple(hosts)


def _from_list(view: JobView, members: FlowMembers, draft: _Seating) -> None:
    if members.listed is None:
        return
    known = set(members.addresses)
    for number, rank in enumerate(view.ranks):
        address = members.listed.rank_address.get(rank.rank) if rank.rank is not None else None
        if address in known:
            draft.put(number, str(address), 1.0, "the list of ranks says so")


def _from_own_address(view: JobView, members: FlowMembers, draft: _Seating) -> None:
    known = set(members.addresses)
    owners: dict[str, list[int]] = defaultdict(list)
    for number, rank in enumerate(view.ranks):
        for address in {*rank.addresses, *_addresses_in_name(rank.node)}:
            if address in known:
                owners[address].append(number)
    shared = _ranks_per_member(view, members)
    for address, actors in owners.items():
        if len(actors) <= shared:
            for actor in actors:
                draft.put(actor, address, members.rules.own_address, "its log prints this address as its own")


def _addresses_in_name(node: str | None) -> set[str]:
    """`ip-10-0-3-7.ec2.internal` and a node that is called by its address."""
    if not node:
        return set()
    match = re.match(r"ip-(\d{1,3})-(\d{1,3})-(\d{1,3})-(\d{1,3})\b", node)
    return {".".join(match.groups())} if match else {node}


def _ranks_per_member(view: JobView, members: FlowMembers) -> int:
    world = max(view.world or 0, len(view.ranks))
    return max(1, round(world / max(len(members.addresses), 1)))


def _from_host(view: JobView, members: FlowMembers, draft: _Seating) -> None:
    """Ranks whose host is known, by the number on their host."""
    of_host = _members_of_hosts(members)
    by_host: dict[str, list[int]] = defaultdict(list)
    for number, rank in enumerate(view.ranks):
        host = _host(rank, members, of_host)
        if host is not None:
            by_host[host].append(number)
    slots = members.topology.slot_of() if members.topology else {}
    shared = _ranks_per_member(view, members)
    for host, actors in by_host.items():
        addresses = sorted(of_host[host], key=lambda address: (slots.get(address, 0), natural(address)))
        actors.sort(key=lambda actor: (view.ranks[actor].rank is None, view.ranks[actor].rank or 0, actor))
        for place, actor in enumerate(actors):
            if len(addresses) == 1:
                draft.put(
                    actor, addresses[0], members.rules.host_alone, f"its host {host} has one address in the flows"
                )
                continue
            local = view.ranks[actor].local_rank
            seat = [one for one in addresses if local is not None and slots.get(one) == local]
            if seat:
                draft.put(actor, seat[0], members.rules.host_and_slot, f"it is process {local} on {host}")
            elif len(actors) <= shared * len(addresses) and place // shared < len(addresses):
                why = f"it is on {host}, whose ranks are taken in order"
                draft.put(actor, addresses[place // shared], members.rules.host_and_order, why)


def _members_of_hosts(members: FlowMembers) -> dict[str, list[str]]:
    """Addresses of the job by the host's short name."""
    known = set(members.addresses)
    found: dict[str, list[str]] = defaultdict(list)
    for server in members.topology.servers if members.topology else ():
        for nic in server.nics:
            if nic.address in known:
                found[short_host(server.name)].append(nic.address)
    for host, addresses in (members.listed.host_address if members.listed else {}).items():
        for address in addresses:
            if address in known and address not in found[short_host(host)]:
                found[short_host(host)].append(address)
    return {host: addresses for host, addresses in found.items() if addresses}


def _host(rank: RankView, members: FlowMembers, of_host: dict[str, list[str]]) -> str | None:
    names = [rank.node] if rank.node else []
    if members.listed is not None and rank.rank in members.listed.rank_host:
        names.insert(0, members.listed.rank_host[rank.rank])
    for name in names:
        if short_host(name) in of_host:
            return short_host(name)
    servers = members.topology.server_of() if members.topology else {}
    own = {short_host(servers[address]) for address in rank.addresses if address in servers}
    return own.pop() if len(own) == 1 and own <= set(of_host) else None


def _from_order(view: JobView, members: FlowMembers, draft: _Seating) -> None:
    """The ranks that are left, by the order that fits best."""
    world = max(view.world or 0, len(view.ranks))
    count = len(members.addresses)
    ranks, named = _numbers(view)
    rules = members.rules
    if not count or all(rank is None for rank in ranks) or (world % count and count % world):
        return
    index = {address: number for number, address in enumerate(members.addresses)}
    weights, best = rules.no_order * np.exp(rules.support_worth * _best_support(members)), None
    for name, prior, order in _orders(members):
        place = [-1 if rank is None or rank >= world else rank * count // world for rank in ranks]
        seats = [order[at] if at >= 0 else None for at in place]
        misses = sum(address != seats[actor] for actor, (address, _, _) in draft.found.items() if seats[actor])
        misses += sum(seat in rank.named for seat, rank in zip(seats, view.ranks, strict=True))
        hits = sum(address == seats[actor] for actor, (address, _, _) in draft.found.items())
        support = 0.0
        if members.apart is not None:
            of_rank = np.array([-1 if seat is None else index[seat] for seat in seats], dtype=np.int64)
            support += max(-rules.most_support, min(rules.most_support, order_support(members.apart, of_rank)))
        prior *= rules.numbered_names if named else 1.0
        known = count ** min(hits, rules.most_known) * rules.order_miss ** min(misses, rules.most_known)
        weight = prior * np.exp(rules.support_worth * support) * known
        weights += weight
        if best is None or weight > best[0]:
            best = (weight, name, seats)
    if best is None:
        return
    confidence = min(rules.order_cap, best[0] / weights)
    if confidence < rules.least_order:
        return
    for actor, seat in enumerate(best[2]):
        if seat is not None:
            draft.put(actor, seat, float(confidence), f"ranks are taken to be in the order {best[1]}")


def _numbers(view: JobView) -> tuple[list[int | None], bool]:
    """The rank of every actor; where no rank is known, the place of its name among all (`worker-0`, `worker-1`, ...:
    pods of Kubernetes, hosts of one process each). Second, whether names stand for ranks."""
    ranks = [rank.rank for rank in view.ranks]
    names = [rank.node for rank in view.ranks if rank.node]
    distinct = len(set(names)) == len(view.ranks) and all(re.search(r"\d", name) for name in names)
    if any(rank is not None for rank in ranks) or not distinct:
        return ranks, False
    order = {name: place for place, name in enumerate(sorted(names, key=natural))}
    return [order[rank.node or ""] for rank in view.ranks], True


def _best_support(members: FlowMembers) -> float:
    """What an order would have for support if every rank sat where its steps fit best, beyond what luck gives.

    Of the n! ways to seat ranks the luckiest is about sqrt(2 ln n!) standard deviations off the mean.
    """
    if members.apart is None:
        return 0.0
    apart = np.where(np.isfinite(members.apart), members.apart, np.inf)
    taken: set[int] = set()
    of_rank = np.full(apart.shape[0], -1, dtype=np.int64)
    for row in np.argsort(apart.min(axis=1)).tolist():
        for column in np.argsort(apart[row]).tolist():
            if column not in taken:
                of_rank[row] = column
                taken.add(column)
                break
    luck = math.sqrt(2 * math.lgamma(of_rank.size + 1))
    return max(0.0, min(members.rules.most_support, order_support(members.apart, of_rank) - luck))


def _orders(members: FlowMembers) -> list[tuple[str, float, list[str]]]:
    """(name, prior weight, addresses by rank) of the orders of launchers, and of those that the layout names."""
    launched, mesh, rules = _launched(members), members.mesh, members.rules
    by_mesh = mesh.orders(launched[0][2], rules.most_orders)
    share = rules.layout_order * mesh.sure / max(len(by_mesh), 1)
    supported = ((name, prior * mesh.support(order, rules.irregular), order) for name, prior, order in launched)
    return _merged(*supported, *((name, share, order) for name, order in by_mesh))


def _launched(members: FlowMembers) -> list[tuple[str, float, list[str]]]:
    """The orders in which launchers hand out ranks, the likeliest first."""
    known, rules = members.addresses, members.rules
    topology = members.topology
    servers = topology.server_of() if topology else {}
    if topology is None or not all(address in servers for address in known):
        last_first = sorted(known, key=lambda address: natural(address)[::-1])
        return [
            ("of the addresses", rules.address_order, sorted(known, key=natural)),
            ("of the addresses' ends", rules.address_end_order, last_first),
        ]
    slots = topology.slot_of()
    listed = {short_host(host): at for at, host in enumerate(members.listed.order)} if members.listed else {}

    def host(address: str) -> tuple[int, tuple[tuple[int, str], ...]]:
        return listed.get(short_host(servers[address]), len(listed)), natural(servers[address])

    def slot(address: str) -> tuple[int, tuple[tuple[int, str], ...]]:
        return slots.get(address, 0), natural(address)

    block = sorted(known, key=lambda address: (host(address), slot(address)))
    cyclic = sorted(known, key=lambda address: (slot(address)[0], host(address), slot(address)))
    # node10 before node2: torchrun's rendezvous sorts the nodes by their names as text
    as_text = sorted(known, key=lambda address: (servers[address], slot(address)))
    return [
        ("of the servers, one after the other", rules.listed_order if listed else rules.block_order, block),
        ("of the servers in turn", rules.cyclic_order, cyclic),
        ("of the servers' names as text, one after the other", rules.text_order, as_text),
    ]


def _merged(*orders: tuple[str, float, list[str]]) -> list[tuple[str, float, list[str]]]:
    """Orders that are the same on these members are one, as likely as all of them."""
    found: dict[tuple[str, ...], tuple[str, float]] = {}
    for name, weight, order in orders:
        first, before = found.get(tuple(order), (name, 0.0))
        found[tuple(order)] = (first, before + weight)
    return [(name, weight, list(order)) for order, (name, weight) in found.items()]


def _left_over(view: JobView, members: FlowMembers, draft: _Seating) -> None:
    """One rank and one address that are left when all others are matched."""
    ranks = [number for number in range(len(view.ranks)) if number not in draft.found]
    free = set(members.addresses) - {address for address, _, _ in draft.found.values()}
    if len(ranks) == 1 and len(free) == 1 and len(view.ranks) == len(members.addresses) > 1:
        draft.put(ranks[0], free.pop(), members.rules.left_over, "the only rank and the only address that were left")
