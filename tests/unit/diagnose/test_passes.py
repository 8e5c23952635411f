"""Places that pairs pass, against a listing of them by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from llmprism.diagnose.passes import INTO, ONE_WAY, OUT_OF, passes_of, ways_of
from llmprism.kernel import always_compiled, always_interpreted
from llmprism.model import WhereType
from unit.builders import Flow, transfer_table
from unit.diagnose.evidence_builder import evidence_of, ring_pairs


def listed(evidence, pairs):
    """Place → pairs, name by name."""
    transfers, found = evidence.job.transfers, {}
    for pair in pairs:
        rows = slice(*transfers.pair_offsets[pair : pair + 2])
        paths = [transfers.paths[path] for path in np.unique(transfers.path[rows]) if path >= 0]
        places = {(WhereType.NIC, transfers.addresses[end[pair]]) for end in (transfers.pair_src, transfers.pair_dst)}
        places.add((WhereType.NIC, (transfers.addresses[transfers.pair_src[pair]], OUT_OF)))
        places.add((WhereType.NIC, (transfers.addresses[transfers.pair_dst[pair]], INTO)))
        places |= {(WhereType.SWITCH, switch) for path in paths for switch in path}
        places |= {(WhereType.LINK, tuple(sorted(hop))) for path in paths for hop in pairwise(path)}
        places |= {(WhereType.LINK, (*hop, ONE_WAY)) for path in paths for hop in pairwise(path)}
        group = evidence.group_of_pair[pair]
        if group >= 0:
            members = evidence.layout.groups[group].members
            places.add((WhereType.GROUP, tuple(transfers.addresses[member] for member in members)))
        for place in places:
            found.setdefault(place, []).append(pair)
    return found


def result(passes):
    return {place: passes.through(place).tolist() for place in passes.number}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tier", [always_compiled, always_interpreted])
def test_every_place_has_its_pairs(seed, tier):
    random = np.random.default_rng(seed)
    pairs = [pair for ring in ("abcd", "efgh", "ijkl") for pair in ring_pairs(ring)]
    ways = [("t0",), ("t0", "s1", "t2"), ("t2", "s1", "t0"), ("t1", "s0", "c", "s1", "t2"), ("t1", "s0", "t1"), None]
    paths = {pair: ways[random.integers(len(ways))] for pair in pairs}
    evidence = evidence_of(pairs, groups=("abcd", "efgh"), paths=paths)
    chosen = np.sort(random.choice(len(pairs), 9, replace=False))
    with tier():
        assert result(passes_of(evidence, chosen)) == listed(evidence, chosen)


def test_a_pair_passes_what_lies_on_any_of_its_own_paths_but_not_on_a_stray_one():
    near, far, stray = ("t0", "s0", "t1"), ("t0", "s1", "t1"), ("t0", "s2", "t1")
    shares = ((near, 60), (far, 35), (stray, 5))
    flows = [Flow("a", "b", k * 10**9, k * 10**9 + 1, share, path) for k, (path, share) in enumerate(shares)]
    job = evidence_of(["ab"])
    table = transfer_table(flows)
    evidence = replace(job, job=with_transfers(job.job, table))
    places = result(passes_of(evidence, np.array([0])))
    assert {name for where, name in places if where is WhereType.SWITCH} == {"t0", "s0", "s1", "t1"}
    assert places[WhereType.SWITCH, "t0"] == [0], "once, although both paths pass it"


def with_transfers(job, transfers):
    return job.__class__(**{f: getattr(job, f) for f in job.__slots__} | {"transfers": transfers})


def test_nobody_passes_an_unknown_place():
    passes = passes_of(evidence_of(ring_pairs("abc")), np.array([0, 2]))
    assert passes.through((WhereType.SWITCH, "elsewhere")).tolist() == []


def test_lanes_of_one_tensor_parallel_group_are_a_place_together():
    lanes = ("aceg", "bdfh")
    evidence = evidence_of([pair for ring in lanes for pair in ring_pairs(ring)], groups=lanes)
    wide = replace(evidence.layout, layout=replace(evidence.layout.layout, tp=2))
    servers = tuple(f"server{k // 2}" for k in range(8))
    together = replace(evidence, layout=wide, job=replace(evidence.job, places=servers))
    passes = passes_of(together, np.arange(8))
    groups = {name: len(passes.through((where, name))) for where, name in passes.number if where is WhereType.GROUP}
    assert groups == {tuple("aceg"): 4, tuple("bdfh"): 4, tuple("acegbdfh"): 8}
    apart = replace(together, job=replace(evidence.job, places=servers[::2] * 2))
    assert not any(len(name) == 8 for where, name in passes_of(apart, np.arange(8)).number if where is WhereType.GROUP)


def test_ways_are_the_links_and_switches_among_the_places():
    paths = {"ab": ("leaf", "spine", "other"), "bc": ("other",)}
    evidence = evidence_of(ring_pairs("abc"), paths=paths, groups=("abc",))
    pairs = np.arange(3)
    on_the_way = (WhereType.LINK, WhereType.SWITCH)
    expected = {place: rows for place, rows in listed(evidence, pairs.tolist()).items() if place[0] in on_the_way}
    assert result(ways_of(evidence, pairs)) == expected
    assert not ways_of(evidence, pairs[:0]).number
