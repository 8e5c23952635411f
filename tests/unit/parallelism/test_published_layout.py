"""The published rule of parallelism: exact where records are messages, and its known failures kept on record."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.ingest.records_as_transfers import records_as_transfers
from llmprism.model import Job, PairKind
from llmprism.parallelism.published_layout import layout_paper


def job_of(flows) -> Job:
    transfers = records_as_transfers(flows)
    return Job("job", tuple(range(len(flows.addresses))), (), 1.0, transfers)


@pytest.mark.parametrize(("pp", "dp", "tp"), [(2, 2, 1), (4, 2, 2), (1, 4, 1), (1, 2, 2), (3, 1, 1), (2, 4, 1)])
def test_clean_messages_give_the_exact_layout(flow_table, clean_job, pp: int, dp: int, tp: int) -> None:
    truth = clean_job(pp, dp, tp)
    flows = flow_table(truth.records)
    found = layout_paper(job_of(flows))
    named = [{flows.addresses[member] for member in group.members} for group in found.groups]
    assert {frozenset(group) for group in named} == truth.groups
    assert {tuple(flows.addresses[member] for member in path) for path in found.pipelines} == truth.pipelines
    assert (found.layout.pp, found.layout.dp, found.layout.tp) == (pp, dp, tp)


def test_every_pair_and_every_transfer_has_a_kind(flow_table, clean_job) -> None:
    flows = flow_table(clean_job().records)
    found = layout_paper(job_of(flows))
    assert found.pairs.src.size == flows.pair_src.size
    np.testing.assert_array_equal(found.transfer_kind, np.repeat(found.pairs.kind, np.diff(flows.pair_offsets)))
    assert ((found.pairs.confidence > 0.5) & (found.pairs.confidence <= 1.0)).all()


def test_a_pp_pair_inside_a_dp_group_becomes_dp(flow_table, clean_job) -> None:
    """One link of a ring of four sends equal sizes only; the three others hold the group together."""
    records = [
        record._replace(bytes=1_000_000) if record.src == "a00r0" else record
        for record in clean_job(pp=1, dp=4).records
    ]
    found = layout_paper(job_of(flow_table(records)))
    assert (found.pairs.kind == PairKind.DP).all()
    assert [len(group.members) for group in found.groups] == [4]


def test_known_failure_split_records_turn_pp_into_dp_and_glue_the_groups(flow_table, clean_job) -> None:
    """A collector that cuts each activation at an arbitrary pause leaves no pair with one size."""
    records = []
    for number, record in enumerate(clean_job().records):
        if record.bytes == 4_194_304:
            cut = 1_000_000 + 37 * number
            records.append(record._replace(bytes=cut))
            records.append(record._replace(start_ns=record.start_ns + 700_000, bytes=record.bytes - cut))
        else:
            records.append(record)
    found = layout_paper(job_of(flow_table(records)))
    assert (found.pairs.kind == PairKind.DP).all()
    assert [len(group.members) for group in found.groups] == [4]
    assert found.pipelines == ()


def test_the_end_that_sends_first_is_stage_zero(flow_table, clean_job) -> None:
    mirror = {"a00r0": "a02r0", "a01r0": "a01r0", "a02r0": "a00r0"}
    records = [
        record._replace(src=mirror[record.src], dst=mirror[record.dst]) for record in clean_job(pp=3, dp=1).records
    ]
    assert layout_paper(job_of(flow_table(records))).pipelines == ((2, 1, 0),)


@pytest.mark.parametrize(("odd_steps", "kind"), [(4, PairKind.PP), (8, PairKind.DP)])
def test_the_most_common_number_of_sizes_decides(flow_table, odd_steps: int, kind: PairKind) -> None:
    second = 1_000_000_000
    records = [
        ("a", "b", step * second + flow * 1_000_000, step * second + flow * 1_000_000 + 10, 5 + (flow % 2) * odd)
        for step in range(12)
        for odd in [int(step < odd_steps)]
        for flow in range(10)
    ]
    found = layout_paper(job_of(flow_table(records)))
    assert found.pairs.kind.tolist() == [kind]
    assert found.pairs.confidence.tolist() == [pytest.approx(8 / 12)]


def test_branching_pp_pairs_are_no_pipeline(flow_table) -> None:
    records = [
        (hub, leaf, step * 1_000_000_000 + batch * 1_000_000, step * 1_000_000_000 + batch * 1_000_000 + 10, 5)
        for hub, leaf in [("a", "b"), ("a", "c"), ("a", "d")]
        for step in range(5)
        for batch in range(10)
    ]
    found = layout_paper(job_of(flow_table(records)))
    assert (found.pairs.kind == PairKind.PP).all()
    assert found.pipelines == ()
    assert found.layout.pp is None


def test_a_job_without_flows_has_no_layout(flow_table) -> None:
    found = layout_paper(job_of(flow_table([])))
    assert found.groups == ()
    assert found.pairs.src.size == 0
    assert found.confidence == 0.0


def test_single_records_are_enough_not_to_crash(flow_table) -> None:
    found = layout_paper(job_of(flow_table([("a", "b", 0, 1, 5), ("b", "a", 0, 1, 5)])))
    assert found.pairs.kind.tolist() == [PairKind.PP, PairKind.PP]
    assert found.pipelines == ((0, 1),)
