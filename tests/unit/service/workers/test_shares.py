"""Shares: no job spans two, every record is in one, and the cut does not depend on who asks."""

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")

from llmprism.ingest import read_topology
from llmprism.model.flows import Window
from llmprism.model.topology import Nic, Server, Topology
from llmprism.service.workers.places import STRANGER, address_places, mark_places, places_of
from llmprism.service.workers.shares import (
    MemberFilter,
    decode_share,
    encode_share,
    plan_shares,
    read_share,
    seat_places,
)
from support.workers import BEGIN_NS, busy_cluster

WHOLE = Window(BEGIN_NS - 1, BEGIN_NS + 10**12)
PLACES = st.integers(-1, 12)


@given(edges=st.lists(st.tuples(PLACES, PLACES), min_size=1, unique=True), shares=st.integers(1, 5))
def test_nothing_that_belongs_together_is_cut(edges, shares):
    place, peer = np.array(edges).T
    seats = seat_places(place, peer, np.arange(1, len(edges) + 1), shares)
    assert set(seats) == {*place.tolist(), *peer.tolist()}
    assert all(0 <= seat < shares for seat in seats.values())
    assert all(seats[a] == seats[b] for a, b in edges)


def test_the_heaviest_component_has_a_share_of_its_own():
    seats = seat_places(np.array([0, 2, 4]), np.array([1, 3, 5]), np.array([100, 1, 2]), 2)
    assert seats[2] == seats[4] != seats[0] == seats[1]


TOPOLOGY = Topology(
    (
        Server("s0", (Nic("a", gpu=0), Nic("b", gpu=1))),
        Server("s1", (Nic("c", gpu=0),)),
        Server("store", (Nic("disk"),)),
    )
)


def test_places_are_servers_and_storage_has_none():
    places = address_places(TOPOLOGY)
    assert places["a"] == places["b"] != places["c"]
    assert places["disk"] is None
    assert places_of(["a", "b", "disk", "nobody"], places) == [STRANGER, places["a"]]
    assert address_places(None) == {}
    bare = Topology((Server("s0", (Nic("a"),)),))
    assert address_places(bare)["a"] is not None, "a topology that names no GPU at all says nothing about storage"


def segment(folder, rows, topology):
    """A segment of (src, dst) records, one each."""
    file = folder / "small.parquet"
    values = ", ".join(f"({BEGIN_NS + i}, {BEGIN_NS + i + 1}, '{a}', '{b}', 9)" for i, (a, b) in enumerate(rows))
    with duckdb.connect() as connection:
        columns = "flow(start_ns, end_ns, src, dst, bytes)"
        connection.execute(f"COPY (SELECT * FROM (VALUES {values}) AS {columns}) TO '{file}' (FORMAT parquet)")
    mark_places(file, address_places(topology))
    return ["small.parquet"]


def test_jobs_that_share_only_their_storage_are_cut_apart(tmp_path):
    rows = [("a", "b"), ("a", "disk"), ("disk", "c"), ("c", "x"), ("y", "disk"), ("disk", "disk")]
    shares = plan_shares(tmp_path, segment(tmp_path, rows, TOPOLOGY), WHOLE, records=1, most=9)
    tables = [read_share(tmp_path, share) for share in shares]
    assert sorted(sorted({*table.addresses} - {"disk"}) for table in tables) == [["a", "b"], ["c", "x", "y"]]
    assert sum(table.counts.records for table in tables) == len(rows)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shares")
    _, topology, records = busy_cluster(folder)
    mark_places(folder / "flows.parquet", address_places(read_topology(topology)))
    return folder, records


def plan(cluster, window=WHOLE, records=1000, members=None):
    return plan_shares(cluster[0], ["flows.parquet"], window, records=records, most=8, members=members)


def test_every_record_is_in_one_share(cluster):
    folder, records = cluster
    shares = plan(cluster)
    assert len(shares) == 3
    assert shares == plan(cluster)
    tables = [read_share(folder, decode_share(encode_share(share))) for share in shares]
    assert [table.counts.records for table in tables] == [share.records for share in shares]
    assert sum(table.counts.records for table in tables) == records
    seen = [name for table in tables for name in table.addresses]
    assert len(seen) == len(set(seen)) == 24


def test_a_window_cuts_the_records_that_end_in_it(cluster):
    shares = plan(cluster, Window(BEGIN_NS + 10 * 10**9, BEGIN_NS + 11 * 10**9))
    flows = [read_share(cluster[0], share) for share in shares]
    ends = np.concatenate([table.end_ns for table in flows])
    assert ends.min() > BEGIN_NS + 10 * 10**9
    assert ends.max() <= BEGIN_NS + 11 * 10**9
    assert ends.size > 1000


def test_without_a_topology_all_is_one_share(tmp_path):
    (share,) = plan_shares(tmp_path, segment(tmp_path, [("a", "b"), ("c", "d")], None), WHOLE, records=1, most=9)
    assert share.places == (STRANGER,)
    assert share.records == 2


def test_few_records_are_one_share(cluster):
    assert len(plan(cluster, records=10**9)) == 1


def test_a_look_at_some_addresses_reads_theirs_alone(cluster):
    names = [f"21.1{rail}.{server}.1" for rail in range(4) for server in range(2)]
    topology = read_topology(cluster[0] / "topology.json")
    members = MemberFilter(tuple(names), tuple(places_of(names, address_places(topology))))
    tables = [read_share(cluster[0], share) for share in plan(cluster, members=members)]
    assert {name for table in tables for name in table.addresses} == set(names)
    assert sum(table.counts.records for table in tables) == 63_929


def test_no_segment_is_no_share_and_a_bad_one_is_left_out(cluster, tmp_path):
    folder, records = cluster
    assert plan_shares(tmp_path, ["gone.parquet"], WHOLE, records=1000, most=8) == []
    assert plan(cluster, Window(0, 1)) == []
    (folder / "bad.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    shares = plan_shares(folder, ["bad.parquet", "flows.parquet"], WHOLE, records=1000, most=8)
    assert sum(share.records for share in shares) == records
