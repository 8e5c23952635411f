import numpy as np
import pytest

from llmprism.parallelism import identify_layout
from llmprism.timeline import reconstruct_timeline
from support.stages import recognize
from unit.builders import MS, SECOND, Flow, build_job, cut_in_pieces, transfer_table


def timeline_of(records, **settings):
    (job,) = recognize(transfer_table(records)).jobs
    return job, reconstruct_timeline(job, identify_layout(job), **settings)


def assert_ends(steps, built):
    """Every step ends with its last gradient or during the optimizer that follows, all after the same delay."""
    delay = steps.end_ns - np.array(built.step_ends_ns)
    assert (delay >= 0).all()
    assert (delay <= built.shape.optimizer_ms * MS).all()
    assert np.ptp(delay[:-1]) <= 2 * MS


@pytest.mark.parametrize("shape", [{}, {"pp": 1, "dp": 4}, {"pp": 4, "dp": 2, "micro_batches": 8}])
def test_the_steps_are_those_that_were_built(shape):
    built = build_job(**shape)
    job, timeline = timeline_of(cut_in_pieces(built.records))
    assert_ends(timeline.steps, built)
    assert timeline.member_end_ns.shape == (len(job.members), 20)
    assert timeline.member_end_ns.max(axis=0).tolist() == built.step_ends_ns
    assert (timeline.member_end_ns > timeline.steps.start_ns).all()
    assert timeline.confidence > 0.9


def test_the_long_first_step_of_pipelines_is_marked_as_set_up():
    _, timeline = timeline_of(build_job().records)
    assert timeline.steps.setup.tolist() == [True] + [False] * 19


@pytest.mark.parametrize("shape", [{}, {"pp": 1, "dp": 4}])
def test_a_checkpoint_pause_is_inside_no_step(shape):
    built = build_job(pause_after={9: 2_000.0}, **shape)
    _, timeline = timeline_of(built.records)
    steps = timeline.steps
    assert_ends(steps, built)
    assert steps.start_ns[10] - steps.end_ns[9] == pytest.approx(2 * SECOND, rel=0.05)
    assert steps.duration_ns[10] == pytest.approx(np.median(steps.duration_ns), rel=0.1)


def test_events_are_made_on_request_only():
    built = build_job()
    assert timeline_of(built.records, with_events=False)[1].events.count == 0
    assert timeline_of(built.records)[1].events.count > 0


def test_without_steps_the_timeline_is_empty():
    flows = [Flow("a", "b", 0, 60 * SECOND, 10**9), Flow("b", "a", 0, 60 * SECOND, 10**9)]
    _, timeline = timeline_of(flows)
    assert (timeline.steps.count, timeline.events.count, timeline.confidence) == (0, 0, 0.0)
