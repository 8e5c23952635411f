"""Topologies from what operators have, and what the check says about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.errors import LLMPrismError, TopologyError
from llmprism.ingest import read_flows, read_topology
from llmprism.ingest.topologies import (
    HostFiles,
    parse_hosts,
    topology_from_csv,
    topology_from_inventory,
    topology_from_lldp,
    topology_from_slurm,
)
from llmprism.ingest.topologies.hostlist import expand_hostlist
from llmprism.ingest.topology import parse_topology, write_topology
from llmprism.ingest.topology_check import check_topology
from llmprism.model.topology import Topology

CAPTURES = Path(__file__).parents[3] / "../shared/data/captures"
SLURM = """
# two leaves under a spine
SwitchName=leaf0 Nodes=node[00-01]
SwitchName=leaf1 Nodes=node02,node[03]
SwitchName=spine0 Switches=leaf[0-1]
"""
LLDP = {
    "lldp": {
        "interface": [
            {"eth0": {"via": "LLDP", "chassis": {"leaf0": {"id": {"type": "mac", "value": "00:11"}}}, "port": {}}},
            {"eth1": {"via": "LLDP", "chassis": {"id": {"type": "mac", "value": "00:12"}}}},
        ]
    }
}
ADDRESSES = [
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "scope": "host"}]},
    {"ifname": "eth0", "addr_info": [{"local": "10.0.0.1", "scope": "global"}, {"local": "fe80::1", "scope": "link"}]},
]


def test_hostlist() -> None:
    assert expand_hostlist("a,b[00-02,7]c[1-2],d", "x") == (
        ["a"] + [f"b{n}c{m}" for n in ("00", "01", "02", "7") for m in (1, 2)] + ["d"]
    )
    for text in ("a[", "a[1-x]", "a[0-99999999]"):
        with pytest.raises(LLMPrismError, match="x: "):
            expand_hostlist(text, "x")


def test_slurm() -> None:
    topology = topology_from_slurm(SLURM, parse_hosts("10.0.0.1 node00\n10.1.0.1 node00 # rail 1\n"), "topology.conf")
    assert topology.server_of()["10.1.0.1"] == "node00"
    assert topology.switch_of() == {
        "10.0.0.1": "leaf0",
        "10.1.0.1": "leaf0",
        "node01": "leaf0",
        "node02": "leaf1",
        "node03": "leaf1",
    }
    assert topology.tier_of() == {"leaf0": "leaf", "leaf1": "leaf", "spine0": "spine"}
    with pytest.raises(TopologyError, match="line 1"):
        topology_from_slurm("SwitchName=x", {}, "topology.conf")


def test_csv() -> None:
    text = "Server,Address,GPU,Switch,Tier\ns0,10.0.0.1,0,leaf0,leaf\ns0,10.0.0.2,1,leaf1,\n"
    topology = topology_from_csv(text, "nics.csv")
    assert [nic.gpu for nic in topology.servers[0].nics] == [0, 1]
    assert topology.tier_of() == {"leaf0": "leaf"}
    for bad, words in (("a,b\n", "server"), ("server,address\ns,\n", "line 2"), ("server,address,gpu\ns,a,x\n", "gpu")):
        with pytest.raises(TopologyError, match=words):
            topology_from_csv(bad, "nics.csv")


def test_lldp() -> None:
    files = HostFiles(json.dumps(LLDP), json.dumps(ADDRESSES))
    assert topology_from_lldp({"host0": files}, "folder").switch_of() == {"10.0.0.1": "leaf0"}
    with pytest.raises(TopologyError, match="host0: lldpctl"):
        topology_from_lldp({"host0": HostFiles("[]", "[]")}, "folder")


def test_inventory() -> None:
    nics = [{"address": "10.0.0.1", "gpu": 0, "switch": "leaf0"}]
    document = {"_meta": {"hostvars": {"n0": {"llmprism_nics": nics}, "n1": {"ansible_host": "10.0.0.2"}}}}
    topology = topology_from_inventory(json.dumps(document), "inventory")
    assert topology.server_of() == {"10.0.0.1": "n0", "10.0.0.2": "n1"}
    ini = "[gpu]\nn0 llmprism_nics=10.0.0.1,10.1.0.1 # two rails\nn1 ansible_host=10.0.0.2\n[gpu:vars]\nuser=x\n"
    assert topology_from_inventory(ini, "inventory").server_of() == {
        "10.0.0.1": "n0",
        "10.1.0.1": "n0",
        "10.0.0.2": "n1",
    }


def test_written_topologies_can_be_read(tmp_path: Path) -> None:
    topology = topology_from_slurm(SLURM, {}, "topology.conf")
    write_topology(topology, tmp_path / "t.json")
    assert read_topology(tmp_path / "t.json") == topology


BUILDERS = (
    lambda text: topology_from_slurm(text, parse_hosts(text), "file"),
    lambda text: topology_from_csv(text, "file"),
    lambda text: topology_from_inventory(text, "file"),
    lambda text: topology_from_lldp({"h": HostFiles(text, text)}, "file"),
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(BUILDERS),
    st.sampled_from(
        ["", "SwitchName=a Nodes=", "server,address\n", '{"_meta":{"hostvars":', '{"lldp":{"interface":', "n0 "]
    ),
    st.text(max_size=60),
)
def test_random_text(build: object, head: str, text: str) -> None:
    try:
        assert isinstance(build(head + text), Topology)  # type: ignore[operator]
    except LLMPrismError as error:
        assert str(error).startswith("file: ")  # noqa: PT017


def test_check_finds_what_is_wrong_inside() -> None:
    document = {
        "servers": [
            {
                "name": "s0",
                "nics": [{"address": "a", "gpu": 0, "switch": "l0"}, {"address": "b", "gpu": 0, "switch": "l9"}],
            },
            {"name": "s1", "nics": [{"address": "c"}, {"address": "d", "switch": "l0"}]},
            {"name": "s2", "nics": [{"address": "e", "switch": "l0"}]},
            {"name": "s3", "nics": []},
        ],
        "switches": [{"name": "l0", "tier": "leaf"}, {"name": "l1", "tier": "leaf"}],
    }
    text = "\n".join(check_topology(parse_topology(document, "t")))
    for words in (
        "no NIC: s3",
        "no switch: c",
        "switches: l9",
        "leaf switches have no NIC: l1",
        "others: s2",
        "two NICs: s0",
    ):
        assert words in text


@pytest.mark.skipif(not CAPTURES.exists(), reason="the real captures are not here")
def test_check_against_real_flows() -> None:
    folder = CAPTURES / "pp4dp2tp2"
    topology, table = read_topology(folder / "topology.json"), read_flows([folder / "flows.parquet"])
    assert check_topology(topology, table) == []
    other = read_topology(CAPTURES / "ddp4" / "topology.json")
    text = "\n".join(check_topology(other, table))
    assert "12 addresses in the flows are not in the topology" in text
    document = json.loads((folder / "topology.json").read_text(encoding="utf-8"))
    document["servers"][0]["nics"][0]["switch"] = document["servers"][0]["nics"][1]["switch"]
    (problem,) = check_topology(parse_topology(document, "t"), table)
    assert "another switch" in problem
