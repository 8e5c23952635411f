from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.clock_score import pauses_of
from llmprism.parallelism.compound_steps import Compound, _are_parts, _saved, _worth, are_alike, are_steps, slower_clock
from llmprism.parallelism.rules import RULES
from unit.builders import Flow, transfer_table

UNIT = 50_000_000


def series(steps, parts, between, after, pieces=4, piece=2 * UNIT, seldom=()):
    """Steps of equal parts on two pairs: `pieces` messages each, a pause of `between` units after a part and of `after`
    more after the last one of a step, jittered by a percent; a third pair sends with the `seldom` parts only. Gives the
    pauses, and the times of parts and steps."""
    random, rows, begins, now = np.random.default_rng(3), [], [], 0
    for _ in range(steps):
        for part in range(parts):
            begins.append(now - 1)
            for _ in range(pieces):
                pairs = (("a", "b"), ("b", "a"), ("b", "c"))[: 3 if part in seldom else 2]
                rows += [Flow(a, b, now, now + piece, 1_000_000) for a, b in pairs]
                now += int((piece + 0.5 * UNIT) * random.normal(1.0, 0.01))
            now += int((between + (after if part == parts - 1 else 0)) * UNIT * random.normal(1.0, 0.01))
    begins = np.array(begins, dtype=np.int64)
    return pauses_of(transfer_table(rows), np.arange(3 if seldom else 2)), begins, begins[::parts]


def clock(times):
    return StepClock(times, np.ones(times.size - 1, dtype=np.bool_), 1.0)


def test_a_pause_after_every_fourth_pass_makes_four_passes_a_step():
    pauses, passes, steps = series(steps=12, parts=4, between=1, after=6)
    found = slower_clock(pauses, clock(passes), [clock(steps)])
    assert found is not None
    assert found[0].steps == 11
    assert found[1].ticks == 4
    assert found[1].once


def test_equal_steps_have_no_slower_clock():
    pauses, passes, steps = series(steps=12, parts=4, between=1, after=0)
    assert slower_clock(pauses, clock(passes), [clock(steps)]) is None


@pytest.mark.parametrize(("after", "alike"), [(0, True), (1, False), (6, False)])
def test_ticks_are_alike_where_the_place_in_a_slower_step_tells_nothing(after, alike):
    pauses, passes, steps = series(steps=12, parts=4, between=1, after=after)
    assert are_alike(pauses, passes, steps) == alike


@pytest.mark.parametrize(("after", "alike"), [(0, True), (6, False)])
def test_ticks_of_one_message_are_compared_by_their_lengths(after, alike):
    """Messages that come once in a tick have no parts that could differ."""
    pauses, ticks, steps = series(steps=12, parts=3, between=8, after=after, pieces=1)
    assert are_alike(pauses, ticks, steps) is alike


def test_ticks_that_are_no_part_of_the_slower_step_are_not_known_to_be_alike():
    pauses, passes, _ = series(steps=12, parts=4, between=1, after=0)
    assert not are_alike(pauses, passes, np.linspace(passes[0], passes[-1], 31).astype(np.int64))


@pytest.mark.parametrize(("every", "parts"), [(10, False), (3, True)])
def test_steps_with_a_long_pause_of_their_own_stay_steps_between_evaluations(every, parts):
    """A pause of 30 units stands out from those of half a unit; nobody evaluates after every third step."""
    pauses, passes, steps = series(steps=8, parts=every, between=30, after=40)
    assert (slower_clock(pauses, clock(passes), [clock(steps)]) is not None) == parts


@pytest.mark.parametrize(("seldom", "parts"), [((), False), ((9,), True), ((8, 9), True), ((3, 9), False)])
def test_what_some_pairs_send_once_is_a_step_however_much_its_parts_look_like_steps(seldom, parts):
    """Gradients go over pairs of their own, and every micro-batch has a pause that stands out."""
    pauses, passes, steps = series(steps=8, parts=10, between=30, after=40, seldom=seldom)
    assert (slower_clock(pauses, clock(passes), [clock(steps)]) is not None) == parts
    assert are_steps(pauses, passes, steps, behind=0.3) != parts


