"""Topology files: read when right, refused with the place when wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.errors import InputError, LLMPrismError, TopologyError
from llmprism.ingest.topology import parse_topology, read_topology

CAPTURES = Path(__file__).parents[3] / "../shared/data/captures"
GOOD = {
    "servers": [{"name": "server00", "nics": [{"address": "10.0.0.1", "gpu": 0, "switch": "leaf00"}]}],
    "switches": [{"name": "leaf00", "tier": "leaf"}],
}


def test_good(tmp_path: Path) -> None:
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(GOOD), encoding="utf-8")
    topology = read_topology(file)
    assert topology.server_of() == {"10.0.0.1": "server00"}
    assert topology.switch_of() == {"10.0.0.1": "leaf00"}
    assert topology.tier_of() == {"leaf00": "leaf"}


@pytest.mark.skipif(not CAPTURES.exists(), reason="the real captures are not here")
def test_real_topologies() -> None:
    for file in sorted(CAPTURES.glob("*/topology.json")):
        topology = read_topology(file)
        assert len(topology.server_of()) == len(topology.switch_of()) >= 4
        assert set(topology.tier_of().values()) == {"leaf", "spine"}


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ([], r"\$: expected an object"),
        ({}, "names no server"),
        ({"servers": {}}, r"\$\.servers: expected a list"),
        ({"servers": [3]}, r"\$\.servers\[0\]: expected an object"),
        ({"servers": [{"nics": []}]}, r"\$\.servers\[0\]\.name"),
        ({"servers": [{"name": "s", "nics": [{"address": 7}]}]}, r"nics\[0\]\.address: expected a short text, found 7"),
        ({"servers": [{"name": "s", "nics": [{"address": "a", "gpu": "x"}]}]}, r"nics\[0\]\.gpu"),
        ({"servers": [{"name": "s", "nics": [{"address": "a" * 300}]}]}, r"nics\[0\]\.address"),
        ({"servers": [{"name": "s", "nics": [{"address": "a"}, {"address": "a"}]}]}, '"a" appears twice'),
        ({"servers": [{"name": "s"}, {"name": "s"}]}, '"s" appears twice'),
        ({"switches": [{"name": "s", "tier": 5}]}, r"switches\[0\]\.tier"),
    ],
)
def test_refused_with_the_place(document: object, place: str) -> None:
    with pytest.raises(TopologyError, match=place) as caught:
        parse_topology(document, "t.json")
    assert str(caught.value).startswith("t.json: ")


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such topology file"):
        read_topology(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_topology(tmp_path)


@settings(max_examples=60, deadline=None)
@given(data=st.one_of(st.binary(max_size=80), st.just(b"[" * 100_000), st.just(b"NaN")))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("topology") / "t.json"
    file.write_bytes(data)
    with pytest.raises(LLMPrismError, match=r"t\.json"):
        read_topology(file)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["servers", "switches", "nics", "name", "address", "gpu", "tier"]), inner),
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_random_documents(document: object) -> None:
    try:
        parse_topology(document, "t.json")
    except TopologyError as error:
        message = str(error)
        assert message.startswith("t.json: ")
