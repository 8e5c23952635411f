"""How a job ends: built jobs, cut off at a known place."""

import numpy as np
import pytest

from llmprism.diagnose.endings import Ending
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.stopped import _place_confidence, _with_lockstep, find_stopped, job_state
from llmprism.model import FindingKind, Job, JobLayout, JobState, Layout, PairRoles, Where, WhereType, Window
from llmprism.parallelism import identify_layout
from llmprism.timeline import reconstruct_timeline
from support.stages import recognize
from unit.builders import MS, SECOND, Flow, address_of, build_job, chatter, transfer_table


def verdict(records, window_end_ns=None):
    """(state, findings) of the one job in these records, seen up to some time."""
    transfers = transfer_table(records)
    (job,) = recognize(transfers).jobs
    layout = identify_layout(job)
    timeline = reconstruct_timeline(job, layout, with_events=False)
    window = Window(int(transfers.start_ns.min()), int(window_end_ns or transfers.end_ns.max()))
    state = job_state(job, timeline, window)
    return state, find_stopped(job, timeline, window, state)


def stopped_job(stage, replica, **shape):
    """A job in whose last step one member never gets done: its records, that member, the start of that step."""
    job = build_job(compute_factor=lambda s, r, step: 1e6 if (s, r, step) == (stage, replica, 19) else 1.0, **shape)
    begin = job.step_ends_ns[-2]
    return [r for r in job.records if r.start_ns < begin + SECOND], address_of(job.shape, stage, replica, 0), begin, job


SHAPES = [{}, {"pp": 1, "dp": 4}, {"pp": 2, "dp": 3}]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_that_ends_with_a_step_or_with_the_window_did_not_stop(shape):
    job = build_job(**shape)
    end = job.step_ends_ns[-1]
    assert verdict(job.records) == (JobState.RUNNING, [])
    assert verdict(job.records, end + 60 * SECOND) == (JobState.ENDED, [])
    for share in (0.2, 0.5, 0.8):
        limit = job.step_ends_ns[-2] + int(share * (end - job.step_ends_ns[-2]))
        seen = [r for r in job.records if r.end_ns <= limit]
        assert verdict(seen, limit) == (JobState.RUNNING, []), "the window ends in the middle of a step"


@pytest.mark.parametrize(
    ("stage", "replica", "shape"),
    [(1, 0, {}), (0, 1, {}), (0, 2, {"pp": 1, "dp": 4}), (1, 2, {"pp": 2, "dp": 3}), (0, 0, {"pp": 2, "dp": 3})],
)
def test_a_job_that_falls_silent_inside_a_step_crashed(stage, replica, shape):
    records, culprit, begin, job = stopped_job(stage, replica, **shape)
    records = [r for r in records if r.dst != culprit or r.start_ns < begin]  # nobody writes to a dead rank
    beats = chatter(job.members, job.shape.start_ns, begin)
    state, findings = verdict(records + beats, begin + 30 * SECOND)
    assert state is JobState.CRASHED
    (finding,) = findings
    assert finding.kind is FindingKind.CRASH
    assert finding.where == Where(WhereType.GPU, culprit)
    assert finding.confidence >= RULES.who_stopped.named
    assert all(one.kind is FindingKind.HANG for one in finding.alternatives if one.where == finding.where)
    assert sum(one.confidence for one in finding.alternatives) <= 1.0 - finding.confidence + 0.01
    assert finding.end_ns is None
    assert finding.severity == 1.0
    assert abs(finding.start_ns - begin) < SECOND
    assert finding.lost_gpu_seconds == pytest.approx(30 * len(job.members), rel=0.05)


def test_a_rank_that_is_written_to_and_never_answers_hangs_where_there_are_no_heartbeats():
    records, culprit, begin, _ = stopped_job(1, 2, pp=2, dp=3)
    state, findings = verdict(records, begin + 30 * SECOND)
    assert state is JobState.HUNG
    assert [(f.kind, f.where.id) for f in findings] == [(FindingKind.HANG, culprit)]


def test_a_job_whose_ranks_still_talk_hangs():
    records, culprit, begin, job = stopped_job(1, 2, pp=2, dp=3)
    beats = chatter(job.members, job.shape.start_ns, begin + 30 * SECOND)
    state, findings = verdict(records + beats)
    assert state is JobState.HUNG
    assert [(f.kind, f.where.id) for f in findings] == [(FindingKind.HANG, culprit)]


def standing_still(seconds, heard=1.0, stored_s=None):
    """A job that begins no further step; a share of its members is heard for so long; one writes to storage."""
    job = build_job(pp=1, dp=4)
    end = job.step_ends_ns[-1]
    beats = chatter(job.members, job.shape.start_ns, end)
    names = sorted(job.members)
    late = chatter(names[: round(heard * len(names))], end, end + seconds * SECOND)
    writes = [
        Flow(name, "storage", end + at * SECOND, end + at * SECOND + MS, 90_000_000)
        for at in range(1, stored_s or 0)
        for name in names
    ]
    return verdict(job.records + beats + late + writes, end + seconds * SECOND)


