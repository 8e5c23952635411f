"""Who ends its silences by itself: the member that computes longer, and not those that wait for it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.own_gaps import made_up_of, own_gaps
from llmprism.kernel import always_compiled, always_interpreted
from llmprism.model import Job, Steps
from llmprism.model.layout import PairKind
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.ring_builder import NAMES, STEPS, USUAL, pair_names, ring, ring_evidence, with_kinds


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


def test_what_lies_between_two_steps_is_no_silence():
    job, steps = ring()
    later = replace(steps, start_ns=steps.start_ns + 35 * MS)
    made = ring_evidence(job, steps)
    gaps = own_gaps(replace(made, timeline=replace(made.timeline, steps=later)))
    assert gaps.length_ns[gaps.own].max() <= 6 * MS


def test_a_silence_into_which_the_clock_puts_the_end_of_a_step_is_whole():
    job, steps = ring(slow="c")
    moved = replace(steps, start_ns=steps.start_ns + 30 * MS, end_ns=steps.end_ns + 30 * MS)
    assert grown(job, moved) == pytest.approx(grown(job, steps), abs=MS)


def exchanged(slow: Callable[[int], list[Flow]], usual: Callable[[int], list[Flow]], piped: str = "") -> np.ndarray:
    """What the own silences of a, b and c grew by where they exchange this in slower steps and that in usual ones,
    of 230 and 60 ms; messages between a letter of `piped` and another one are those of a pipeline."""
    start = np.concatenate([[0], np.cumsum(np.where(USUAL, 60, 230))])
    flows = [flow for step in range(STEPS) for flow in (usual if USUAL[step] else slow)(int(start[step]))]
    flows += [flow for pair in ("ab", "ba", "cb") for flow in sent(pair, *(start[1:] - 2).tolist())]
    steps = Steps(start[:-1] * MS, start[1:] * MS, np.zeros(STEPS, dtype=np.bool_))
    job = Job("job", (0, 1, 2), (), 1.0, transfer_table(flows))
    kinds = [PairKind.PP if set(piped) & set(name) else PairKind.DP for name in pair_names(job)]
    made = with_kinds(ring_evidence(job, steps), np.array(kinds)[job.transfers.pair_of_row])
    return own_gaps(made).grown(3, ~USUAL, USUAL)


def sent(pair: str, *at_ms: float) -> list[Flow]:
    return [Flow(pair[0], pair[1], int(at * MS), int(at * MS) + MS, 1_000_000, None) for at in at_ms]


def test_who_waits_until_its_receiver_is_done_with_its_pipeline_is_kept_by_it():
    def usual(now):
        return sent("ab", now + 40) + sent("ba", now + 41) + sent("bc", now + 10) + sent("cb", now + 20)

    def slow(now):  # c takes 40 ms for each of four micro-batches, and a has pushed a piece
        turns = [now + 10 + 42 * turn for turn in range(5)]
        piped = sent("bc", *turns) + sent("cb", *(turn + 40 for turn in turns[:-1]))
        return piped + sent("ab", now + 40, now + 200.5) + sent("ba", now + 200)

    by = exchanged(slow, usual, piped="c")
    assert by[0] < 20 * MS
    assert by[2] >= 100 * MS


def test_nobody_waits_for_one_that_pushes_and_probes_until_its_receiver_comes():
    def usual(now):
        return sent("ab", now + 40) + sent("ba", now + 41) + sent("cb", now + 40)

    def slow(now):
        return (
            sent("ab", now + 40, now + 60, now + 80, now + 100, now + 225)
            + sent("ba", now + 220)
            + sent("cb", now + 40)
        )

    by = exchanged(slow, usual)
    assert by[0] < 50 * MS
    assert by[1] >= 150 * MS


def test_who_waits_until_its_receiver_is_sent_the_same_by_another_is_kept_by_it():
    def usual(now):
        return sent("ab", now + 40) + sent("cb", now + 40) + sent("ba", now + 45) + sent("bc", now + 46)

    def slow(now):  # a tree: b takes the next piece of a when it has got that of c
        return sent("ab", now + 40, now + 202) + sent("cb", now + 200) + sent("ba", now + 205) + sent("bc", now + 206)

    by = exchanged(slow, usual)
    assert by[0] < 20 * MS
    assert by[2] >= 150 * MS


def test_the_rest_of_a_message_whose_head_came_before_is_no_answer_although_it_is_stamped_first():
    def usual(now):
        return sent("ab", now + 40) + sent("bc", now + 41) + sent("cb", now + 40)

    def slow(now):  # b computes; a has pushed the head of its message to it, and the rest leaves when b goes on
        return sent("ab", now + 60, now + 219.8) + sent("bc", now + 220) + sent("cb", now + 40)

    by = exchanged(slow, usual)
    assert by[1] >= 150 * MS
    assert by[0] < 50 * MS, "a is kept by b, although b goes on a little later"


def test_a_message_that_is_still_on_its_way_did_not_make_its_receiver_go_on():
    def usual(now):
        return sent("ab", now + 40) + sent("bc", now + 41) + sent("cb", now + 40)

    def slow(now):  # b goes on when c's message is there; that of a, which was kept by b, leaves in the same moment
        return sent("cb", now + 199) + sent("ab", now + 199.9) + sent("bc", now + 200)

    by = exchanged(slow, usual)
    assert by[0] < 20 * MS
    assert by[2] >= 100 * MS


def test_each_message_of_a_pair_is_of_its_own_kind():
    """b and c exchange contexts and gradients: what they exchange while a waits for b's gradients is not these."""
    start = np.concatenate([[0], np.cumsum(np.where(USUAL, 60, 260))])
    flows, kinds = [], []
    for now, usual in zip(start[:-1].tolist(), USUAL, strict=True):
        late = 0 if usual else 200
        contexts = [flow for at in range(10, 40 + late, 10) for flow in sent("bc", now + at) + sent("cb", now + at + 5)]
        gradients = sent("bc", now + 40 + late) + sent("ab", now + 40.2 + late) + sent("ca", now + 42 + late)
        flows += contexts + gradients
        kinds += [PairKind.CP] * len(contexts) + [PairKind.DP] * len(gradients)
    steps = Steps(start[:-1] * MS, start[1:] * MS, np.zeros(STEPS, dtype=np.bool_))
    job = Job("job", (0, 1, 2), (), 1.0, transfer_table(flows))
    kind_at = {(flow.start_ns, flow.src): kind for flow, kind in zip(flows, kinds, strict=True)}
    transfers = job.transfers
    ends = zip(transfers.start_ns.tolist(), transfers.pair_src[transfers.pair_of_row].tolist(), strict=True)
    made = ring_evidence(job, steps)
    by = own_gaps(with_kinds(made, np.array([kind_at[start, "abc"[src]] for start, src in ends])))
    assert by.grown(3, ~USUAL, USUAL)[0] < 20 * MS
    assert own_gaps(made).grown(3, ~USUAL, USUAL)[0] >= 150 * MS, "as if all of them were gradients"


def test_the_tail_of_the_last_exchange_is_no_head_of_the_next_one():
    def usual(now):
        return sent("ab", now + 40) + sent("bc", now + 41) + sent("cb", now + 40)

    def slow(now):  # a computes, and b waits for it
        return sent("ab", now + 1, now + 220) + sent("bc", now + 220.5) + sent("cb", now + 40)

    by = exchanged(slow, usual)
    assert by[0] >= 150 * MS
    assert by[1] < 20 * MS


def test_how_many_silences_make_up_most_of_the_time():
    assert made_up_of(np.array([1.0, 8.0, 1.0]), 0.8) == 1
    assert made_up_of(np.full(10, 2.0), 0.8) == 8
    assert made_up_of(np.zeros(0), 0.8) == 0


def test_compiled_and_interpreted_silences_are_equal():
    made = ring_evidence(*pushed("b"))
    with always_interpreted():
        one = own_gaps(made)
    with always_compiled():
        other = own_gaps(replace(made))  # the last answer is kept
    assert one is not other
    assert own_gaps(made) is not other
    for name in ("member", "step", "length_ns", "own", "piped"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
