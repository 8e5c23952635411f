"""Stage imbalance: built pipelines with one stage that computes longer, read with their true layout and steps."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.evidence import JobEvidence, gather_evidence
from llmprism.diagnose.imbalance import find_imbalance
from llmprism.model import (
    Events,
    Group,
    Job,
    JobLayout,
    JobState,
    Layout,
    PairKind,
    PairRoles,
    Schedule,
    Steps,
    Timeline,
    WhereType,
)
from unit.builders import MS, Flow, build_job, transfer_table


def evidence_of(schedule=Schedule.ONE_F_ONE_B, gathers=None, **shape) -> JobEvidence:
    """The members of the stage that `gathers` send each other their parameters every 5 ms."""
    job = build_job(**{"pp": 4, "dp": 2, "setup_factor": 1.0, **shape})
    ring = job.rings[gathers] if gathers is not None else ()
    more = [
        Flow(ring[place], ring[place - 1], at, at + MS, 1_000_000, None)
        for place in range(len(ring))
        for at in range(job.step_ends_ns[0], job.step_ends_ns[-1], 5 * MS)
    ]
    transfers = transfer_table([*job.records, *more])
    number = {name: i for i, name in enumerate(transfers.addresses)}
    end = np.array(job.step_ends_ns, dtype=np.int64)
    steps = Steps(end[:-1], end[1:], np.zeros(end.size - 1, dtype=np.bool_))
    kind = np.full(transfers.start_ns.size, PairKind.PP, dtype=np.int8)
    ends = (
        np.isin(side[transfers.pair_of_row], [number[name] for name in ring])
        for side in (transfers.pair_src, transfers.pair_dst)
    )
    kind[np.logical_and(*ends)] = PairKind.DP
    layout = JobLayout(
        Layout(pp=job.shape.pp, schedule=schedule),
        tuple(Group(PairKind.DP, tuple(number[name] for name in ring)) for ring in job.rings),
        tuple(tuple(number[name] for name in pipeline) for pipeline in job.pipelines),
        PairRoles.empty(),
        kind,
    )
    timeline = Timeline(steps, np.tile(steps.end_ns, (len(number), 1)), Events.empty())
    return gather_evidence(
        Job("job", tuple(range(len(number))), (), 1.0, transfers), layout, timeline, JobState.RUNNING
    )


def long_stage(stage, factor):
    return {"compute_factor": lambda s, _replica, _step: factor if s == stage else 1.0}


@pytest.mark.parametrize(("stage", "factor"), [(1, 1.7), (2, 1.7), (1, 2.5), (2, 2.5), (3, 2.5)])
def test_the_long_stage_is_found_with_its_members(stage, factor):
    (finding,) = find_imbalance(evidence_of(**long_stage(stage, factor)))
    assert finding.where.type is WhereType.STAGE
    assert finding.where.id == (f"a{2 * stage:02}r0", f"a{2 * stage + 1:02}r0")
    assert f"Stage {stage} of job computes {factor:.1f} times" in finding.summary
    assert finding.severity == pytest.approx(1.0 - 1.0 / factor, abs=0.03)
    assert finding.evidence[0].value == pytest.approx(10.0 * factor, rel=0.05)
    assert finding.evidence[0].expected == pytest.approx(10.0, rel=0.05)
    assert finding.lost_gpu_seconds > 0.0
    assert 0.5 < finding.confidence < 1


def test_the_long_stage_of_a_deeper_pipeline_is_found_too():
    (finding,) = find_imbalance(evidence_of(pp=6, micro_batches=8, **long_stage(4, 1.8)))
    assert finding.where.id == ("a08r0", "a09r0")


@pytest.mark.parametrize(
    "shape",
    [{}, {"pp": 8, "micro_batches": 10}, {"jitter": 0.15}, long_stage(2, 1.3), long_stage(3, 1.5)],
)
def test_even_stages_and_small_differences_are_no_imbalance(shape):
    assert find_imbalance(evidence_of(**shape)) == []


def test_a_stage_that_is_sent_its_parameters_meanwhile_may_have_waited_for_these():
    assert find_imbalance(evidence_of(gathers=1, **long_stage(1, 2.5))) == []
    assert find_imbalance(evidence_of(**long_stage(1, 2.5))) != []


def test_one_slow_gpu_is_none():
    slow = {"compute_factor": lambda stage, replica, _step: 2.0 if (stage, replica) == (2, 1) else 1.0}
    assert find_imbalance(evidence_of(**slow)) == []


def test_a_stage_that_is_long_for_half_of_the_time_is_none():
    slow = {"compute_factor": lambda stage, _replica, step: 2.0 if stage == 2 and step < 10 else 1.0}
    assert find_imbalance(evidence_of(**slow)) == []


def test_a_long_first_stage_is_not_measured_and_accuses_nobody_else():
    assert find_imbalance(evidence_of(**long_stage(0, 2.5))) == []


def test_three_stages_leave_nobody_to_compare_with():
    assert find_imbalance(evidence_of(pp=3, **long_stage(1, 2.5))) == []


@pytest.mark.parametrize("schedule", [Schedule.GPIPE, Schedule.INTERLEAVED, Schedule.UNKNOWN])
def test_other_schedules_are_not_read(schedule):
    assert find_imbalance(evidence_of(schedule, **long_stage(2, 2.5))) == []


@pytest.mark.parametrize(("steps", "result"), [(8, 0), (9, 1)])
def test_enough_steps_are_needed(steps, result):
    """Two pipelines; the first step is the one before the first boundary."""
    assert len(find_imbalance(evidence_of(steps=steps, **long_stage(2, 2.5)))) == result


def test_pipelines_of_unequal_length_are_not_compared():
    evidence = evidence_of(**long_stage(2, 2.5))
    first, *others = evidence.layout.pipelines
    odd = replace(evidence.layout, pipelines=((*first, others[0][-1]), *others))
    assert find_imbalance(replace(evidence, layout=odd)) == []


def test_a_stage_that_would_take_longer_than_the_step_does_not_compute_all_the_time():
    evidence = evidence_of(**long_stage(2, 2.5))
    degrees = evidence.layout.layout

    def with_micro_batches(count):
        return replace(evidence, layout=replace(evidence.layout, layout=replace(degrees, micro_batches=count)))

    assert find_imbalance(with_micro_batches(2)) != []
    assert find_imbalance(with_micro_batches(2000)) == []
