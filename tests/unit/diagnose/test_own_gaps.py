"""Who ends its silences by itself: the member that computes longer, and not those that wait for it."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.own_gaps import made_up_of, own_gaps
from llmprism.kernel import always_compiled, always_interpreted
from llmprism.model import Job, Steps
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.ring_builder import NAMES, STEPS, USUAL, ring, ring_evidence


def pushed(slow: str, steps: int = STEPS, slow_ms: int = 160) -> tuple[Job, Steps]:
    """Rings whose messages are pushed: whoever is ready sends a first piece at once, and the next ones when all are;
    the one before the slow member goes on when that takes its piece, a little after the slow member itself."""
    flows: list[Flow] = []
    ends = [0]
    for step in range(steps):
        now = ends[-1]
        ill = slow and not USUAL[step]
        ready = now + 40 * MS
        free = ready + (slow_ms if ill else 0) * MS
        first = NAMES.index(slow) if slow else 0
        for place in range(len(NAMES)):
            at = (first + place) % len(NAMES)
            name, to = NAMES[at], NAMES[(at + 1) % len(NAMES)]
            if name != slow or not ill:
                flows.append(Flow(name, to, ready, ready + 2 * MS, 1_000_000, None))
            turn = free + 5 * MS + place * 3 * MS
            if ill and to == slow:
                turn = free + 5 * MS + MS // 5  # there is room again
            flows.append(Flow(name, to, turn, turn + 3 * MS, 1_000_000, None))
        ends.append(free + 5 * MS + len(NAMES) * 3 * MS)
    end = np.array(ends, dtype=np.int64)
    cut = Steps(end[:-1], end[1:], np.zeros(steps, dtype=np.bool_))
    return Job("job", tuple(range(len(NAMES))), (), 1.0, transfer_table(flows)), cut


def grown(job: Job, steps: Steps) -> np.ndarray:
    return own_gaps(ring_evidence(job, steps)).grown(len(NAMES), ~USUAL, USUAL)


def test_the_own_silences_of_the_slow_member_grow_by_what_it_computes_longer_and_nobody_elses():
    by = grown(*ring(slow="c"))
    assert by[NAMES.index("c")] >= 150 * MS
    assert np.delete(by, NAMES.index("c")).max() < 10 * MS


def test_the_one_before_a_slow_member_is_kept_by_it_where_messages_are_pushed():
    by = grown(*pushed("c"))
    assert by[NAMES.index("c")] >= 150 * MS
    assert np.delete(by, NAMES.index("c")).max() < 30 * MS


def test_what_a_member_is_sent_while_it_computes_does_not_end_its_silence():
    job, steps = pushed("c")
    gaps = own_gaps(ring_evidence(job, steps))
    own, _ = gaps.of_one(NAMES.index("c"), int(np.flatnonzero(~USUAL)[0]))
    assert own.max() >= 190 * MS  # although b sends it a piece after 40 ms


def test_a_slow_hop_makes_many_short_silences_and_a_slow_member_none_more():
    counts = {}
    for name, made in {"gpu": ring(slow="c"), "hop": ring(hops=("bc",))}.items():
        gaps = own_gaps(ring_evidence(*made))
        row = NAMES.index("c" if name == "gpu" else "b")
        counts[name] = gaps.times_as_many(row, ~USUAL, USUAL, 0.8, STEPS)
    assert counts["gpu"] <= 1.0
    assert counts["hop"] >= 5.0


def test_silences_begin_no_earlier_than_their_step():
    job, steps = ring()
    later = replace(steps, start_ns=steps.start_ns + 35 * MS)
    made = ring_evidence(job, steps)
    gaps = own_gaps(replace(made, timeline=replace(made.timeline, steps=later)))
    assert gaps.length_ns[gaps.own].max() <= 5 * MS


def test_how_many_silences_make_up_most_of_the_time():
    assert made_up_of(np.array([1.0, 8.0, 1.0]), 0.8) == 1
    assert made_up_of(np.full(10, 2.0), 0.8) == 8
    assert made_up_of(np.zeros(0), 0.8) == 0


def test_compiled_and_interpreted_silences_are_equal():
    made = ring_evidence(*pushed("b"))
    with always_interpreted():
        one = own_gaps(made)
    with always_compiled():
        other = own_gaps(made)
    for name in ("member", "step", "length_ns", "own"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
