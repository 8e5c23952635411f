from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.logs.view import JobView
from llmprism.model.topology import Nic, Server, Topology
from llmprism.verdict.layout_orders import MeshSigns
from llmprism.verdict.rank_file import parse_rank_list
from llmprism.verdict.rules import RULES
from llmprism.verdict.seats import FlowMembers, find_seats, host_of, natural, short_host
from verdict_builders import job_view, rank_view, step_ends

ENDS = step_ends(20)


def cluster(servers: int = 2, gpus: int = 2) -> Topology:
    return Topology(
        tuple(
            Server(f"node{s:02d}", tuple(Nic(f"10.1{g}.{s}.1", g, f"leaf{g}") for g in range(gpus)))
            for s in range(servers)
        )
    )


def ranks(count: int, **more: object) -> JobView:
    return job_view([rank_view(rank, ENDS, **more) for rank in range(count)])


def addresses(topology: Topology) -> tuple[str, ...]:
    return tuple(sorted(nic.address for server in topology.servers for nic in server.nics))


def test_an_address_that_a_rank_prints_as_its_own_decides() -> None:
    topology = cluster()
    shuffled = ["10.11.1.1", "10.10.0.1", "10.11.0.1", "10.10.1.1"]
    view = job_view([rank_view(r, ENDS, addresses=("192.168.0.1", shuffled[r])) for r in range(4)])
    seats = find_seats(view, FlowMembers(addresses(topology), topology))
    assert [seat.address for seat in seats] == shuffled
    assert all(seat.confidence > 0.95 for seat in seats)


def test_ranks_of_one_host_print_one_address_and_differ_by_their_number() -> None:
    topology = cluster()
    view = job_view(
        [rank_view(r, ENDS, addresses=(f"10.10.{r // 2}.1",), local_rank=1 - r % 2, node="vm") for r in range(4)]
    )
    seats = find_seats(view, FlowMembers(addresses(topology), topology))
    assert [seat.address for seat in seats] == ["10.11.0.1", "10.10.0.1", "10.11.1.1", "10.10.1.1"]
    assert {seat.confidence for seat in seats} == {0.9}


