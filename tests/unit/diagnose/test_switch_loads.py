"""Loads of switches, against sums taken one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmprism.diagnose.switch_loads import PathLoads, _by_path, _by_path_with_arrays, path_loads, switch_loads
from llmprism.model import Server, Topology
from llmprism.model.topology import Switch
from unit.builders import Flow, transfer_table

PATHS = (("leaf1",), ("leaf1", "spine1", "leaf2"), ("leaf2", "spine1", "leaf1"), ("leaf2", "spine2", "leaf2"))

loads = st.lists(
    st.tuples(st.sampled_from(PATHS), st.integers(1, 10**12), st.integers(0, 50), st.integers(1, 400)),
    unique_by=lambda load: load[0],
    max_size=4,
)


def loads_of(rows):
    paths, size, pairs, rate = zip(*rows, strict=True) if rows else ((), (), (), ())
    return PathLoads(
        tuple(paths), np.array(size, dtype=np.int64), np.array(pairs, dtype=np.int64), np.array(rate, dtype=np.float64)
    )


@given(st.lists(loads, max_size=4))
def test_each_switch_has_what_the_paths_through_it_carry(jobs):
    named = [(f"job{i}", rows) for i, rows in enumerate(jobs)]
    result = switch_loads([(name, loads_of(rows)) for name, rows in named], None)
    through = {
        switch: [
            (rate, size, pairs, name) for name, rows in named for path, size, pairs, rate in rows if switch in path
        ]
        for switch in sorted({switch for rows in jobs for path, *_ in rows for switch in path})
    }
    assert [load.switch for load in result] == list(through)
    for load in result:
        parts = sorted(through[load.switch])
        assert load.bytes == sum(size for _, size, _, _ in parts)
        assert load.pairs == sum(pairs for _, _, pairs, _ in parts)
        assert load.jobs == tuple(name for name, _ in named if name in {part[3] for part in parts})
        running = np.cumsum([size for _, size, _, _ in parts])
        assert load.median_rate_gbps == parts[int(np.argmax(running >= load.bytes / 2))][0]


def test_the_topology_names_the_tiers():
    topology = Topology((Server("s", ()),), (Switch("leaf1", "leaf"),))
    (load,) = switch_loads([("job", loads_of([(("leaf1",), 8, 1, 2)]))], topology)
    assert load.tier == "leaf"


def test_loads_of_transfers_by_path():
    flows = [Flow("a", "b", 0, 8, 100, path=("leaf1",)), Flow("a", "b", 10**9, 10**9 + 8, 50, path=("leaf2",)),
             Flow("b", "a", 0, 10, 70, path=("leaf1",)), Flow("b", "c", 0, 10, 5)]  # fmt: skip
    result = path_loads(transfer_table(flows))
    assert result.paths == (("leaf1",), ("leaf2",))
    assert result.bytes.tolist() == [170, 50]
    assert result.pairs.tolist() == [2, 0]
    assert result.rate_gbps.tolist() == [8 * 170 / 18, 50.0]


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 10**9), st.integers(0, 10**9)), max_size=40))
def test_the_loop_and_the_arrays_agree(rows):
    path, size, active = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    path = path.astype(np.int32)
    for one, two in zip(_by_path.python(path, size, active, path[::3]),
                        _by_path_with_arrays(path, size, active, path[::3]), strict=True):  # fmt: skip
        assert one.tolist() == two.tolist()
