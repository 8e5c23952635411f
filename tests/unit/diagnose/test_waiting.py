"""Own work against waiting, on built pipelines whose slow member is known."""

import numpy as np
import pytest

from llmprism.diagnose import waiting
from llmprism.diagnose.evidence import gather_evidence
from llmprism.diagnose.late_member import find_late_members
from llmprism.diagnose.waiting import beyond_others, stage_work_ns, to_second_message_ns
from llmprism.model import FindingKind, JobState
from llmprism.parallelism import identify_layout
from llmprism.timeline import reconstruct_timeline
from support.stages import recognize
from unit.builders import address_of, build_job, transfer_table


def evidence_for(job):
    (found,) = recognize(transfer_table(job.records)).jobs
    layout = identify_layout(found)
    return gather_evidence(found, layout, reconstruct_timeline(found, layout, with_events=False), JobState.RUNNING)


def slow_member(stage, replica, factor=1.8, **shape):
    """A job in which one GPU computes longer from step 8 on."""
    job = build_job(
        compute_factor=lambda s, r, step: factor if (s, r) == (stage, replica) and step >= 8 else 1.0, **shape
    )
    return evidence_for(job), address_of(job.shape, stage, replica, 0)


@pytest.mark.parametrize(("stage", "replica", "shape"), [(1, 0, {"pp": 4, "dp": 3}), (2, 1, {"pp": 4, "dp": 3})])
def test_only_the_slow_stage_works_longer_though_its_whole_replica_is_late(stage, replica, shape):
    evidence, name = slow_member(stage, replica, **shape)
    excess = np.nanmedian(beyond_others(evidence, stage_work_ns(evidence))[:, 10:], axis=1)
    names = [evidence.job.transfers.addresses[member] for member in evidence.job.members]
    assert names[int(np.nanargmax(excess))] == name
    others = np.delete(excess, names.index(name))
    assert np.nanmax(others) < 0.3 * np.nanmax(excess)


def test_without_replicas_a_member_is_compared_with_its_own_earlier_steps():
    evidence, name = slow_member(1, 0, pp=4, dp=1)
    excess = np.nanmedian(beyond_others(evidence, stage_work_ns(evidence))[:, 10:], axis=1)
    names = [evidence.job.transfers.addresses[member] for member in evidence.job.members]
    assert names[int(np.nanargmax(excess))] == name


def test_nobody_is_late_in_a_healthy_job():
    evidence = evidence_for(build_job(pp=1, dp=4))
    assert [f.kind for f in find_late_members(evidence, {})] == []


def test_who_sends_late_is_slow():
    evidence, name = slow_member(0, 2, pp=1, dp=4)
    (finding,) = find_late_members(evidence, {}) or [None]
    assert finding is None or (finding.kind, finding.where.id) == (FindingKind.SLOW_GPU, name)


@pytest.mark.parametrize("seed", range(5))
def test_first_and_last_messages_of_pairs_and_steps_are_those_of_a_search(seed):
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(random.integers(1, 12, 6))])
    start = np.concatenate([np.sort(random.integers(0, 100, n)) for n in np.diff(offsets)])
    end, chosen = start + random.integers(1, 40, start.size), random.random(start.size) < 0.7
    begin = np.array([5, 30, 60])
    finish = np.array([30, 55, 90])
    found = waiting._first_and_last(offsets, start, end, chosen, begin, finish)
    for pair, step in np.ndindex(6, 3):
        rows = np.arange(offsets[pair], offsets[pair + 1])
        rows = rows[chosen[rows] & (start[rows] >= begin[step]) & (start[rows] < finish[step])]
        values = [bound[pair, step] for bound in found]
        if rows.size:
            assert values == [start[rows].min(), end[rows].min(), start[rows].max(), end[rows].max()]
        else:
            assert np.isnan(values).all()


def test_from_the_first_message_to_the_second_is_one_pass_of_the_first_stage():
    evidence, name = slow_member(0, 1, factor=1.8, pp=4, dp=2, micro_batches=8)
    names = evidence.job.transfers.addresses
    passes = {names[p[0]]: to_second_message_ns(evidence, p[0], p[1]) for p in evidence.layout.pipelines}
    own, (other,) = passes.pop(name), passes.values()
    assert np.nanmedian(own[10:] / other[10:]) == pytest.approx(1.8, rel=0.15)
    assert np.nanmedian(own[:6] / other[:6]) == pytest.approx(1.0, rel=0.15)
    pipeline = evidence.layout.pipelines[0]
    assert np.isnan(to_second_message_ns(evidence, pipeline[0], pipeline[3])).all(), "they exchange nothing"