@pytest.mark.parametrize("name", ["NODE{:02d}", "node{:02d}.cluster.local"])
def test_host_names_are_those_of_the_topology(name: str) -> None:
    topology = cluster()
    view = job_view([rank_view(r, ENDS, node=name.format(1 - r // 2)) for r in range(4)])
    seats = find_seats(view, FlowMembers(addresses(topology), topology))
    assert [seat.address for seat in seats] == ["10.10.1.1", "10.11.1.1", "10.10.0.1", "10.11.0.1"]
    assert host_of(view, seats, topology) == ("node01", "node01", "node00", "node00")
    assert all(0.5 < seat.confidence < RULES.place.sure_seat for seat in seats), "their order on the host is a guess"


def test_a_cloud_host_carries_its_address_in_its_name() -> None:
    view = job_view([rank_view(r, ENDS, node=f"ip-10-0-0-{9 - r}.ec2.internal") for r in range(2)])
    seats = find_seats(view, FlowMembers(("10.0.0.8", "10.0.0.9")))
    assert [seat.address for seat in seats] == ["10.0.0.9", "10.0.0.8"]


def test_a_list_of_ranks_is_believed_before_anything_else() -> None:
    view = ranks(2, addresses=("10.0.0.1",))
    listed = parse_rank_list("0 a 10.0.0.2\n1 b 10.0.0.1\n")
    seats = find_seats(view, FlowMembers(("10.0.0.1", "10.0.0.2"), listed=listed))
    assert [(seat.address, seat.confidence) for seat in seats] == [("10.0.0.2", 1.0), ("10.0.0.1", 1.0)]


def test_without_a_word_the_usual_order_is_a_guess() -> None:
    topology = cluster()
    seats = find_seats(ranks(4), FlowMembers(addresses(topology), topology))
    assert [seat.address for seat in seats] == ["10.10.0.1", "10.11.0.1", "10.10.1.1", "10.11.1.1"]
    assert {seat.confidence for seat in seats} == {0.64}


def test_an_order_of_hosts_that_somebody_gave_is_believed() -> None:
    topology = cluster()
    listed = parse_rank_list("node01\nnode00\n")
    seats = find_seats(ranks(4), FlowMembers(addresses(topology), topology, listed=listed))
    assert [seat.address for seat in seats] == ["10.10.1.1", "10.11.1.1", "10.10.0.1", "10.11.0.1"]
    assert seats[0].confidence > 0.5


def test_orders_that_come_to_the_same_add_up() -> None:
    """With one address per server, and names that sort alike as text, all launchers hand out ranks in one order."""
    one_each, two_each = cluster(4, 1), cluster(4, 2)
    alike = find_seats(ranks(4), FlowMembers(addresses(one_each), one_each))
    apart = find_seats(ranks(8), FlowMembers(addresses(two_each), two_each))
    assert alike[0].confidence > apart[0].confidence


def test_what_is_known_of_some_ranks_chooses_the_order_of_the_others() -> None:
    topology = cluster(4, 2)
    first, second = "10.10.1.1", "10.10.3.1"  # ranks 1 and 3 where hosts are filled in turn
    view = ranks(8)
    known = {1: first, 3: second}
    view = replace(
        view,
        ranks=tuple(replace(rank, addresses=(known[n],)) if n in known else rank for n, rank in enumerate(view.ranks)),
    )
    seats = find_seats(view, FlowMembers(addresses(topology), topology))
    assert [seat.address for seat in seats[:5]] == ["10.10.0.1", first, "10.10.2.1", second, "10.11.0.1"]
    assert seats[0].confidence > 0.8


def test_names_of_hosts_may_be_sorted_as_text() -> None:
    """node10 before node2, as torchrun's rendezvous has it; one rank that is known says which it is."""
    nodes = [f"node{number}" for number in (1, 2, 10)]
    topology = Topology(tuple(Server(name, (Nic(f"10.0.{at}.1", 0, "leaf"),)) for at, name in enumerate(nodes)))
    view = ranks(3)
    guessed = find_seats(view, FlowMembers(addresses(topology), topology))
    assert [seat.address for seat in guessed] == ["10.0.0.1", "10.0.1.1", "10.0.2.1"]
    view = replace(view, ranks=(view.ranks[0], replace(view.ranks[1], addresses=("10.0.2.1",)), view.ranks[2]))
    seats = find_seats(view, FlowMembers(addresses(topology), topology))
    assert [seat.address for seat in seats] == ["10.0.0.1", "10.0.2.1", "10.0.1.1"]


def test_nobody_names_itself_as_a_peer() -> None:
    topology = cluster()
    view = ranks(4)
    view = replace(view, ranks=(replace(view.ranks[0], named=("10.10.0.1",)), *view.ranks[1:]))
    seats = find_seats(view, FlowMembers(addresses(topology), topology))
    assert seats[0].address is None


def test_timing_chooses_between_orders() -> None:
    topology = cluster(4, 2)
    members = addresses(topology)  # by rail: 10.10.0.1, 10.10.1.1, ...
    apart = np.full((8, 8), 5e6)
    for rank, member in enumerate(range(8)):
        apart[rank, member] = 1e5
    seats = find_seats(ranks(8), FlowMembers(members, topology, apart=apart))
    assert [seat.address for seat in seats] == list(members)


def test_more_ranks_than_addresses_share_them_in_order() -> None:
    view = job_view([rank_view(r, ENDS, node=f"node{r // 4:02d}") for r in range(8)])
    topology = cluster(2, 1)
    seats = find_seats(view, FlowMembers(addresses(topology), topology))
    assert [seat.address for seat in seats] == ["10.10.0.1"] * 4 + ["10.10.1.1"] * 4
    assert all(RULES.place.sure_seat < seat.confidence < 1 for seat in seats), "the host has no other address"


def test_the_last_rank_gets_the_last_address() -> None:
    members = ("10.0.0.1", "10.0.0.5", "10.0.0.9")
    view = ranks(3)
    printed = ("10.0.0.9", "10.0.0.1")
    view = replace(view, ranks=(*(replace(view.ranks[n], addresses=(printed[n],)) for n in range(2)), view.ranks[2]))
    seats = find_seats(view, FlowMembers(members))
    assert (seats[2].address, seats[2].confidence) == ("10.0.0.5", 0.8)


def test_counts_that_do_not_fit_leave_ranks_unmatched() -> None:
    seats = find_seats(ranks(3), FlowMembers(("10.0.0.1", "10.0.0.2")))
    assert all(seat.address is None and seat.confidence == 0 for seat in seats)


def test_names_are_compared_as_people_read_them() -> None:
    assert sorted(["node10", "node9"], key=natural) == ["node9", "node10"]
    assert short_host("Node1.Example.COM") == "node1"
    assert short_host("10.0.0.1") == "10.0.0.1"


def test_numbers_in_names_of_pods_stand_for_ranks_that_nobody_prints() -> None:
    topology = cluster(11, 1)
    view = job_view([rank_view(None, ENDS, node=f"llama-worker-{number}") for number in (10, *range(10))])
    seats = find_seats(view, FlowMembers(addresses(topology), topology))
    assert seats[0].address == "10.10.10.1"
    assert seats[1].address == "10.10.0.1"
    assert 0.25 < seats[0].confidence < 0.62


def test_ranks_of_a_pipeline_sit_in_the_order_of_its_stages_wherever_their_hosts_are() -> None:
    """Pods of Kubernetes sit on hosts in no order, and their logs name no address."""
    topology = cluster()
    members = addresses(topology)
    stages = (members[2], members[0], members[3], members[1])
    flows = FlowMembers(members, topology, mesh=MeshSigns(pipelines=(stages,), sure=0.97))
    seats = find_seats(ranks(4), flows)
    assert tuple(seat.address for seat in seats) == stages
    assert all(0.5 < seat.confidence <= RULES.seats.order_cap for seat in seats)


def test_an_order_that_the_ring_follows_is_surer_and_one_that_it_does_not_is_not_used() -> None:
    topology = cluster(servers=6, gpus=1)
    members = addresses(topology)
    alone, *_ = find_seats(ranks(6), FlowMembers(members, topology))
    (follows, *_), (other, *_) = (
        find_seats(ranks(6), FlowMembers(members, topology, mesh=MeshSigns((), (ring,), (ring,), 0.97)))
        for ring in (members, (members[0], members[3], members[1], members[5], members[2], members[4]))
    )
    assert alone.address == follows.address == members[0]
    assert follows.confidence > alone.confidence
    assert other.address is None, "which rank the ring begins with is not known"
