"""Shares: no job spans two, every record is in one, and the cut does not depend on who asks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")

from llmprism.ingest import read_topology
from llmprism.model.flows import Window
from llmprism.model.topology import Nic, Server, Topology
from llmprism.service.workers.shares import decode_share, encode_share, plan_shares, read_share, seat_addresses
from support.workers import BEGIN_NS, busy_cluster

SERVERS, RAILS = 8, 3
TOPOLOGY = Topology(
    (
        *(Server(f"s{s}", tuple(Nic(f"{s}.{r}", gpu=r) for r in range(RAILS))) for s in range(SERVERS)),
        Server("storage", (Nic("disk"),)),
    )
)
ADDRESSES = [f"{s}.{r}" for s in range(SERVERS) for r in range(RAILS)] + ["disk", "stranger-1", "stranger-2"]
WHOLE = Window(BEGIN_NS - 1, BEGIN_NS + 10**12)


@given(
    pairs=st.lists(st.tuples(st.sampled_from(ADDRESSES), st.sampled_from(ADDRESSES)), min_size=1, unique=True),
    shares=st.integers(1, 5),
)
def test_nothing_that_belongs_together_is_cut(pairs, shares):
    src, dst = [a for a, _ in pairs], [b for _, b in pairs]
    seats = seat_addresses(src, dst, np.arange(1, len(pairs) + 1), TOPOLOGY, shares)
    assert set(seats) == {*src, *dst} - {"disk"}
    assert all(0 <= seat < shares for seat in seats.values())
    for a, b in pairs:
        assert seats.get(a, seats.get(b)) == seats.get(b, seats.get(a))
    places = TOPOLOGY.server_of()
    by_server = {}
    for name, seat in seats.items():
        assert by_server.setdefault(places.get(name, "stranger"), seat) == seat


def test_jobs_that_share_only_their_storage_are_dealt_out():
    src = ["0.0", "1.0", "2.0", "3.0", "0.0", "2.0"]
    dst = ["1.0", "0.0", "3.0", "2.0", "disk", "disk"]
    seats = seat_addresses(src, dst, np.full(6, 10), TOPOLOGY, 2)
    assert seats["0.0"] == seats["1.0"] != seats["2.0"] == seats["3.0"]


def test_the_heaviest_component_has_a_share_of_its_own():
    src, dst = ["0.0", "2.0", "4.0"], ["1.0", "3.0", "5.0"]
    seats = seat_addresses(src, dst, np.array([100, 1, 2]), TOPOLOGY, 2)
    assert seats["2.0"] == seats["4.0"] != seats["0.0"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shares")
    _, topology, records = busy_cluster(folder)
    return folder, read_topology(topology), records


def plan(cluster, window=WHOLE, topology="theirs", records=1000, only=None):
    folder, places, _ = cluster
    return plan_shares(
        folder, ["flows.parquet"], window, places if topology == "theirs" else topology, records=records, most=8,
        only=only,
    )  # fmt: skip


def test_every_record_is_in_one_share(cluster):
    folder, _, records = cluster
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


def test_without_a_topology_all_is_one_share(cluster):
    (share,) = plan(cluster, topology=None)
    assert share.addresses is None
    assert share.records == cluster[2]


def test_few_records_are_one_share(cluster):
    assert len(plan(cluster, records=10**9)) == 1


def test_a_look_at_some_addresses_reads_theirs_alone(cluster):
    members = [f"21.1{rail}.{server}.1" for rail in range(4) for server in range(2)]
    shares = plan(cluster, only=members)
    assert {name for share in shares for name in share.addresses} == set(members)
    tables = [read_share(cluster[0], share) for share in shares]
    assert {name for table in tables for name in table.addresses} == set(members)


def test_no_segment_is_no_share_and_a_bad_one_is_left_out(cluster, tmp_path):
    folder, topology, records = cluster
    assert plan_shares(tmp_path, ["gone.parquet"], WHOLE, topology, records=1000, most=8) == []
    (folder / "bad.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    shares = plan_shares(folder, ["bad.parquet", "flows.parquet"], WHOLE, topology, records=1000, most=8)
    assert sum(share.records for share in shares) == records
