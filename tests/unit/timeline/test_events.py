import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.model import EventKind, Job, JobLayout, Layout, PairKind, PairRoles, Steps
from llmprism.parallelism import identify_layout
from llmprism.timeline.events import events_of
from llmprism.timeline.rules import RULES
from llmprism.timeline.steps import steps_of
from support.stages import recognize
from unit.builders import MS, Flow, build_job, cut_in_pieces, transfer_table

COMPUTE, SEND, RECV, DP, IDLE = (
    EventKind.COMPUTE, EventKind.PP_SEND, EventKind.PP_RECV, EventKind.DP, EventKind.IDLE,
)  # fmt: skip


def events(flows, kinds, steps_ms):
    """Events of a job made of (pair, start, end, bytes) in ms; `kinds` says what each pair carries."""
    records = [Flow(pair[0], pair[1], start * MS, end * MS, size) for pair, start, end, size in flows]
    transfers = transfer_table(records)
    names = transfers.addresses
    of_pair = [kinds[names[s] + names[d]] for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    kind = np.repeat(np.array(of_pair, dtype=np.int8), np.diff(transfers.pair_offsets))
    layout = JobLayout(Layout(), (), (), PairRoles.empty(), kind)
    job = Job("job", tuple(range(len(names))), (), 1.0, transfers)
    start, end = (np.array(side, dtype=np.int64) * MS for side in zip(*steps_ms, strict=True))
    return names, events_of(job, layout, Steps(start, end, np.zeros(start.size, dtype=np.bool_)))


def story(names, found, address):
    """What one member does: (kind, start, end, peer, bytes)."""
    rows = np.flatnonzero(found.address == names.index(address))
    return [
        (EventKind(found.kind[i]), int(found.start_ns[i] // MS), int(found.end_ns[i] // MS),
         names[found.peer[i]] if found.peer[i] >= 0 else None, int(found.bytes[i]))
        for i in rows
    ]  # fmt: skip


def test_a_pipeline_message_is_a_send_and_a_receipt():
    names, found = events([("ab", 20, 30, 5_000)], {"ab": PairKind.PP}, [(0, 100)])
    assert story(names, found, "a") == [
        (COMPUTE, 0, 20, None, 0), (SEND, 20, 30, "b", 5_000), (IDLE, 30, 100, None, 0),
    ]  # fmt: skip
    assert story(names, found, "b") == [
        (COMPUTE, 0, 20, None, 0), (RECV, 20, 30, "a", 5_000), (IDLE, 30, 100, None, 0),
    ]  # fmt: skip


def test_a_wait_for_the_answer_to_what_was_handed_on_is_idleness():
    flows = [("ab", 10, 20, 5_000), ("ba", 60, 70, 5_000), ("ab", 80, 90, 5_000)]
    names, found = events(flows, {"ab": PairKind.PP, "ba": PairKind.PP}, [(0, 90)])
    kinds = [kind for kind, *_ in story(names, found, "a")]
    assert kinds == [COMPUTE, SEND, IDLE, RECV, COMPUTE, SEND]


def test_gradient_messages_close_to_each_other_are_one_event():
    near = RULES.fuse_ns // MS
    flows = [("ab", 10, 20, 5_000), ("ab", 20 + near, 30, 4_000), ("ab", 40, 50, 3_000)]
    names, found = events(flows, {"ab": PairKind.DP}, [(0, 50)])
    assert story(names, found, "a") == [
        (COMPUTE, 0, 10, None, 0), (DP, 10, 30, "b", 9_000), (COMPUTE, 30, 40, None, 0), (DP, 40, 50, "b", 3_000),
    ]  # fmt: skip
    assert [row[4] for row in story(names, found, "b") if row[0] is DP] == [0, 0], (
        "bytes are counted where they are sent"
    )


def test_pipeline_messages_are_not_put_together():
    names, found = events([("ab", 10, 20, 5_000), ("ab", 22, 30, 5_000)], {"ab": PairKind.PP}, [(0, 30)])
    assert [kind for kind, *_ in story(names, found, "a")].count(SEND) == 2


def test_heartbeats_and_unknown_pairs_are_no_events():
    flows = [("ab", 10, 20, 5_000), ("ab", 50, 51, 200), ("ac", 60, 70, 5_000)]
    names, found = events(flows, {"ab": PairKind.DP, "ac": PairKind.UNKNOWN}, [(0, 100)])
    assert story(names, found, "c") == []
    assert [kind for kind, *_ in story(names, found, "a")] == [COMPUTE, DP, IDLE]


def test_messages_outside_the_steps_belong_to_none_and_gaps_there_are_not_filled():
    flows = [("ab", 10, 20, 5_000), ("ab", 150, 160, 5_000), ("ab", 250, 260, 5_000)]
    names, found = events(flows, {"ab": PairKind.DP}, [(0, 100), (200, 300)])
    own = found.address == names.index("a")
    result = dict(zip((found.start_ns[own] // MS).tolist(), found.step[own].tolist(), strict=True))
    assert result == {0: 0, 10: 0, 20: 0, 150: -1, 200: 1, 250: 1, 260: 1}


def test_a_short_gap_is_not_shown():
    flows = [Flow("a", "b", 0, 10 * MS, 5_000), Flow("a", "b", 10 * MS + RULES.shortest_gap_ns, 20 * MS, 5_000)]
    transfers = transfer_table(flows)
    layout = JobLayout(
        Layout(), (), (), PairRoles.empty(), np.full(2, PairKind.PP, dtype=np.int8)[: transfers.bytes.size]
    )
    steps = Steps(np.array([0]), np.array([20 * MS]), np.zeros(1, dtype=np.bool_))
    found = events_of(Job("job", (0, 1), (), 1.0, transfers), layout, steps)
    assert set(found.kind.tolist()) == {SEND, RECV}


def test_without_steps_there_are_no_events():
    job = Job("job", (0, 1), (), 1.0, transfer_table([Flow("a", "b", 0, 1, 5_000)]))
    layout = JobLayout(Layout(), (), (), PairRoles.empty(), np.full(1, PairKind.DP, dtype=np.int8))
    assert events_of(job, layout, Steps.empty()).count == 0


def assert_sound(found, steps):
    """Sorted; computation and idleness overlap nothing of the same member, and lie inside their step."""
    order = np.lexsort((found.start_ns, found.address))
    assert (order == np.arange(found.count)).all()
    assert (found.end_ns >= found.start_ns).all()
    gap = (found.kind == COMPUTE) | (found.kind == IDLE)
    assert (found.peer[gap] == -1).all()
    assert (found.bytes[gap] == 0).all()
    assert (found.step[gap] >= 0).all()
    assert (found.start_ns[gap] >= steps.start_ns[found.step[gap]]).all()
    assert (found.end_ns[gap] <= steps.end_ns[found.step[gap]]).all()
    inside = found.step >= 0
    assert (found.start_ns[inside] >= steps.start_ns[found.step[inside]]).all()
    assert (found.start_ns[inside] < steps.end_ns[found.step[inside]]).all()
    for address in np.unique(found.address):
        own = np.flatnonzero(found.address == address)
        for i in own[gap[own]]:
            others = own[own != i]
            clash = (found.start_ns[others] < found.end_ns[i]) & (found.end_ns[others] > found.start_ns[i])
            # a message that runs on beyond the end of its own step may reach into the next one's first gap
            assert (found.step[others[clash]] != found.step[i]).all()


def assert_covered(found, steps):
    """A member with messages in a step has an event at every moment of it, but for the shortest gaps."""
    for address in np.unique(found.address):
        for step in range(steps.count):
            own = (found.address == address) & (found.step == step)
            if not own.any():
                continue
            order = np.argsort(found.start_ns[own], kind="stable")
            start, end = found.start_ns[own][order], found.end_ns[own][order]
            horizon = np.maximum.accumulate(np.concatenate([[steps.start_ns[step]], end]))
            holes = np.append(start, steps.end_ns[step]) - horizon
            assert holes.max() <= RULES.shortest_gap_ns


@pytest.mark.parametrize("shape", [{}, {"pp": 1, "dp": 4}, {"pp": 3, "dp": 2, "order": "gpipe"}])
def test_events_of_a_whole_job_are_sound_and_cover_its_steps(shape):
    job = build_job(steps=10, **shape)
    (found,) = recognize(transfer_table(cut_in_pieces(job.records))).jobs
    layout = identify_layout(found)
    steps = steps_of(found, layout)
    result = events_of(found, layout, steps)
    assert steps.count == 10
    assert set(result.address.tolist()) == set(found.members)
    assert_sound(result, steps)
    assert_covered(result, steps)
    sent = (result.kind == SEND) | (result.kind == DP)
    assert result.bytes[sent].sum() == sum(record.bytes for record in job.records)


messages = st.lists(
    st.tuples(
        st.sampled_from(["ab", "ba", "bc", "ca"]), st.integers(0, 300), st.integers(1, 40), st.integers(500, 9_000)
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(messages, st.lists(st.integers(5, 60), min_size=1, max_size=6), st.sampled_from([PairKind.DP, PairKind.PP]))
def test_events_of_any_messages_are_sound_and_cover_their_steps(flows, lengths, kind):
    ends = np.cumsum(lengths)
    steps_ms = [(int(end - length), int(end)) for end, length in zip(ends, lengths, strict=True)]
    kinds = {"ab": kind, "ba": kind, "bc": PairKind.DP, "ca": PairKind.PP}
    _, found = events([(p, s, s + d, b) for p, s, d, b in flows], kinds, steps_ms)
    start, end = (np.array(side, dtype=np.int64) * MS for side in zip(*steps_ms, strict=True))
    steps = Steps(start, end, np.zeros(start.size, dtype=np.bool_))
    assert_sound(found, steps)
    assert_covered(found, steps)
