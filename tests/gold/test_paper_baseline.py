"""The published rules on the real captures: they run on all of them, and what they are known to give is kept on record.

Also the change-point kernel against the `changepoint` package on the gaps of real pairs.
"""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path

import changepoint
import numpy as np
import pyarrow.parquet as pq
import pytest

from llmprism.diagnose.published_faults import diagnose_paper
from llmprism.ingest.records_as_transfers import records_as_transfers
from llmprism.model import FlowTable, InputCounts, Nic, PairKind, Server, Switch, Topology
from llmprism.parallelism.published_layout import layout_paper
from llmprism.recognize.published_jobs import recognize_paper
from llmprism.stats.change_points import DEFAULT_HAZARD, NormalInverseGamma, change_probability
from llmprism.timeline.published_timeline import timeline_paper

CAPTURES = Path(__file__).parents[2] / "../shared/data/captures"
NAMES = ["crash", "ddp4", "fsdp8", "pp4dp2tp2", "slow_gpu", "slow_nic", "two_jobs"]

pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason="the real captures (../shared/data/captures) are absent")


@lru_cache(maxsize=1)
def read(name: str) -> FlowTable:
    """A bare reader, so that this test hangs on no other stage than those it is about."""
    columns = ["src", "dst", "start_ns", "end_ns", "bytes", "switches"]
    table = pq.read_table(CAPTURES / name / "flows.parquet", columns=columns)
    table = table.sort_by([("src", "ascending"), ("dst", "ascending"), ("start_ns", "ascending")])
    src, dst = (table[end].to_numpy().astype(str) for end in ("src", "dst"))
    addresses = np.unique(np.concatenate((src, dst)))
    first = np.flatnonzero(np.concatenate(([True], (src[1:] != src[:-1]) | (dst[1:] != dst[:-1]))))
    routes = [tuple(path) for path in table["switches"].to_pylist()]
    paths = sorted(set(routes))
    number = {path: index for index, path in enumerate(paths)}
    return FlowTable(
        addresses=tuple(addresses.tolist()),
        paths=tuple(paths),
        pair_src=np.searchsorted(addresses, src[first]).astype(np.int32),
        pair_dst=np.searchsorted(addresses, dst[first]).astype(np.int32),
        pair_offsets=np.append(first, src.size).astype(np.int64),
        start_ns=table["start_ns"].to_numpy(),
        end_ns=table["end_ns"].to_numpy(),
        bytes=table["bytes"].to_numpy(),
        path=np.array([number[path] for path in routes], dtype=np.int32),
        counts=InputCounts(src.size, src.size),
    )


def topology_of(name: str) -> Topology:
    document = json.loads((CAPTURES / name / "topology.json").read_text())
    return Topology(
        tuple(Server(server["name"], tuple(Nic(**nic) for nic in server["nics"])) for server in document["servers"]),
        tuple(Switch(**switch) for switch in document["switches"]),
    )


def truth_of(name: str) -> list[dict]:
    return json.loads(gzip.decompress((CAPTURES / name / "truth.json.gz").read_bytes()))["jobs"]


@pytest.mark.parametrize("name", NAMES)
def test_the_baseline_runs_through(name: str) -> None:
    flows, topology = read(name), topology_of(name)
    transfers = records_as_transfers(flows)
    jobs = recognize_paper(transfers, topology)
    result = []
    for job in jobs:
        layout = layout_paper(job)
        timeline = timeline_paper(job, layout)
        assert layout.transfer_kind.size == job.transfers.start_ns.size
        assert set(np.unique(layout.pairs.kind).tolist()) <= {PairKind.DP, PairKind.PP}
        assert timeline.steps.count > 0
        assert (timeline.steps.duration_ns > 0).all()
        assert (timeline.events.end_ns >= timeline.events.start_ns).all()
        result.append((job, layout, timeline))
    # The jobs of these captures share no server unevenly and no stray flow: the published rule gets all of them.
    found = {frozenset(flows.addresses[member] for member in job.members) for job in jobs}
    assert found == {frozenset(job["members"]) for job in truth_of(name)}
    assert sum(job.transfers.start_ns.size for job in jobs) == flows.start_ns.size
    for finding in diagnose_paper(result, topology):
        assert flows.window.start_ns <= finding.start_ns <= finding.end_ns <= flows.window.end_ns
        assert 0.0 <= finding.severity <= 1.0


@pytest.mark.parametrize("name", ["pp4dp2tp2", "slow_gpu"])
def test_known_failure_cut_records_hide_every_pipeline(name: str) -> None:
    (job,) = recognize_paper(records_as_transfers(read(name)), topology_of(name))
    layout = layout_paper(job)
    assert truth_of(name)[0]["pipelines"]
    assert layout.pipelines == ()
    assert [len(group.members) for group in layout.groups] == [len(job.members)]


@pytest.mark.parametrize("name", ["ddp4", "pp4dp2tp2"])
def test_the_kernel_agrees_with_the_exact_recursion_on_real_gaps(name: str) -> None:
    flows, prior = read(name), NormalInverseGamma()
    busiest = np.argsort(np.diff(flows.pair_offsets))[-3:]
    for pair in busiest.tolist():
        starts = flows.start_ns[flows.pair_offsets[pair] : flows.pair_offsets[pair + 1]][:1500]
        gaps = np.diff(starts).astype(np.float64)
        gaps = (gaps - gaps.mean()) / gaps.std()
        law = changepoint.Prior.normal_inv_gamma(prior.mean, 1.0 / prior.strength, prior.shape, prior.scale)
        detector = changepoint.Bocpd(law, 1.0 / DEFAULT_HAZARD)
        detector.step(0.0)  # the package skips the first value it is given
        exact = np.array([([*detector.step(gap), 0.0])[1] / (1.0 - DEFAULT_HAZARD) for gap in gaps.tolist()])
        ours = change_probability(gaps, standardize=False)
        np.testing.assert_allclose(ours[1:], exact[1:], atol=0.05)
        clear = np.abs(exact[1:] - 0.95) > 0.05
        assert np.array_equal(ours[1:][clear] >= 0.95, exact[1:][clear] >= 0.95)
        assert (exact[1:] >= 0.95).sum() > 5, "a series without changes would test nothing"