def test_of_two_clocks_that_explain_as_much_the_faster_one_is_taken():
    pauses, passes, steps = series(steps=16, parts=4, between=1, after=6)
    found = slower_clock(pauses, clock(passes), [clock(steps[::2]), clock(steps)])
    assert found is not None
    assert found[1].ticks == 4


def test_a_clock_that_is_no_multiple_explains_nothing():
    _, passes, _ = series(steps=12, parts=4, between=1, after=6)
    pauses, _, _ = series(steps=12, parts=4, between=1, after=6)
    odd = np.linspace(passes[0], passes[-1], 31).astype(np.int64)
    assert slower_clock(pauses, clock(passes), [clock(odd)]) is None


def test_a_slower_rhythm_that_was_seen_a_few_times_makes_no_step():
    """A tick that is twice as long, with nothing else in it: it may be an evaluation."""
    compound = Compound(ticks=5, bits=40.0, tick_bits=30.0, once=True, extra=1.0, steps=5)
    assert not _are_parts(compound, 2.0, RULES)
    assert _are_parts(replace(compound, steps=9), 2.0, RULES)
    assert not _are_parts(replace(compound, steps=9), 15.0, RULES)
    assert _are_parts(replace(compound, steps=20), 15.0, RULES)
    assert not _are_parts(replace(compound, steps=20, ticks=10), 15.0, RULES)
    assert _are_parts(replace(compound, extra=4.0), 2.0, RULES)


def test_many_bits_need_no_longer_ticks_and_no_pause_that_stands_out():
    """Passes whose optimizer takes a hundredth of one, seen 26 times; layers with a pause of their own."""
    passes = Compound(ticks=8, bits=625.0, tick_bits=19.7, once=True, extra=0.016, steps=26)
    assert _worth(passes, RULES)
    assert not _worth(replace(passes, bits=60.0), RULES)
    layers = Compound(ticks=12, bits=140.0, tick_bits=60.0, once=True, extra=3.7, steps=9)
    assert _are_parts(layers, 16.0, RULES)
    assert not _are_parts(replace(layers, bits=90.0, tick_bits=40.0), 16.0, RULES)
    assert not _are_parts(replace(layers, tick_bits=100.0), 16.0, RULES)


def test_ticks_between_evaluations_are_the_steps_where_one_of_many_differs():
    pauses, passes, steps = series(steps=8, parts=10, between=30, after=40)
    assert are_steps(pauses, passes, steps, behind=0.3)
    assert not are_steps(pauses, passes, steps, behind=2.0)  # more than a single tick can cost
    few, passes, steps = series(steps=8, parts=5, between=30, after=40)
    assert not are_steps(few, passes, steps, behind=0.3)
    alike, passes, steps = series(steps=8, parts=10, between=30, after=0)
    assert not are_steps(alike, passes, steps, behind=0.0)


def two_lengths(seed):
    """Ticks in which most entries of a part are equal to the bit, the others five times as long."""
    random = np.random.default_rng(seed)
    lengths = random.normal(0.0, 0.1, (80, 9))
    lengths[:, 8] = np.where(random.random(80) < 0.4, random.normal(2.4, 0.05, 80), 0.0)
    return lengths, np.tile(np.arange(10), 8)


def test_parts_of_two_lengths_by_chance_make_no_step():
    """Some place has more of one length in any case; without regard to chance 16 of these 30 are worth a step."""
    found = [_saved(*two_lengths(seed), RULES) for seed in range(30)]
    assert sum(one is not None and one.bits >= 2 * RULES.clock.compound_bits for one in found) <= 3


def test_a_tick_that_is_longer_every_time_is_no_chance():
    lengths, place = two_lengths(5)
    lengths[place == 9] += 1.0
    found = _saved(lengths, place, RULES)
    assert found is not None
    assert _worth(found, RULES)