def test_a_job_that_begins_no_further_step_hangs_and_nobody_is_named():
    state, (finding,) = standing_still(30)
    assert state is JobState.HUNG
    assert (finding.kind, finding.where.type) == (FindingKind.HANG, WhereType.JOB)
    assert "ranks are alive" in finding.summary


def test_ten_seconds_of_many_short_steps_may_be_an_evaluation():
    state, (finding,) = standing_still(15)
    assert state is JobState.HUNG
    assert finding.confidence == RULES.endings.sure_pause < standing_still(30)[1][0].confidence


@pytest.mark.parametrize("how", [{"seconds": 8}, {"seconds": 30, "heard": 0.5}, {"seconds": 30, "stored_s": 25}])
def test_a_short_pause_a_few_stragglers_and_a_checkpoint_are_no_hang(how):
    state, findings = standing_still(**how)
    assert (state, findings) == (JobState.ENDED, [])


def test_a_control_record_that_outlasts_the_job_says_nothing():
    """An exporter may write one record of a connection when it forgets it, long after its last packet."""
    job = build_job(pp=1, dp=4)
    end, (one, _, other, _) = job.step_ends_ns[-1], sorted(job.members)
    lasting = Flow(one, other, end - SECOND, end + 59 * SECOND, 500)
    assert verdict([*job.records, lasting], end + 60 * SECOND) == (JobState.ENDED, [])


def test_a_job_without_steps_has_no_state():
    job = build_job(pp=1, dp=2, steps=1, setup_bytes=0)
    state, findings = verdict(job.records, job.step_ends_ns[-1] + 60 * SECOND)
    assert (state, findings) == (JobState.UNKNOWN, [])


def test_a_checkpoint_at_the_end_of_the_window_is_no_stop():
    job = build_job(pause_after={9: 3_000.0})
    limit = job.step_ends_ns[9] + 2_900 * MS
    state, findings = verdict([r for r in job.records if r.end_ns <= limit], limit)
    assert findings == []
    assert state in (JobState.RUNNING, JobState.ENDED)


def sure(state=JobState.CRASHED, overdue=0.2, silence=20.0, chance=0.9, culprit=0):
    """Confidence in an ending of a job with steps of one second; times in steps."""
    last = 100 * SECOND
    since = last - int(overdue * SECOND)
    times = {"since_ns": since, "chance": chance}
    result = Ending(state, 9, 99 * SECOND, last, None, int(silence * SECOND), last, float(SECOND), culprit, **times)
    return _place_confidence(result, RULES)


def test_who_is_named_is_as_sure_as_likely():
    assert [sure(chance=chance) for chance in (0.55, 0.9)] == [0.55, 0.9]


def test_a_hang_that_was_hardly_watched_is_hardly_sure():
    assert sure(JobState.HUNG, silence=1.0) < 0.6 < sure(JobState.HUNG)


def test_where_nobody_is_named_the_job_surely_broke_off():
    assert sure(culprit=-1, chance=0.4) == RULES.endings.sure_nobody


def test_where_nobody_was_missed_before_the_others_the_likeliest_are_listed():
    """The job is killed as a whole in the middle of a step."""
    job = build_job(pp=2, dp=3)
    begin, end = job.step_ends_ns[-2:]
    records = [r for r in job.records if r.end_ns <= begin + (end - begin) * 7 // 10]
    state, (finding,) = verdict(records, begin + 30 * SECOND)
    assert (state, finding.where.type) == (JobState.CRASHED, WhereType.JOB)
    assert finding.place_confidence > 0.8
    shares = [one.confidence for one in finding.alternatives if one.kind is finding.kind]
    assert len(shares) == RULES.endings.most_suspects
    assert shares == sorted(shares, reverse=True)
    assert RULES.who_stopped.least_listed <= shares[-1]
    assert shares[0] < RULES.who_stopped.named, "likelier that it is one of the others"


@pytest.mark.parametrize(
    ("width", "together"),
    [(None, [{0, 1, 2, 3}, {4, 5}]), (2, [{0, 1}, {2, 3}, {4, 5}]), (1, [{0}, {1}, {2}, {3}, {4}, {5}])],
)
def test_those_of_a_server_are_one_place_if_they_are_one_tensor_parallel_group(width, together):
    """Four GPUs of `x` are two stages of two, those of `y` one stage more."""
    job = Job("job", (0, 1, 2, 3, 4, 5), (), 1.0, transfer_table([]), places=("x",) * 4 + ("y",) * 2)
    layout = JobLayout(
        Layout(tp=width), (), ((0, 2, 4), (1, 3, 5)), PairRoles.empty(), np.zeros(0, dtype=np.int8)
    )  # fmt: skip
    places = _with_lockstep(job, layout).places
    assert [{i for i in range(6) if places[i] == place} for place in dict.fromkeys(places)] == together


def test_without_servers_nothing_is_known_of_places():
    job = Job("job", (0, 1), (), 1.0, transfer_table([]))
    layout = JobLayout(Layout(tp=2), (), (), PairRoles.empty(), np.zeros(0, dtype=np.int8))
    assert _with_lockstep(job, layout).places == ()
